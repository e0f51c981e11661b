package tailrace.board.app;

import java.io.IOException;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.SQLException;
import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.Map;
import java.util.TreeMap;
import tailrace.board.data.Fill;
import tailrace.board.settings.Keys;
import tailrace.board.settings.Problem;
import tailrace.board.settings.Settings;
import tailrace.board.settings.Sizes;

/** Boards over a test's database, and their answers. */
final class Boards {
    static final String NAME = "board";
    private static final Clock CLOCK = Clock.fixed(Instant.parse("2025-01-01T10:20:30Z"), ZoneOffset.UTC);
    private static final HttpClient CLIENT =
            HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private static final Duration PATIENCE = Duration.ofSeconds(30);

    private final Path folder;
    private final MariaDb database;

    Boards(Path folder, MariaDb database) {
        this.folder = folder;
        this.database = database;
    }

    /** A properties file of a small board: these keys before the usual ones. */
    Path properties(Map<String, String> changed) throws IOException {
        Map<String, String> keys = new TreeMap<>(Map.of(
                "edge",
                "blocking",
                "port",
                "0",
                "database.host",
                "127.0.0.1",
                "database.port",
                Integer.toString(database.port),
                "database.user",
                "root",
                "database.name",
                NAME,
                "pool.size",
                "4"));
        keys.putAll(Map.of(
                "data.users",
                "300",
                "data.authors",
                "3",
                "data.stories",
                "40",
                "data.old_stories",
                "60",
                "data.submissions",
                "20",
                "data.text",
                "200"));
        keys.putAll(changed);
        StringBuilder text = new StringBuilder();
        keys.forEach((key, value) -> text.append(key).append('=').append(value).append('\n'));
        return Files.writeString(Files.createTempFile(folder, "board", ".properties"), text);
    }

    void fill(Map<String, String> changed) throws IOException, Problem, SQLException {
        Keys keys = new Keys(properties(changed));
        Fill.fill(Settings.database(keys), Sizes.read(keys), line -> {});
    }

    Serve serve(Map<String, String> changed) throws IOException, Problem, SQLException {
        return Serve.start(Settings.read(properties(changed)), CLOCK);
    }

    static HttpResponse<byte[]> get(Serve board, String path) throws IOException, InterruptedException {
        return get(board.port(), path, "GET");
    }

    /** The answer to these bytes. */
    static String raw(Serve board, String request) throws IOException {
        try (Socket socket = new Socket("127.0.0.1", board.port())) {
            socket.setSoTimeout((int) PATIENCE.toMillis());
            socket.getOutputStream().write(request.getBytes(StandardCharsets.ISO_8859_1));
            return new String(socket.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        }
    }

    static HttpResponse<byte[]> get(int port, String path, String method) throws IOException, InterruptedException {
        HttpRequest request = HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + path))
                .method(method, HttpRequest.BodyPublishers.noBody())
                .timeout(PATIENCE)
                .build();
        return CLIENT.send(request, HttpResponse.BodyHandlers.ofByteArray());
    }
}
