package tailrace.board.cost;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.Arrays;

/**
 * CPU time of a page, spent in a loop of as many turns as fitted into that time when the server started.
 *
 * <p>Turns and not a clock: on a slowed-down or shared CPU the same page then takes longer, as real work does. The
 * calibration counts CPU time of its thread, so that a busy machine does not falsify it.
 */
public final class Work {
    private static final int ROUNDS = 15;
    private static final long ROUND_TURNS = 4_000_000;

    /** The compiler has to believe that somebody looks at the result. */
    private static volatile long result;

    private final double turnsPerNs;

    /** @param turnsPerNs as {@link #calibrated} found it, on this machine or on another that this one shall equal */
    public Work(double turnsPerNs) {
        this.turnsPerNs = turnsPerNs;
    }

    /** Turns per ns of CPU time: the median of {@value #ROUNDS} rounds of about 5 ms, after as many to warm up. */
    public static double calibrated() {
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        double[] rounds = new double[2 * ROUNDS];
        for (int i = 0; i < rounds.length; i++) {
            long begun = threads.getCurrentThreadCpuTime();
            turn(ROUND_TURNS);
            rounds[i] = (double) ROUND_TURNS / Math.max(1, threads.getCurrentThreadCpuTime() - begun);
        }
        double[] warm = Arrays.copyOfRange(rounds, ROUNDS, rounds.length);
        Arrays.sort(warm);
        return warm[ROUNDS / 2];
    }

    public void burn(long ns) {
        turn((long) (ns * turnsPerNs));
    }

    /** A multiplication and an addition that wait for the ones before (Knuth's MMIX generator). */
    private static void turn(long turns) {
        long x = result;
        for (long i = 0; i < turns; i++) {
            x = x * 6364136223846793005L + 1442695040888963407L;
        }
        result = x;
    }
}
