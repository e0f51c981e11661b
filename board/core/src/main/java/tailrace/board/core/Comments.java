package tailrace.board.core;

import java.util.List;
import java.util.Map;
import java.util.function.Function;

/** Pages that show, store and rate comments. */
final class Comments {
    private static final List<String> TABLES = List.of("comments", "old_comments");
    private static final String NESTED = "1";

    private Comments() {}

    static Step form(Request request) {
        String table = table(request);
        long story = request.parameters().id("storyId");
        long parent = request.parameters().number("parent", 0, Integer.MAX_VALUE, 0);
        Html html = new Html("Comment on a story").add("<form action=\"/StoreComment\">\n");
        html.add("<input type=\"hidden\" name=\"comment_table\" value=\"{}\">\n", table);
        html.add("<input type=\"hidden\" name=\"storyId\" value=\"{}\">\n", story);
        html.add("<input type=\"hidden\" name=\"parent\" value=\"{}\">\n", parent);
        Users.credentials(html);
        html.add("<label>Subject <input name=\"subject\" maxlength=\"{}\" required></label>\n", Limits.TITLE);
        html.add(
                "<label>Text <textarea name=\"body\" maxlength=\"{}\"" + " required></textarea></label>\n",
                Limits.BODY);
        return Step.done(html.add("<button>Store</button>\n</form>\n"));
    }

    static Step store(Request request) {
        String table = table(request);
        long story = request.parameters().id("storyId");
        long parent = request.parameters().number("parent", 0, Integer.MAX_VALUE, 0);
        String subject = request.parameters().text("subject", Limits.TITLE);
        String body = request.parameters().text("body", Limits.BODY);
        return Authors.loggedIn(request, user -> {
            Query insert = Query.of(
                    "INSERT INTO "
                            + table
                            + " (writer, story_id, parent, replies, rating, date,"
                            + " subject, body) VALUES (?, ?, ?, 0, 0, ?, ?, ?)",
                    user.number("id"),
                    story,
                    parent,
                    request.now(),
                    subject,
                    body);
            Query count = Query.of("UPDATE " + table + " SET replies = replies + 1 WHERE id = ?", parent);
            return Step.ask(
                    insert,
                    stored -> Step.ask(
                            count,
                            counted -> Step.done(new Html("Comment stored")
                                    .add("<p>Your comment {} was" + " stored.</p>\n", subject)
                                    .add(
                                            "<p><a"
                                                    + " href=\"/ViewStory?storyId={}\">Back"
                                                    + " to the"
                                                    + " story</a></p>\n",
                                            story))));
        });
    }

    /** The replies to a comment, or with commentId 0 the whole discussion of a story. */
    static Step view(Request request) {
        String table = table(request);
        long story = request.parameters().id("storyId");
        long comment = request.parameters().number("commentId", 0, Integer.MAX_VALUE, 0);
        long filter = request.parameters().number("filter", Limits.RATING_MIN, Limits.RATING_MAX, Limits.RATING_MIN);
        boolean nested =
                request.parameters().choice("display", List.of(NESTED, "0")).equals(NESTED);
        Query ratings = Discussion.ratings(table, story);
        Query children = Discussion.children(request.form(), table, story, comment, filter);
        Function<Html, Step> thread = html -> Step.ask(ratings, rated -> {
            Discussion.filters(html, Discussion.link(table, story, comment), rated);
            return Step.ask(
                    children,
                    comments -> Authors.named(
                            request.form(),
                            comments,
                            named -> nested
                                    ? Replies.whole(
                                            request.form(),
                                            table,
                                            named,
                                            replies -> thread(html, table, story, named, replies))
                                    : thread(html, table, story, named, Map.of())));
        });
        if (comment == 0) {
            return thread.apply(new Html("Discussion"));
        }
        Query itself = Query.of("SELECT subject, body, date, parent, rating FROM " + table + " WHERE id = ?", comment);
        return Step.ask(
                itself, found -> found.isEmpty() ? noComment(comment) : thread.apply(head(table, story, found.get(0))));
    }

    private static Html head(String table, long story, Row comment) {
        return new Html(comment.text("subject"))
                .add("<p class=\"by\">{}, rated {}</p>\n", comment.text("date"), comment.number("rating"))
                .add("<p>{}</p>\n", comment.text("body"))
                .add("<p><a href=\"{}\">Up</a></p>\n", Discussion.link(table, story, comment.number("parent")));
    }

    private static Step thread(Html html, String table, long story, List<Row> comments, Map<Long, List<Row>> replies) {
        comments.forEach(comment -> Discussion.nested(html, table, story, comment, replies, 1));
        return Step.done(html);
    }

    static Step moderation(Request request) {
        String table = table(request);
        long comment = request.parameters().id("commentId");
        Query query = Query.of(
                Authors.select(request.form(), table, Discussion.WHOLE) + " WHERE " + table + ".id = ?", comment);
        return Step.ask(
                query,
                found -> found.isEmpty()
                        ? noComment(comment)
                        : Authors.named(request.form(), found, named -> moderation(table, named.get(0))));
    }

    private static Step moderation(String table, Row comment) {
        Html html = new Html("Moderate a comment");
        html.add(
                "<h2>{}</h2>\n<p class=\"by\">by {}, rated {}</p>\n",
                comment.text("subject"),
                comment.text("nickname"),
                comment.number("rating"));
        html.add("<p>{}</p>\n<form action=\"/StoreModerateLog\">\n", comment.text("body"));
        html.add("<input type=\"hidden\" name=\"comment_table\" value=\"{}\">\n", table);
        html.add("<input type=\"hidden\" name=\"commentId\" value=\"{}\">\n", comment.number("id"));
        Users.credentials(html);
        html.add("<label>Rating <select"
                + " name=\"rating\"><option>-1</option><option>0</option><option>1</option></select></label>\n");
        return Step.done(html.add("<button>Store</button>\n</form>\n"));
    }

    /** A rating that would leave its range, and a rating of 0, change nothing: two queries less. */
    static Step moderate(Request request) {
        String table = table(request);
        long comment = request.parameters().id("commentId");
        long rating = request.parameters().number("rating", -1, 1);
        Query rated = Query.of("SELECT writer, rating FROM " + table + " WHERE id = ?", comment);
        return Authors.authorized(
                request,
                moderator -> Step.ask(rated, found -> {
                    if (found.isEmpty()) {
                        return noComment(comment);
                    }
                    long writer = found.get(0).number("writer");
                    long moved = found.get(0).number("rating") + rating;
                    Query again = Query.of("SELECT rating FROM users WHERE id = ?", writer);
                    Query log = Query.of(
                            "INSERT INTO moderator_log (moderator_id,"
                                    + " comment_id, rating, date) VALUES (?, ?,"
                                    + " ?, ?)",
                            moderator.number("id"),
                            comment,
                            rating,
                            request.now());
                    Step last = Step.ask(
                            rated,
                            comments -> Step.ask(
                                    again,
                                    users -> Step.ask(
                                            log,
                                            logged -> Step.done(new Html("Rating" + " stored")
                                                    .add(
                                                            "<p>The" + " comment" + " is now" + " rated" + " {},",
                                                            comments.get(0).number("rating"))
                                                    .add(
                                                            " its writer" + " {}.</p>\n",
                                                            users.isEmpty()
                                                                    ? "nobody"
                                                                    : users.get(0)
                                                                            .number("rating"))))));
                    if (rating == 0 || moved < Limits.RATING_MIN || moved > Limits.RATING_MAX) {
                        return last;
                    }
                    Query move =
                            Query.of("UPDATE " + table + " SET rating = rating + ? WHERE id =" + " ?", rating, comment);
                    Query moveWriter =
                            Query.of("UPDATE users SET rating = rating + ? WHERE id" + " = ?", rating, writer);
                    return Step.ask(move, done -> Step.ask(moveWriter, alsoDone -> last));
                }));
    }

    private static Step noComment(long comment) {
        return Step.refuse(404, "No such comment", "There is no comment " + comment + ".");
    }

    private static String table(Request request) {
        return request.parameters().choice("comment_table", TABLES);
    }
}
