package tailrace.board.app;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import tailrace.board.core.Form;
import tailrace.board.core.Interactions;

/** Both edges on a real database: the same bytes from the same queries, as many as the experiments assume. */
final class EdgesTest {
    @TempDir
    static Path folder;

    private static final Map<Map<String, String>, Map<String, Seen>> PAGES = new HashMap<>();

    private static MariaDb database;
    private static Boards boards;

    /** A page, and the statements that the database received for it. */
    private record Seen(int status, String type, String page, List<String> statements) {}

    @BeforeAll
    static void start() throws Exception {
        database = new MariaDb();
        boards = new Boards(folder, database);
        database.run("", "SET GLOBAL log_output = 'TABLE'", "SET GLOBAL general_log = 1");
    }

    @AfterAll
    static void stop() throws Exception {
        database.close();
    }

    /** All 24, on data as they were filled. */
    private static Map<String, Seen> pages(Map<String, String> settings) throws Exception {
        Map<String, Seen> pages = PAGES.get(settings);
        if (pages == null) {
            pages = made(settings);
            PAGES.put(settings, pages);
        }
        return pages;
    }

    private static Map<String, Seen> made(Map<String, String> settings) throws Exception {
        boards.fill(Map.of());
        Map<String, Seen> pages = new LinkedHashMap<>();
        try (Serve board = boards.serve(settings)) {
            for (Map.Entry<String, String> path : Paths.all().entrySet()) {
                database.run("", "TRUNCATE mysql.general_log");
                HttpResponse<byte[]> answer = Boards.get(board, path.getValue());
                pages.put(
                        path.getKey(),
                        new Seen(
                                answer.statusCode(),
                                answer.headers().firstValue("Content-Type").orElse(""),
                                new String(answer.body(), StandardCharsets.UTF_8),
                                statements()));
            }
        }
        return pages;
    }

    /** Of the board: those on its tables. */
    private static List<String> statements() throws SQLException {
        List<String> statements = new ArrayList<>();
        try (Connection connection = database.connect("");
                Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("SELECT CONVERT(argument USING utf8mb4) FROM mysql.general_log"
                        + " WHERE command_type = 'Query' ORDER BY event_time")) {
            while (rows.next()) {
                String sql = rows.getString(1);
                if (sql.matches("(?s)(SELECT (?!@@).* FROM (?!mysql).*|INSERT .*|UPDATE .*|DELETE .*)")) {
                    statements.add(sql);
                }
            }
        }
        return statements;
    }

    @ParameterizedTest
    @ValueSource(strings = {"plain", "joined"})
    void bothEdgesGiveTheSameBytesFromTheSameStatements(String form) throws Exception {
        Map<String, Seen> blocking = pages(Map.of("form", form));
        Map<String, Seen> async = pages(Map.of("edge", "async", "form", form));
        assertEquals(Interactions.BY_NAME.keySet(), blocking.keySet());
        for (String name : blocking.keySet()) {
            assertEquals(200, blocking.get(name).status(), name);
            assertEquals(blocking.get(name), async.get(name), name);
        }
    }

    @Test
    void bothFormsGiveTheSameBytes() throws Exception {
        Map<String, Seen> plain = pages(Map.of("form", "plain"));
        Map<String, Seen> joined = pages(Map.of("form", "joined"));
        plain.forEach((name, seen) -> assertEquals(seen.page(), joined.get(name).page(), name));
    }

    @Test
    void aPageCanHaveItsOwnForm() throws Exception {
        Map<String, String> settings = Map.of("form", "plain", "form.StoriesOfTheDay", "joined");
        Map<String, Seen> expected = new LinkedHashMap<>(pages(Map.of("form", "plain")));
        expected.put("StoriesOfTheDay", pages(Map.of("form", "joined")).get("StoriesOfTheDay"));
        assertEquals(expected, pages(settings));
        Map<String, String> async = new HashMap<>(settings);
        async.put("edge", "async");
        assertEquals(expected, pages(async));
    }

    @Test
    void aConnectionForEachPageAndPoolsForEachInteractionChangeNoByte() throws Exception {
        Map<String, Seen> usual = pages(Map.of("form", "joined"));
        assertEquals(usual, pages(Map.of("edge", "async", "pool.size", "0")));
        Map<String, String> priority =
                Map.of("pool.size", "1", "pool.per", "interaction", "pool.order", "priority", "pool.priority", "1");
        for (String edge : List.of("blocking", "async")) {
            Map<String, String> settings = new HashMap<>(priority);
            settings.put("edge", edge);
            assertEquals(usual, pages(settings), edge);
        }
        assertEquals(usual, pages(Map.of("pool.limit", "1")));
    }

    @ParameterizedTest
    @ValueSource(strings = {"plain", "joined"})
    void pagesAskAsOftenAsTheExperimentsThink(String form) throws Exception {
        Map<String, Seen> pages = pages(Map.of("form", form));
        RubbosTables tables = new RubbosTables();
        boards.fill(Map.of());
        for (String name : pages.keySet()) {
            Map<String, Integer> made = new HashMap<>();
            for (String sql : pages.get(name).statements()) {
                made.merge(RubbosTables.nameOf(sql), 1, Integer::sum);
            }
            Map<String, Integer> expected =
                    tables.queries(name, Form.valueOf(form.toUpperCase()), shown(name, pages.get(name)));
            assertEquals(expected, made, name);
        }
    }

    /** The value of the words in queries.csv for this page. */
    private static Map<String, Integer> shown(String name, Seen seen) throws SQLException {
        int rows = seen.page().split("<tr><td>", -1).length - 1;
        boolean older = name.equals("OlderStories");
        // between ViewStory and ViewComment, StoreComment added one
        int stored = name.equals("ViewComment") ? 1 : 0;
        return Map.of(
                "rows",
                older ? rows + 1 : rows,
                "comments",
                count("parent = 0") + stored,
                "replied",
                count("replies > 0"),
                "nested",
                name.equals("ViewComment") ? count("parent > 0") : 0,
                "depth",
                depth(),
                "archived",
                seen.statements().stream().anyMatch(sql -> sql.contains(" FROM old_")) ? 1 : 0);
    }

    private static int count(String condition) throws SQLException {
        return number("SELECT COUNT(*) FROM comments WHERE story_id = 77 AND " + condition);
    }

    private static int depth() throws SQLException {
        return number("WITH RECURSIVE threads AS (SELECT id, 1 AS depth FROM comments WHERE story_id = 77"
                + " AND parent = 0 UNION ALL SELECT comments.id, depth + 1 FROM comments JOIN"
                + " threads ON parent = threads.id) SELECT MAX(depth) FROM threads");
    }

    private static int number(String sql) throws SQLException {
        try (Connection connection = database.connect(Boards.NAME);
                Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery(sql)) {
            rows.next();
            return rows.getInt(1);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"blocking", "async"})
    void strangeTextComesBackAsItWas(String edge) throws Exception {
        boards.fill(Map.of());
        String login = "&nickname=user1&password=password1";
        String text = "it%27s%20%5C%5C%27%20%22%3Cb%3E%22%20%25_%3F%20%F0%9F%98%80%0A%7B%7D";
        try (Serve board = boards.serve(Map.of("edge", edge))) {
            Boards.get(board, "/StoreComment?storyId=77&subject=" + text + "&body=" + text + login);
            String story = new String(Boards.get(board, "/ViewStory?storyId=77").body(), StandardCharsets.UTF_8);
            assertTrue(story.contains("it&#39;s \\\\&#39; &quot;&lt;b&gt;&quot; %_? \uD83D\uDE00\n{}</p>"), story);
            String found = new String(
                    Boards.get(board, "/SearchInComments?search=it%27s%20%5C%5C%27%20%22%3Cb")
                            .body(),
                    StandardCharsets.UTF_8);
            assertTrue(found.contains("<tr><td>"), found);
            found = new String(
                    Boards.get(board, "/SearchInComments?search=it_s").body(), StandardCharsets.UTF_8);
            assertTrue(found.contains("There are no comments here"), found);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"blocking", "async"})
    void mistakesOfClientsHaveTheirStatus(String edge) throws Exception {
        boards.fill(Map.of());
        try (Serve board = boards.serve(Map.of("edge", edge))) {
            Map<String, Integer> answers = Map.of(
                    "/ViewStory?storyId=%ff",
                    400,
                    "/ViewStory?storyId=many",
                    400,
                    "/ViewStory",
                    400,
                    "/ViewStory?storyId=123456",
                    404,
                    "/AuthorTask?nickname=user1&password=password1",
                    403,
                    "/AuthorTask?nickname=author1&password=wrong",
                    403,
                    "/nothing",
                    404,
                    "/OlderStories?day=31&month=2&year=2024",
                    400,
                    "/RegisterUser?firstname=A&lastname=B&nickname=user1&password=c&email=d",
                    409);
            for (Map.Entry<String, Integer> answer : answers.entrySet()) {
                assertEquals(
                        answer.getValue(), Boards.get(board, answer.getKey()).statusCode(), answer.getKey());
            }
            assertTrue(Boards.raw(board, "GET /ViewStory?storyId=%zz HTTP/1.0\r\n\r\n")
                    .startsWith("HTTP/1.1 400 "));
            assertEquals(
                    405, Boards.get(board.port(), "/StoriesOfTheDay", "POST").statusCode());
            assertEquals(0, Boards.get(board.port(), "/StoriesOfTheDay", "HEAD").body().length);
            assertEquals(9_724, Boards.get(board, "/logo.png").body().length);
        }
    }
}
