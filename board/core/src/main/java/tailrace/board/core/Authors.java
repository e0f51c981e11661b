package tailrace.board.core;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.Function;
import java.util.stream.Collectors;

/** The author of a row: in the plain form a query for each row, in the joined form a column of the rows themselves. */
final class Authors {
    private Authors() {}

    /** {@code SELECT columns FROM table}, joined with its authors in the joined form. */
    static String select(Form form, String table, String... columns) {
        String list = Arrays.stream(columns).map(column -> table + "." + column).collect(Collectors.joining(", "));
        return form == Form.PLAIN
                ? "SELECT " + list + " FROM " + table
                : "SELECT " + list + ", users.nickname FROM " + table + writers(table);
    }

    static String writers(String table) {
        return " LEFT JOIN users ON users.id = " + table + ".writer";
    }

    /** Continues with rows that have a nickname. */
    static Step named(Form form, List<Row> rows, Function<List<Row>, Step> then) {
        if (form == Form.JOINED) {
            return then.apply(rows);
        }
        List<Row> named = new ArrayList<>();
        return Step.each(
                rows.iterator(),
                row -> Query.of("SELECT nickname FROM users WHERE id = ?", row.number("writer")),
                (row, found) -> named.add(
                        row.with("nickname", found.isEmpty() ? "" : found.get(0).text("nickname"))),
                () -> then.apply(named));
    }

    /** Continues with the user (id, access) whose name and password are in the request. */
    static Step loggedIn(Request request, Function<Row, Step> then) {
        Query query = Query.of(
                "SELECT id, access FROM users WHERE nickname = ? AND password = ?",
                request.parameters().text("nickname", Limits.NAME),
                request.parameters().text("password", Limits.NAME));
        return Step.ask(
                query,
                users -> users.isEmpty()
                        ? Step.refuse(403, "Unknown user", "No user has this nickname and password.")
                        : then.apply(users.get(0)));
    }

    /** The same, if the user is an author. */
    static Step authorized(Request request, Function<Row, Step> then) {
        return loggedIn(
                request,
                user -> user.number("access") > 0
                        ? then.apply(user)
                        : Step.refuse(403, "Not an author", "This page is for authors."));
    }
}
