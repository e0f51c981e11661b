package tailrace.board.gate;

import javax.sql.DataSource;

/** A pool of which at most so many connections are in use at once; who comes first is served first. */
public final class LimitedDataSource extends GatedDataSource {
    /** @param patience ns that a caller waits before it gets an SQLException */
    public LimitedDataSource(DataSource pool, int limit, long patience) {
        this(pool, Gate.inOrder(limit).line(limit), patience);
    }

    /** One of several pools with a common limit: a line of a {@link Gate#inOrder} that they share. */
    public LimitedDataSource(DataSource pool, Gate.Line line, long patience) {
        super(pool, line, () -> true, patience);
    }
}
