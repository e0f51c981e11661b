package tailrace.board.data;

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Map;
import java.util.TreeMap;
import tailrace.board.settings.Problem;
import tailrace.board.settings.Settings;

/** The database server, used before there is a pool. */
public final class Database {
    private static final int NO_SUCH_DATABASE = 1049;
    private static final int NO_SUCH_TABLE = 1146;

    private Database() {}

    /** @param schema the database to use, or nothing */
    static Connection connect(Settings.Database database, String schema) throws Problem, SQLException {
        String url = database.url(schema) + "?connectTimeout=" + database.timeoutMs();
        try {
            return DriverManager.getConnection(url, database.user(), database.password());
        } catch (SQLException e) {
            if (e.getErrorCode() == NO_SUCH_DATABASE) {
                throw e;
            }
            throw new Problem(
                    ("the database server at %s:%d cannot be reached as user %s (%s); start MariaDB there, or mend"
                                    + " database.host, .port, .user or .password")
                            .formatted(database.host(), database.port(), database.user(), e.getMessage()));
        }
    }

    /** Makes an empty database when there is none. */
    static void create(Settings.Database database) throws Problem, SQLException {
        try (Connection connection = connect(database, "");
                Statement statement = connection.createStatement()) {
            statement.execute("CREATE DATABASE IF NOT EXISTS " + database.name());
        }
    }

    /** What the data were made from; empty if they do not exist or are incomplete. */
    static Map<String, String> facts(Settings.Database database) throws Problem, SQLException {
        Map<String, String> facts = new TreeMap<>();
        try (Connection connection = connect(database, database.name());
                Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("SELECT name, value FROM facts")) {
            while (rows.next()) {
                facts.put(rows.getString(1), rows.getString(2));
            }
        } catch (SQLException e) {
            if (e.getErrorCode() != NO_SUCH_DATABASE && e.getErrorCode() != NO_SUCH_TABLE) {
                throw e;
            }
        }
        return facts;
    }

    public static void requireWhole(Settings.Database database) throws Problem, SQLException {
        if (facts(database).isEmpty()) {
            throw new Problem(
                    "the database %s has no whole data; make them with: java -jar board.jar data FILE.properties"
                            .formatted(database));
        }
    }
}
