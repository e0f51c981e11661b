package tailrace.board.core;

import java.util.List;
import java.util.function.Function;
import java.util.stream.Collectors;

/** Pages that find stories and comments by the begin of a title, a subject or a nickname. */
final class Searches {
    private static final String[] HEADLINE = {"id", "title", "date", "writer"};
    private static final String NEWEST = " ORDER BY {t}.date DESC, {t}.id DESC LIMIT ?, ?";
    private static final String USERS = " FROM users WHERE nickname LIKE ? ORDER BY nickname LIMIT ?";

    private Searches() {}

    static Step form(Request request) {
        Html html = new Html("Search");
        for (String what : List.of("Stories", "Comments", "Users")) {
            html.add(
                    "<form action=\"/SearchIn{}\">\n<label>{} that begin with ",
                    what,
                    what.equals("Users") ? "Stories by users" : what);
            html.add(
                    "<input name=\"search\" maxlength=\"{}\" required></label>\n"
                            + "<button>Search</button>\n"
                            + "</form>\n",
                    Limits.TITLE);
        }
        return Step.done(html);
    }

    static Step stories(Request request) {
        return byText(
                request,
                "stories",
                "title",
                HEADLINE,
                "/SearchInStories",
                (html, found, table) -> Stories.headlines(html, found));
    }

    static Step comments(Request request) {
        String[] columns = {"id", "subject", "story_id", "date", "writer"};
        return byText(request, "comments", "subject", columns, "/SearchInComments", Searches::subjects);
    }

    /** How rows are shown. */
    private interface Show {
        void show(Html html, List<Row> rows, String table);
    }

    private static Step byText(
            Request request, String recent, String column, String[] columns, String page, Show show) {
        Paging paging = Paging.of(request);
        String begin = request.parameters().text("search", Limits.TITLE);
        Function<String, Query> query = table -> Query.of(
                Authors.select(request.form(), table, columns)
                        + " WHERE {t}.{c} LIKE ?".replace("{c}", column).replace("{t}", table)
                        + NEWEST.replace("{t}", table),
                beginning(begin),
                paging.first(),
                paging.rows());
        return Stories.recentOrArchived(
                query,
                recent,
                (rows, table) -> Authors.named(request.form(), rows, named -> {
                    Html html = new Html("Found for " + begin);
                    show.show(html, named, table);
                    return Step.done(paging.links(html, page + "?search=" + Html.encoded(begin), named.size()));
                }));
    }

    /**
     * Stories by the first users, in order of nickname, whose nickname begins with this text. The plain form finds
     * these users first and searches only recent stories.
     */
    static Step users(Request request) {
        Paging paging = Paging.of(request);
        String begin = request.parameters().text("search", Limits.NAME);
        Function<List<Row>, Step> show = named -> {
            Html html = new Html("Stories by " + begin);
            Stories.headlines(html, named);
            return Step.done(paging.links(html, "/SearchInUsers?search=" + Html.encoded(begin), named.size()));
        };
        return request.form() == Form.JOINED ? joined(begin, paging, show) : plain(begin, paging, show);
    }

    private static Step plain(String begin, Paging paging, Function<List<Row>, Step> show) {
        return Step.ask(Query.of("SELECT id" + USERS, beginning(begin), Limits.ROWS), users -> {
            if (users.isEmpty()) {
                return show.apply(users);
            }
            String writers =
                    users.stream().map(user -> Long.toString(user.number("id"))).collect(Collectors.joining(", "));
            Query query = Query.of(
                    Authors.select(Form.PLAIN, "stories", HEADLINE)
                            + " WHERE stories.writer IN ("
                            + writers
                            + ")"
                            + NEWEST.replace("{t}", "stories"),
                    paging.first(),
                    paging.rows());
            return Step.ask(query, stories -> Authors.named(Form.PLAIN, stories, show));
        });
    }

    private static Step joined(String begin, Paging paging, Function<List<Row>, Step> show) {
        Function<String, Query> query = table -> Query.of(
                ("SELECT {t}.id, {t}.title, {t}.date, {t}.writer, users.nickname"
                                + " FROM {t} JOIN (SELECT id, nickname"
                                + USERS
                                + ") AS users ON users.id = {t}.writer"
                                + NEWEST)
                        .replace("{t}", table),
                beginning(begin),
                Limits.ROWS,
                paging.first(),
                paging.rows());
        return Stories.recentOrArchived(query, "stories", (rows, table) -> show.apply(rows));
    }

    private static void subjects(Html html, List<Row> comments, String table) {
        if (comments.isEmpty()) {
            html.add("<p>There are no comments here.</p>\n");
            return;
        }
        html.add("<table>\n"
                + "<tr><th scope=\"col\">Comment</th><th scope=\"col\">Author</th><th"
                + " scope=\"col\">Date</th></tr>\n");
        for (Row comment : comments) {
            html.add(
                    "<tr><td><a href=\"{}\">{}</a></td><td>{}</td><td>{}</td></tr>\n",
                    Discussion.link(table, comment.number("story_id"), comment.number("id")),
                    comment.text("subject"),
                    comment.text("nickname"),
                    comment.text("date"));
        }
        html.add("</table>\n");
    }

    /** A pattern for LIKE. */
    private static String beginning(String text) {
        return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%";
    }
}
