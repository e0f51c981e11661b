package tailrace.board.core;

import java.nio.charset.StandardCharsets;

/** An answer: a status, a type and bytes. */
public record Answer(int status, String type, byte[] body) {
    static final String HTML = "text/html;charset=utf-8";

    static Answer html(int status, String page) {
        return new Answer(status, HTML, page.getBytes(StandardCharsets.UTF_8));
    }

    static Answer refusal(int status, String title, String reason) {
        return new Html(title).add("<p>{}</p>\n", reason).answer(status);
    }

    /** The page if the database does not answer. */
    public static Answer unavailable() {
        return refusal(503, "Unavailable", "The database does not answer. Please try again in a moment.");
    }

    /** The page for other methods: the board accepts GET and HEAD. */
    public static Answer notAllowed() {
        return refusal(405, "Not allowed", "Pages of the board are asked for with GET.");
    }
}
