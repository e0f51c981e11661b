package tailrace.board.blocking;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.sql.SQLException;
import org.mariadb.jdbc.MariaDbDataSource;

/** Connections of the blocking edge: one Hikari pool. */
public final class Pools {
    private Pools() {}

    /**
     * @param url of JDBC, with its time limits
     * @param size connections, all opened at once and kept
     * @param patience ms that a page waits for a free one
     */
    public static HikariDataSource hikari(String url, String user, String password, int size, long patience)
            throws SQLException {
        MariaDbDataSource driver = new MariaDbDataSource(url);
        driver.setUser(user);
        driver.setPassword(password);
        HikariConfig config = new HikariConfig();
        config.setPoolName("board");
        config.setDataSource(driver);
        config.setMaximumPoolSize(size);
        config.setConnectionTimeout(patience);
        // a database that is briefly unreachable must not end the server; its existence is checked before
        config.setInitializationFailTimeout(-1);
        return new HikariDataSource(config);
    }
}
