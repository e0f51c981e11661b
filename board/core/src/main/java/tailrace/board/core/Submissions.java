package tailrace.board.core;

import java.util.function.Function;

/** Pages of stories that wait for review. */
final class Submissions {
    private static final String COLUMNS = " (title, body, date, writer, category) VALUES (?, ?, ?, ?, ?)";

    private Submissions() {}

    static Step form(Request request) {
        return Step.ask(Stories.CATEGORIES, categories -> {
            Html html = new Html("Submit a story").add("<form action=\"/StoreStory\">\n");
            Users.credentials(html);
            html.add("<label>Title <input name=\"title\" maxlength=\"{}\"" + " required></label>\n", Limits.TITLE);
            html.add(
                    "<label>Text <textarea name=\"body\" maxlength=\"{}\"" + " required></textarea></label>\n",
                    Limits.BODY);
            html.add("<label>Category <select name=\"category\">\n");
            for (Row category : categories) {
                html.add("<option value=\"{}\">{}</option>\n", category.number("id"), category.text("name"));
            }
            return Step.done(html.add("</select></label>\n<button>Submit</button>\n</form>\n"));
        });
    }

    /** Stories of authors are published at once. */
    static Step store(Request request) {
        String title = request.parameters().text("title", Limits.TITLE);
        String body = request.parameters().text("body", Limits.BODY);
        long category = request.parameters().id("category");
        return Authors.loggedIn(request, user -> {
            String table = user.number("access") > 0 ? "stories" : "submissions";
            Query insert =
                    Query.of("INSERT INTO " + table + COLUMNS, title, body, request.now(), user.number("id"), category);
            return Step.ask(
                    insert,
                    stored -> Step.done(new Html("Story stored")
                            .add("<p>Your story {} is now among the" + " {}.</p>\n", title, table)));
        });
    }

    /** One query in both forms: the published servlet joins here, too. */
    static Step review(Request request) {
        Query newest = Query.of(
                Authors.select(Form.JOINED, "submissions", "id", "title", "body", "date", "writer")
                        + " ORDER BY submissions.date DESC, submissions.id DESC LIMIT ?",
                Limits.HOME_ROWS);
        return Step.ask(newest, stories -> {
            Html html = new Html("Submitted stories");
            for (Row story : stories) {
                html.add(
                        "<article>\n<h2>{}</h2>\n<p class=\"by\">by {} on {}</p>\n",
                        story.text("title"),
                        story.text("nickname"),
                        story.text("date"));
                html.add(
                        "<p>{}</p>\n<p><a href=\"/AcceptStory?storyId={}\">Accept</a> ",
                        story.text("body"),
                        story.number("id"));
                html.add("<a href=\"/RejectStory?storyId={}\">Reject</a></p>\n</article>\n", story.number("id"));
            }
            return Step.done(html);
        });
    }

    static Step accept(Request request) {
        return submitted(request, story -> {
            Query insert = Query.of(
                    "INSERT INTO stories" + COLUMNS,
                    story.text("title"),
                    story.text("body"),
                    story.text("date"),
                    story.number("writer"),
                    story.number("category"));
            return Step.ask(insert, stored -> delete(story, "Story accepted"));
        });
    }

    static Step reject(Request request) {
        return submitted(request, story -> delete(story, "Story rejected"));
    }

    /** The submission that the request names, or else the first one on the page of submissions. */
    private static Step submitted(Request request, Function<Row, Step> then) {
        String columns = "SELECT id, title, body, date, writer, category FROM submissions";
        long id = request.parameters().number("storyId", 0, Integer.MAX_VALUE, 0);
        Query query = id == 0
                ? Query.of(columns + " ORDER BY date DESC, id DESC LIMIT 1")
                : Query.of(columns + " WHERE id = ?", id);
        return Step.ask(
                query,
                found -> found.isEmpty()
                        ? Step.refuse(404, "No such submission", "It is not there; somebody may have reviewed it.")
                        : then.apply(found.get(0)));
    }

    private static Step delete(Row story, String title) {
        Query query = Query.of("DELETE FROM submissions WHERE id = ?", story.number("id"));
        return Step.ask(
                query,
                deleted -> Step.done(new Html(title)
                        .add(
                                "<p>{}</p>\n" + "<p><a href=\"/ReviewStories\">Back to the" + " submissions</a></p>\n",
                                story.text("title"))));
    }
}
