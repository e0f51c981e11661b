package tailrace.board.async;

import io.vertx.core.Future;
import io.vertx.core.Vertx;
import io.vertx.core.VertxOptions;
import io.vertx.mysqlclient.MySQLBuilder;
import io.vertx.mysqlclient.MySQLConnectOptions;
import io.vertx.mysqlclient.MySQLConnection;
import io.vertx.sqlclient.Pool;
import io.vertx.sqlclient.PoolOptions;
import io.vertx.sqlclient.SqlConnection;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/** Connections of the asynchronous edge: from one pool, or a new one for each page. */
public final class Connections implements AutoCloseable {
    /** Vert.x warns about threads that were blocked for this long; here, collections and stalls are intended. */
    private static final long WARN_NEVER_MS = TimeUnit.DAYS.toMillis(1000);

    private final Vertx vertx;
    private final Supplier<Future<SqlConnection>> supplier;

    /**
     * @param database where it is; has no time limits yet
     * @param size of the pool, 0: a connection for each page
     * @param loops threads that read what the database sends
     * @param patience ms to connect, and without a byte from the database before a connection is given up
     */
    public Connections(MySQLConnectOptions database, int size, int loops, int patience) {
        vertx = Vertx.vertx(
                new VertxOptions().setEventLoopPoolSize(loops).setBlockedThreadCheckInterval(WARN_NEVER_MS));
        MySQLConnectOptions options = new MySQLConnectOptions(database);
        options.setConnectTimeout(patience);
        options.setIdleTimeout(patience).setIdleTimeoutUnit(TimeUnit.MILLISECONDS);
        if (size == 0) {
            supplier = () -> MySQLConnection.connect(vertx, options).map(connection -> connection);
        } else {
            PoolOptions limits = new PoolOptions()
                    .setMaxSize(size)
                    .setMaxWaitQueueSize(-1)
                    .setConnectionTimeout(patience)
                    .setConnectionTimeoutUnit(TimeUnit.MILLISECONDS)
                    .setEventLoopSize(loops);
            Pool pool = MySQLBuilder.pool()
                    .with(limits)
                    .connectingTo(options)
                    .using(vertx)
                    .build();
            supplier = pool::getConnection;
        }
    }

    public Supplier<Future<SqlConnection>> supplier() {
        return supplier;
    }

    @Override
    public void close() {
        vertx.close();
    }
}
