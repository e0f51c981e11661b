package tailrace.board.cost;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.Arrays;

/**
 * CPU time of a page, spent in a loop whose number of turns took that time when the server started.
 *
 * <p>It counts turns instead of reading a clock: on a slowed-down or shared CPU the same page then takes longer, as
 * real work does. The calibration uses the CPU time of its thread, so other load on the machine does not affect it.
 */
public final class Work {
    private static final int ROUNDS = 15;
    private static final long ROUND_TURNS = 4_000_000;

    /** Keeps the compiler from removing the loop. */
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

    /** A multiplication and an addition that depend on the previous ones (Knuth's MMIX generator). */
    private static void turn(long turns) {
        long x = result;
        for (long i = 0; i < turns; i++) {
            x = x * 6364136223846793005L + 1442695040888963407L;
        }
        result = x;
    }
}
