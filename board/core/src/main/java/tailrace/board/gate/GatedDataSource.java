package tailrace.board.gate;

import java.io.PrintWriter;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.SQLFeatureNotSupportedException;
import java.sql.SQLTransientConnectionException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.logging.Logger;
import javax.sql.DataSource;

/**
 * A data source behind a {@link Gate}: a connection is handed out when the gate lets the caller in, and closing it makes
 * room for the next. It goes in front of any pool, which then has to have as many connections as the gate lets in.
 *
 * <p>A page must not take a second connection while it holds one: when all do the same, each waits
 * for the others until its patience ends.
 */
public abstract class GatedDataSource implements DataSource {
    private final DataSource pool;
    private final Gate.Line line;
    private final BooleanSupplier light;
    private final long patience;

    /**
     * @param light whether the caller of {@link #getConnection} makes a light page, asked in the caller's thread
     * @param patience ns that a caller waits before it gets an SQLException
     */
    protected GatedDataSource(DataSource pool, Gate.Line line, BooleanSupplier light, long patience) {
        this.pool = pool;
        this.line = line;
        this.light = light;
        this.patience = patience;
    }

    @Override
    public Connection getConnection() throws SQLException {
        Gate.Entry entry = enter();
        try {
            Connection connection = pool.getConnection();
            return (Connection) Proxy.newProxyInstance(
                    GatedDataSource.class.getClassLoader(),
                    new Class<?>[] {Connection.class},
                    (self, method, arguments) -> {
                        try {
                            return method.invoke(connection, arguments);
                        } catch (InvocationTargetException e) {
                            throw e.getCause();
                        } finally {
                            if (method.getName().equals("close")) {
                                entry.close();
                            }
                        }
                    });
        } catch (SQLException | RuntimeException e) {
            entry.close();
            throw e;
        }
    }

    private Gate.Entry enter() throws SQLException {
        CountDownLatch admitted = new CountDownLatch(1);
        Gate.Entry entry = line.enter(light.getAsBoolean(), admitted::countDown);
        try {
            if (admitted.await(patience, TimeUnit.NANOSECONDS)) {
                return entry;
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            entry.close();
            throw new SQLTransientConnectionException("interrupted while waiting for a database connection", e);
        }
        entry.close();
        throw new SQLTransientConnectionException(
                "no database connection became free within " + TimeUnit.NANOSECONDS.toMillis(patience) + " ms");
    }

    /** Not supported: a pool has connections of one user. */
    @Override
    public Connection getConnection(String user, String password) throws SQLException {
        throw new SQLFeatureNotSupportedException("the pool has connections of one user");
    }

    @Override
    public PrintWriter getLogWriter() throws SQLException {
        return pool.getLogWriter();
    }

    @Override
    public void setLogWriter(PrintWriter out) throws SQLException {
        pool.setLogWriter(out);
    }

    @Override
    public void setLoginTimeout(int seconds) throws SQLException {
        pool.setLoginTimeout(seconds);
    }

    @Override
    public int getLoginTimeout() throws SQLException {
        return pool.getLoginTimeout();
    }

    @Override
    public Logger getParentLogger() throws SQLFeatureNotSupportedException {
        return pool.getParentLogger();
    }

    @Override
    public <T> T unwrap(Class<T> type) throws SQLException {
        return type.isInstance(this) ? type.cast(this) : pool.unwrap(type);
    }

    @Override
    public boolean isWrapperFor(Class<?> type) throws SQLException {
        return type.isInstance(this) || pool.isWrapperFor(type);
    }
}
