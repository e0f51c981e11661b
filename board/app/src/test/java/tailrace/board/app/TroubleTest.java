package tailrace.board.app;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import tailrace.board.settings.Problem;
import tailrace.board.settings.Settings;

/** Databases that go away, interrupted fills, and wrong settings. */
final class TroubleTest {
    private static final long PATIENCE_S = 30;

    @TempDir
    static Path folder;

    private static MariaDb database;
    private static Boards boards;

    @BeforeAll
    static void start() throws Exception {
        database = new MariaDb();
        boards = new Boards(folder, database);
    }

    @AfterAll
    static void stop() throws Exception {
        database.close();
    }

    @ParameterizedTest
    @CsvSource({"blocking, 4", "async, 4", "async, 0"})
    void aPageEndsWithoutItsDatabaseAndIsBackWithIt(String edge, String size) throws Exception {
        boards.fill(Map.of());
        Map<String, String> settings =
                Map.of("edge", edge, "pool.size", size, "database.timeout", "1000000000", "pool.limit", "2");
        try (Serve board = boards.serve(settings)) {
            assertEquals(200, Boards.get(board, "/StoriesOfTheDay").statusCode());
            database.signal("STOP");
            try {
                assertEquals(503, Boards.get(board, "/StoriesOfTheDay").statusCode(), "frozen");
            } finally {
                database.signal("CONT");
            }
            database.stop();
            try {
                for (int i = 0; i < 4; i++) {
                    assertEquals(503, Boards.get(board, "/StoriesOfTheDay").statusCode(), "gone");
                }
                assertEquals(200, Boards.get(board, "/Browse").statusCode(), "needs no database");
            } finally {
                database.start();
            }
            int status = 503;
            for (int i = 0; status != 200 && i < PATIENCE_S; i++) {
                status = Boards.get(board, "/StoriesOfTheDay").statusCode();
            }
            assertEquals(200, status, "back");
        }
    }

    @Test
    void theSameSeedGivesTheSameRows() throws Exception {
        boards.fill(Map.of());
        Map<String, String> first = facts();
        boards.fill(Map.of("data.seed", "2"));
        Map<String, String> other = facts();
        assertEquals(first.keySet(), other.keySet());
        assertFalse(first.get("stories").equals(other.get("stories")));
        boards.fill(Map.of());
        assertEquals(first, facts());
    }

    @Test
    void theDatabaseKnowsHowManyRowsThereAre() throws Exception {
        boards.fill(Map.of("data.seed", "3"));
        try (Connection connection = database.connect(Boards.NAME);
                Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("SELECT n_rows, (SELECT COUNT(*) FROM comments)"
                        + " FROM mysql.innodb_table_stats WHERE database_name = 'board' AND table_name = 'comments'")) {
            assertTrue(rows.next());
            assertEquals(rows.getLong(2), rows.getLong(1), rows.getLong(2) / 5.0);
        }
    }

    @Test
    void changedRowsAreMadeAnewAndUnchangedOnesAreLeft() throws Exception {
        boards.fill(Map.of());
        Map<String, String> first = facts();
        database.run(Boards.NAME, "DELETE FROM stories LIMIT 1", "CREATE TABLE notes (id INT)");
        boards.fill(Map.of());
        assertEquals(first, facts());
        assertEquals("40", value("SELECT COUNT(*) FROM stories"));
        assertEquals("0", value("SELECT COUNT(*) FROM notes"));
        String made = value("SELECT create_time FROM information_schema.tables WHERE table_schema ="
                + " 'board' AND table_name = 'stories'");
        boards.fill(Map.of());
        assertEquals(
                made,
                value("SELECT create_time FROM information_schema.tables WHERE table_schema ="
                        + " 'board' AND table_name = 'stories'"));
    }

    @Test
    void anInterruptedFillIsNotTakenForWhole() throws Exception {
        database.run("", "DROP DATABASE IF EXISTS board", "CREATE DATABASE board");
        database.run("board", "CREATE TABLE filling_stories (id INT)", "CREATE TABLE filling_facts (name INT)");
        assertTrue(assertThrows(Problem.class, () -> boards.serve(Map.of()))
                .getMessage()
                .contains("no whole data"));
        boards.fill(Map.of());
        boards.serve(Map.of()).close();
    }

    @Test
    void tablesOfSomebodyElseStay() throws Exception {
        database.run("", "DROP DATABASE IF EXISTS theirs", "CREATE DATABASE theirs");
        database.run("theirs", "CREATE TABLE users (id INT)");
        Problem problem = assertThrows(Problem.class, () -> boards.fill(Map.of("database.name", "theirs")));
        assertTrue(problem.getMessage().contains("choose another database.name"), problem.getMessage());
        database.run("theirs", "SELECT * FROM users");
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "edge | both | edge must be blocking or async, got both",
                "pool.size | -1 | pool.size must be a whole number from 0 to 2147483647, got -1",
                "pool.size | 0 | pool.size must be at least 1 with edge=blocking, got 0",
                "pool.sise | 5 | there is no key pool.sise; the keys are ",
                "work.ViewStory | 1ms | work.ViewStory must be a whole number from 0 to",
                "work.before | 2 | work.before must be a number from 0 to 1",
                "log.per_page | 100 | log.file is missing; add a line log.file=",
                "database.name | a b | database.name must be at most 50 letters",
                "pool.priority | 1 | pool.order must be priority when there is a pool.priority"
            })
    void wrongSettingsAreTold(String key, String value, String told) throws IOException {
        Path file = boards.properties(Map.of(key, value));
        String message = assertThrows(Problem.class, () -> Settings.read(file)).getMessage();
        assertTrue(message.startsWith(file + ": " + told), message);
    }

    @Test
    void aMissingKeyAndAMissingServerEndTheProgram() throws Exception {
        Path file = boards.properties(Map.of());
        Files.writeString(file, Files.readString(file).replace("edge=", "# edge="));
        assertEquals("board: " + file + ": edge is missing; add a line edge=…", ended(1, "serve", file.toString()));
        String told = ended(
                1, "serve", boards.properties(Map.of("database.port", "1")).toString());
        assertTrue(
                told.startsWith("board: the database server at 127.0.0.1:1 cannot be reached as user root" + " ("),
                told);
        assertTrue(told.endsWith("start MariaDB there, or mend database.host, .port, .user or .password"), told);
        assertTrue(ended(2).startsWith("usage: "));
    }

    @Test
    void itServesUntilItIsTerminated() throws Exception {
        boards.fill(Map.of());
        Path log = folder.resolve("log");
        Map<String, String> keys = Map.of(
                "log.per_page",
                "100",
                "log.file",
                log.toString(),
                "admin",
                "true",
                "work.default",
                "1000",
                "garbage.live",
                "100000");
        Process board = program("serve", boards.properties(keys).toString());
        try (BufferedReader out = board.inputReader()) {
            String ready = out.readLine();
            assertTrue(ready.matches("ready blocking http 127.0.0.1:\\d+ work.rate=\\d+\\.\\d+"), ready);
            int port = Integer.parseInt(ready.replaceAll(".*:(\\d+) .*", "$1"));
            assertEquals(200, Boards.get(port, "/StoriesOfTheDay", "GET").statusCode());
            String told = new String(Boards.get(port, "/admin/gc", "GET").body(), StandardCharsets.UTF_8);
            assertTrue(told.matches("collected in \\d+ ns\\s"), told);
            assertEquals(100, Files.size(log));
            assertTrue(ended(
                            1,
                            "serve",
                            boards.properties(Map.of("port", Integer.toString(port)))
                                    .toString())
                    .contains("cannot listen on 127.0.0.1:" + port));
        } finally {
            board.destroy();
            assertTrue(board.waitFor(PATIENCE_S, TimeUnit.SECONDS));
        }
    }

    /** The program's standard error before it ended. */
    private static String ended(int status, String... arguments) throws IOException, InterruptedException {
        Process program = program(arguments);
        String told = new String(program.getErrorStream().readAllBytes(), StandardCharsets.UTF_8);
        assertTrue(program.waitFor(PATIENCE_S, TimeUnit.SECONDS));
        assertEquals(status, program.exitValue(), told);
        return told.strip();
    }

    private static Process program(String... arguments) throws IOException {
        List<String> command = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-Dfile.encoding=UTF-8",
                "-Dsun.stderr.encoding=UTF-8",
                "-cp",
                System.getProperty("java.class.path"),
                Main.class.getName()));
        command.addAll(List.of(arguments));
        return new ProcessBuilder(command).start();
    }

    private static Map<String, String> facts() throws SQLException {
        Map<String, String> facts = new java.util.TreeMap<>();
        try (Connection connection = database.connect(Boards.NAME);
                Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("SELECT name, value FROM facts WHERE name <> 'sizes'")) {
            while (rows.next()) {
                facts.put(rows.getString(1), rows.getString(2));
            }
        }
        return facts;
    }

    private static String value(String sql) throws SQLException {
        try (Connection connection = database.connect(Boards.NAME);
                Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery(sql)) {
            rows.next();
            return rows.getString(1);
        }
    }
}
