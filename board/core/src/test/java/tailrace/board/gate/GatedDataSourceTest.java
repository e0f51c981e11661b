package tailrace.board.gate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.SQLTransientConnectionException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.TimeUnit;
import javax.sql.DataSource;
import org.junit.jupiter.api.Test;

final class GatedDataSourceTest {
    private static final long SHORT = TimeUnit.MILLISECONDS.toNanos(1);
    private static final long LONG = TimeUnit.SECONDS.toNanos(30);

    /** A pool without end; its connections can do nothing but be closed. */
    private int open;

    private final DataSource pool = fake(DataSource.class, method -> {
        if (!method.equals("getConnection")) {
            throw new SQLException("unexpected " + method);
        }
        open++;
        return fake(Connection.class, asked -> {
            if (!asked.equals("close")) {
                throw new SQLException("unexpected " + asked);
            }
            open--;
            return null;
        });
    });

    private interface Does {
        Object call(String method) throws SQLException;
    }

    private static <T> T fake(Class<T> type, Does does) {
        return type.cast(Proxy.newProxyInstance(
                type.getClassLoader(),
                new Class<?>[] {type},
                (self, method, arguments) -> does.call(method.getName())));
    }

    @Test
    void noMoreConnectionsThanTheLimitAreHandedOut() throws SQLException {
        DataSource limited = new LimitedDataSource(pool, 2, SHORT);
        Connection first = limited.getConnection();
        limited.getConnection();
        assertEquals(2, open);
        assertThrows(SQLTransientConnectionException.class, limited::getConnection);
        assertEquals(2, open);
        first.close();
        limited.getConnection();
        assertEquals(2, open);
    }

    @Test
    void aPoolThatFailsGivesItsPlaceBack() throws SQLException {
        SQLException gone = new SQLException("gone");
        DataSource failing = fake(DataSource.class, method -> {
            throw gone;
        });
        DataSource limited = new LimitedDataSource(failing, 1, SHORT);
        assertSame(gone, assertThrows(SQLException.class, limited::getConnection));
        assertSame(gone, assertThrows(SQLException.class, limited::getConnection));
    }

    @Test
    void whatAConnectionThrowsArrivesAsItWas() throws SQLException {
        Connection connection = new LimitedDataSource(pool, 1, SHORT).getConnection();
        assertEquals(
                "unexpected commit",
                assertThrows(SQLException.class, connection::commit).getMessage());
    }

    @Test
    void aLightPageOvertakesHeavyOnesThatWait() throws Exception {
        ThreadLocal<Boolean> light = ThreadLocal.withInitial(() -> false);
        DataSource gated = new PriorityDataSource(pool, 1, light::get, LONG);
        Connection held = gated.getConnection();
        List<String> served = Collections.synchronizedList(new ArrayList<>());
        List<Thread> threads = new ArrayList<>();
        for (String name : List.of("heavy", "light")) {
            Thread thread = new Thread(() -> {
                light.set(name.equals("light"));
                try (Connection connection = gated.getConnection()) {
                    served.add(name + connection.getClass().getInterfaces().length);
                } catch (SQLException e) {
                    served.add(e.toString());
                }
            });
            thread.start();
            threads.add(thread);
            while (thread.getState() != Thread.State.TIMED_WAITING) {
                Thread.onSpinWait();
            }
        }
        held.close();
        for (Thread thread : threads) {
            thread.join();
        }
        assertEquals(List.of("light1", "heavy1"), served);
    }
}
