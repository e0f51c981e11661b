package tailrace.board.gate;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;

/**
 * Decides which callers may hold a database connection.
 *
 * <p>Concurrency limit: at most this many in all, so that concurrency does not slow the database down. A
 * {@link Line} is a pool with a size of its own, one for the whole server or one for each kind of request.
 *
 * <p>Cross-tier priority: the database cannot tell a query of a light page from one of a heavy page, so the caller lets
 * light pages go first. Beyond that, heavy ones may have to wait while more than so many light ones hold or want a
 * connection. Both are heuristics (ii) and (i) of "When Average is Not Average: Large Response Time Fluctuations in
 * n-Tier Systems", section 5. Light pages that always fill the gate keep heavy ones out.
 *
 * <p>No thread waits here: a caller that is admitted later is called back, by the thread that made room.
 */
public final class Gate {
    public static final int UNLIMITED = Integer.MAX_VALUE;

    private final int limit;
    private final boolean lightFirst;
    private final int lightMax;
    private final List<Line> lines = new ArrayList<>();
    private int inside;
    private int light;
    private long arrivals;

    private Gate(int limit, boolean lightFirst, int lightMax) {
        if (limit < 1 || lightMax < 0) {
            throw new IllegalArgumentException("a gate lets at least one in, got " + limit + " and " + lightMax);
        }
        this.limit = limit;
        this.lightFirst = lightFirst;
        this.lightMax = lightMax;
    }

    /** First come, first served. */
    public static Gate inOrder(int limit) {
        return new Gate(limit, false, UNLIMITED);
    }

    /** @param lightMax heavy ones wait while more light ones than this are inside or waiting */
    public static Gate lightFirst(int limit, int lightMax) {
        return new Gate(limit, true, lightMax);
    }

    /** @param size how many of this line may be inside */
    public synchronized Line line(int size) {
        if (size < 1) {
            throw new IllegalArgumentException("a line lets at least one in, got " + size);
        }
        Line line = new Line(size);
        lines.add(line);
        return line;
    }

    /** Those that share a pool. */
    public final class Line {
        private final int size;
        private final Deque<Entry> lightOnes = new ArrayDeque<>();
        private final Deque<Entry> heavyOnes = new ArrayDeque<>();
        private int within;

        private Line(int size) {
            this.size = size;
        }

        /**
         * Asks to be let in.
         *
         * @param admitted called once, now or later, by any thread; it must not wait
         * @return to be closed in the end, admitted or not
         */
        public Entry enter(boolean isLight, Runnable admitted) {
            Entry entry = new Entry(this, isLight, admitted);
            List<Entry> next;
            synchronized (Gate.this) {
                entry.arrival = arrivals++;
                queue(entry).add(entry);
                light += isLight ? 1 : 0;
                next = admit();
            }
            next.forEach(other -> other.admitted.run());
            return entry;
        }

        private Deque<Entry> queue(Entry entry) {
            return entry.isLight || !lightFirst ? lightOnes : heavyOnes;
        }
    }

    /** One that is inside, or waits for it. */
    public final class Entry implements AutoCloseable {
        private enum Place {
            WAITING,
            INSIDE,
            GONE
        }

        private final Line line;
        private final boolean isLight;
        private final Runnable admitted;
        private long arrival;
        private Place place = Place.WAITING;

        private Entry(Line line, boolean isLight, Runnable admitted) {
            this.line = line;
            this.isLight = isLight;
            this.admitted = admitted;
        }

        /** Leaves, or waits no longer. Closing again changes nothing. */
        @Override
        public void close() {
            List<Entry> next;
            synchronized (Gate.this) {
                if (place == Place.GONE) {
                    return;
                }
                if (place == Place.INSIDE) {
                    inside--;
                    line.within--;
                } else {
                    line.queue(this).remove(this);
                }
                place = Place.GONE;
                light -= isLight ? 1 : 0;
                next = admit();
            }
            next.forEach(other -> other.admitted.run());
        }
    }

    private List<Entry> admit() {
        List<Entry> admitted = new ArrayList<>(1);
        for (Entry next = next(); next != null; next = next()) {
            next.line.queue(next).remove();
            next.place = Entry.Place.INSIDE;
            next.line.within++;
            inside++;
            admitted.add(next);
        }
        return admitted;
    }

    /** Who goes in next: the first light one of a line that has room, else the first heavy one. */
    private Entry next() {
        if (inside >= limit) {
            return null;
        }
        Entry first = null;
        for (Line line : lines) {
            first = line.within < line.size ? earlier(first, line.lightOnes.peek()) : first;
        }
        if (first != null || light > lightMax) {
            return first;
        }
        for (Line line : lines) {
            first = line.within < line.size ? earlier(first, line.heavyOnes.peek()) : first;
        }
        return first;
    }

    private static Entry earlier(Entry one, Entry other) {
        return one == null || other != null && other.arrival < one.arrival ? other : one;
    }
}
