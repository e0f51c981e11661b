package tailrace.board.data;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import tailrace.board.settings.Problem;
import tailrace.board.settings.Settings;
import tailrace.board.settings.Sizes;

/**
 * Schema and data. Tables are made under other names, and then renamed all at once. The table that describes the data
 * comes last, so that an interrupted fill never looks complete.
 */
public final class Fill {
    /** Increase it when the same sizes and seed give other rows than before. */
    private static final String VERSION = "1";

    private static final int BATCH_ROWS = 2_000;

    /** Prefix of tables that are not complete yet. */
    private static final String FILLING = "filling_";

    /** Prefix of tables that are no longer needed. */
    private static final String RETIRED = "retired_";

    private static final String FACTS = "facts";
    private static final List<String> TABLES = List.of(
            "categories",
            "users",
            "stories",
            "old_stories",
            "submissions",
            "comments",
            "old_comments",
            "moderator_log");

    /** The sum over stories of the depth of the deepest thread. */
    private static final String DEPTHS =
            """
WITH RECURSIVE threads AS (
  SELECT id, story_id, 1 AS depth FROM comments WHERE parent = 0
  UNION ALL SELECT comments.id, comments.story_id, depth + 1 FROM comments JOIN threads ON parent = threads.id)
SELECT SUM(deepest) FROM (SELECT MAX(depth) AS deepest FROM threads GROUP BY story_id) AS depths
""";

    private final Connection connection;
    private final Settings.Database database;
    private final Consumer<String> tell;

    private Fill(Connection connection, Settings.Database database, Consumer<String> tell) {
        this.connection = connection;
        this.database = database;
        this.tell = tell;
    }

    /** Makes the data, unless they exist, complete, of these sizes and unchanged. */
    public static void fill(Settings.Database database, Sizes sizes, Consumer<String> tell)
            throws Problem, SQLException, IOException {
        Database.create(database);
        try (Connection connection = Database.connect(database, database.name())) {
            Fill fill = new Fill(connection, database, tell);
            fill.lock();
            Map<String, String> facts = Database.facts(database);
            if (sizes.toString().equals(facts.get("sizes"))
                    && VERSION.equals(facts.get("version"))
                    && fill.unchanged(facts)) {
                tell.accept("data " + database + " are there already: " + sizes);
                return;
            }
            fill.requireOurs(facts);
            fill.schema();
            fill.rows(new Rows(sizes));
            fill.analyze();
            fill.facts(sizes);
            fill.rename(!facts.isEmpty());
            tell.accept("data " + database + " are whole: " + sizes);
            fill.measure();
        }
    }

    /** Two simultaneous fills would drop each other's tables. */
    private void lock() throws Problem, SQLException {
        if (number("SELECT GET_LOCK('board " + database.name() + "', 0)") != 1) {
            throw new Problem("somebody else is filling the database " + database + "; wait until that has ended");
        }
    }

    private boolean unchanged(Map<String, String> facts) throws SQLException {
        Map<String, String> now = checksums("");
        return now.entrySet().stream().allMatch(sum -> Objects.equals(sum.getValue(), facts.get(sum.getKey())));
    }

    /** Tables of these names without facts belong to another program, so they must not be dropped. */
    private void requireOurs(Map<String, String> facts) throws Problem, SQLException {
        String names = TABLES.stream().map(table -> "'" + table + "'").collect(Collectors.joining(", "));
        long found = number("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = '"
                + database.name()
                + "' AND table_name IN ("
                + names
                + ")");
        if (facts.isEmpty() && found > 0) {
            throw new Problem(
                    ("the database %s has tables that are not the board's; choose another database.name, or drop"
                                    + " them")
                            .formatted(database));
        }
    }

    private void schema() throws SQLException, IOException {
        drop(FILLING);
        try (InputStream file = Fill.class.getResourceAsStream("schema.sql")) {
            String schema = new String(file.readAllBytes(), StandardCharsets.UTF_8).replaceAll("(?m)^--.*$", "");
            for (String statement : schema.split(";\\R")) {
                if (!statement.isBlank()) {
                    run(statement.replaceAll("CREATE TABLE |LIKE ", "$0" + FILLING));
                }
            }
        }
        // user 0 keeps its number; keys need no check, because they are made correctly
        run("SET SESSION sql_mode = CONCAT(@@sql_mode, ',NO_AUTO_VALUE_ON_ZERO'), unique_checks" + " = 0");
    }

    private void rows(Rows rows) throws SQLException {
        insert("categories", "id, name", rows.categories());
        insert(
                "users",
                "id, firstname, lastname, nickname, password, email, rating, access, creation_date",
                rows.users());
        String story = "id, title, body, date, writer, category";
        insert("old_stories", story, rows.oldStories());
        insert("stories", story, rows.stories());
        insert("submissions", story, rows.submissions());
        String comment = "id, writer, story_id, parent, replies, rating, date, subject, body";
        insert("old_comments", comment, rows.oldComments());
        insert("comments", comment, rows.comments());
    }

    private void insert(String table, String columns, Stream<Object[]> rows) throws SQLException {
        long begun = System.nanoTime();
        long count = 0;
        connection.setAutoCommit(false);
        String marks = columns.replaceAll("\\w+", "?");
        try (PreparedStatement statement = connection.prepareStatement(
                "INSERT INTO " + FILLING + table + " (" + columns + ") VALUES (" + marks + ")")) {
            for (Iterator<Object[]> iterator = rows.iterator(); iterator.hasNext(); ) {
                Object[] row = iterator.next();
                for (int i = 0; i < row.length; i++) {
                    statement.setObject(i + 1, row[i]);
                }
                statement.addBatch();
                if (++count % BATCH_ROWS == 0 || !iterator.hasNext()) {
                    statement.executeBatch();
                    connection.commit();
                }
            }
        }
        connection.setAutoCommit(true);
        tell.accept(String.format("data %s: %d rows in %.1f s", table, count, (System.nanoTime() - begun) / 1e9));
    }

    /**
     * Computes statistics of the complete tables. The database's own are from a moment during the fill. With those of
     * an empty table it reads all top-level comments to find a story's ten.
     */
    private void analyze() throws SQLException {
        run("ANALYZE TABLE " + TABLES.stream().map(table -> FILLING + table).collect(Collectors.joining(", ")));
    }

    private void facts(Sizes sizes) throws SQLException {
        Map<String, String> facts = new LinkedHashMap<>(checksums(FILLING));
        facts.put("version", VERSION);
        facts.put("sizes", sizes.toString());
        insert(FACTS, "name, value", facts.entrySet().stream().map(fact ->
                new Object[] {fact.getKey(), fact.getValue()}));
    }

    /** Renames all at once; of old tables facts go first, of new ones they come last. */
    private void rename(boolean replaces) throws SQLException {
        drop(RETIRED);
        Stream<String> old = Stream.concat(Stream.of(FACTS), TABLES.stream())
                .filter(table -> replaces)
                .map(table -> table + " TO " + RETIRED + table);
        Stream<String> filled = all().map(table -> FILLING + table + " TO " + table);
        run("RENAME TABLE " + Stream.concat(old, filled).collect(Collectors.joining(", ")));
        drop(RETIRED);
    }

    private void drop(String prefix) throws SQLException {
        run("DROP TABLE IF EXISTS " + all().map(table -> prefix + table).collect(Collectors.joining(", ")));
    }

    /** Facts last. */
    private static Stream<String> all() {
        return Stream.concat(TABLES.stream(), Stream.of(FACTS));
    }

    /** Values for an experiment's model of the board: keys of its [rubbos]. */
    private void measure() throws SQLException {
        double stories = number("SELECT COUNT(*) FROM stories");
        tell.accept(String.format(
                "data of stories in the mean: comments = %.2f, replied = %.2f, nested =" + " %.2f, depth = %.2f",
                number("SELECT COUNT(*) FROM comments WHERE parent = 0") / stories,
                number("SELECT COUNT(*) FROM comments WHERE replies > 0") / stories,
                number("SELECT COUNT(*) FROM comments WHERE parent > 0") / stories,
                number(DEPTHS) / stories));
        tell.accept(String.format(
                "data on disk: %.1f MB",
                number("SELECT SUM(data_length + index_length) FROM"
                                + " information_schema.tables WHERE table_schema = '"
                                + database.name()
                                + "'")
                        / 1e6));
    }

    /** By table, whatever its prefix. */
    private Map<String, String> checksums(String prefix) throws SQLException {
        Map<String, String> sums = new TreeMap<>();
        String tables = TABLES.stream().map(table -> prefix + table).collect(Collectors.joining(", "));
        try (Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("CHECKSUM TABLE " + tables)) {
            while (rows.next()) {
                String table = rows.getString(1);
                sums.put(table.substring(database.name().length() + 1 + prefix.length()), rows.getString(2));
            }
        }
        return sums;
    }

    private long number(String query) throws SQLException {
        try (Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery(query)) {
            rows.next();
            return rows.getLong(1);
        }
    }

    private void run(String sql) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute(sql);
        }
    }
}
