package tailrace.board.core;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.time.Clock;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Content without a database: the pages that RUBBoS serves from its web tier, and the image of every page. */
public final class StaticPages {
    private static final List<String> PAGES = List.of("/Register", "/Browse", "/AuthorLogin");
    private static final Map<String, String> TYPES = Map.of(
            "html", Answer.HTML,
            "css", "text/css",
            "js", "text/javascript",
            "txt", "text/plain",
            "svg", "image/svg+xml",
            "png", "image/png",
            "jpg", "image/jpeg",
            "gif", "image/gif",
            "ico", "image/x-icon");

    private StaticPages() {}

    /** The built-in files by path. */
    public static Map<String, Answer> files() {
        try (InputStream logo = StaticPages.class.getResourceAsStream("logo.png")) {
            return Map.of("/logo.png", file("/logo.png", logo.readAllBytes()));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** The files and the static pages, by path. */
    public static Map<String, Answer> all() {
        Map<String, Answer> all = new HashMap<>(files());
        Board board = new Board(Map.of(), Clock.systemUTC(), Map.of());
        for (String page : PAGES) {
            all.put(page, ((Step.Done) board.open(page, null).first()).answer());
        }
        return all;
    }

    /** A file with the type of its extension; one without an extension is a page. */
    public static Answer file(String path, byte[] content) {
        int dot = path.lastIndexOf('.');
        String ending = dot > path.lastIndexOf('/') ? path.substring(dot + 1) : "html";
        return new Answer(200, TYPES.getOrDefault(ending, "application/octet-stream"), content);
    }
}
