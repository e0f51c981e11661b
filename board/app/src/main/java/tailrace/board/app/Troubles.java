package tailrace.board.app;

import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;

/** Reports why pages could not be made, at most once a second, because a missing database fails every page. */
final class Troubles implements Consumer<Throwable> {
    private static final long QUIET_NS = 1_000_000_000;

    private final AtomicLong next = new AtomicLong(System.nanoTime());
    private final AtomicLong untold = new AtomicLong();

    @Override
    public void accept(Throwable trouble) {
        long now = System.nanoTime();
        long due = next.get();
        if (now - due < 0 || !next.compareAndSet(due, now + QUIET_NS)) {
            untold.incrementAndGet();
            return;
        }
        long before = untold.getAndSet(0);
        System.err.println(
                "board: a page was answered with 503: " + trouble + (before > 0 ? " (and " + before + " before)" : ""));
        if (!(trouble instanceof Exception) || trouble instanceof RuntimeException && trouble.getCause() == null) {
            trouble.printStackTrace();
        }
    }
}
