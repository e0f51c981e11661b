package tailrace.board.gate;

import java.util.function.BooleanSupplier;
import javax.sql.DataSource;

/** A pool that serves light pages before heavy ones: cross-tier priority. */
public final class PriorityDataSource extends GatedDataSource {
    /**
     * @param size connections of the pool, or fewer
     * @param light whether the caller makes a light page, for example by a thread-local value that a servlet filter sets
     * @param patience ns that a caller waits before it gets an SQLException
     */
    public PriorityDataSource(DataSource pool, int size, BooleanSupplier light, long patience) {
        this(pool, Gate.lightFirst(size, Gate.UNLIMITED).line(size), light, patience);
    }

    /** One of several pools with common priorities: a line of a {@link Gate#lightFirst} that they share. */
    public PriorityDataSource(DataSource pool, Gate.Line line, BooleanSupplier light, long patience) {
        super(pool, line, light, patience);
    }
}
