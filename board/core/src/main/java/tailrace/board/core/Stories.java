package tailrace.board.core;

import java.time.DateTimeException;
import java.time.LocalDate;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

/** Pages that show stories. */
final class Stories {
    private static final String[] HEADLINE = {"id", "title", "date", "writer"};
    private static final String[] WHOLE = {"id", "title", "body", "date", "writer"};

    static final Query CATEGORIES = Query.of("SELECT id, name FROM categories ORDER BY id");

    private Stories() {}

    static Step today(Request request) {
        Query newest = Query.of(
                Authors.select(request.form(), "stories", WHOLE)
                        + " ORDER BY stories.date DESC, stories.id DESC LIMIT ?",
                Limits.HOME_ROWS);
        return Step.ask(
                newest,
                stories -> Authors.named(request.form(), stories, named -> {
                    Html html = new Html("Stories of the day");
                    named.forEach(story -> whole(html, story, "h2"));
                    return Step.done(html);
                }));
    }

    static Step browse(Request request) {
        return Step.done(new Html("Browse")
                .add("<ul>\n<li><a href=\"/StoriesOfTheDay\">Stories of the day</a></li>\n")
                .add("<li><a href=\"/BrowseCategories\">Stories by category</a></li>\n" + "</ul>\n")
                .add("<form action=\"/OlderStories\">\n<p>Stories of one day</p>\n")
                .add("<label>Day <input name=\"day\" type=\"number\" min=\"1\"" + " max=\"31\" required></label>\n")
                .add("<label>Month <input name=\"month\" type=\"number\" min=\"1\"" + " max=\"12\" required></label>\n")
                .add("<label>Year <input name=\"year\" type=\"number\" required></label>\n")
                .add("<button>Show</button>\n</form>\n"));
    }

    static Step categories(Request request) {
        return Step.ask(CATEGORIES, categories -> {
            Html html = new Html("Categories").add("<ul>\n");
            for (Row category : categories) {
                html.add(
                        "<li><a" + " href=\"/BrowseStoriesInCategory?category={}&amp;categoryName={}\">{}</a></li>\n",
                        category.number("id"),
                        Html.encoded(category.text("name")),
                        category.text("name"));
            }
            return Step.done(html.add("</ul>\n"));
        });
    }

    /** One query in both forms: the published servlet joins here, too. */
    static Step inCategory(Request request) {
        long category = request.parameters().id("category");
        Paging paging = Paging.of(request);
        Query query = Query.of(
                Authors.select(Form.JOINED, "stories", HEADLINE)
                        + " WHERE stories.category = ? ORDER BY stories.date DESC,"
                        + " stories.id DESC LIMIT ?, ?",
                category,
                paging.first(),
                paging.rows());
        return Step.ask(query, stories -> {
            Html html = new Html("Stories in a category");
            headlines(html, stories);
            return Step.done(paging.links(html, "/BrowseStoriesInCategory?category=" + category, stories.size()));
        });
    }

    /**
     * Stories of one day, recent or else archived. The first row is skipped, as in the published servlet: its page
     * shows, and queries the authors of, one story less than it reads.
     */
    static Step older(Request request) {
        LocalDate day = day(request.parameters());
        Paging paging = Paging.of(request);
        Function<String, Query> query = table -> Query.of(
                Authors.select(request.form(), table, HEADLINE)
                        + " WHERE {t}.date >= ? AND {t}.date < ? ORDER BY {t}.date DESC, {t}.id DESC LIMIT ?, ?"
                                .replace("{t}", table),
                day.atStartOfDay(),
                day.plusDays(1).atStartOfDay(),
                paging.first(),
                paging.rows());
        return recentOrArchived(
                query,
                "stories",
                (found, table) ->
                        Authors.named(request.form(), found.subList(Math.min(1, found.size()), found.size()), named -> {
                            Html html = new Html("Stories of " + day);
                            headlines(html, named);
                            String link = "/OlderStories?day=%d&month=%d&year=%d"
                                    .formatted(day.getDayOfMonth(), day.getMonthValue(), day.getYear());
                            return Step.done(paging.links(html, link, found.size()));
                        }));
    }

    static Step view(Request request) {
        long id = request.parameters().id("storyId");
        long filter = request.parameters().number("filter", Limits.RATING_MIN, Limits.RATING_MAX, Limits.RATING_MIN);
        Function<String, Query> query =
                table -> Query.of(Authors.select(request.form(), table, WHOLE) + " WHERE " + table + ".id = ?", id);
        return recentOrArchived(
                query,
                "stories",
                (found, table) -> found.isEmpty()
                        ? Step.refuse(404, "No such story", "There is no story " + id + ".")
                        : Authors.named(
                                request.form(),
                                found,
                                named -> discussed(request.form(), table, named.get(0), filter)));
    }

    private static Step discussed(Form form, String stories, Row story, long filter) {
        String table = stories.replace("stories", "comments");
        long id = story.number("id");
        Query children = Discussion.children(form, table, id, 0, filter);
        return Step.ask(
                Discussion.ratings(table, id),
                ratings -> Step.ask(
                        children,
                        comments -> Authors.named(
                                form,
                                comments,
                                top -> Replies.outlined(
                                        form,
                                        table,
                                        top,
                                        replies -> Step.done(story(table, story, ratings, top, replies))))));
    }

    private static Html story(String table, Row story, List<Row> ratings, List<Row> top, Map<Long, List<Row>> replies) {
        long id = story.number("id");
        Html html = new Html(story.text("title"));
        html.add(
                "<p class=\"by\">by {} on {}</p>\n<p>{}</p>\n",
                story.text("nickname"),
                story.text("date"),
                story.text("body"));
        html.add(
                "<p><a href=\"/PostComment?comment_table={}&amp;storyId={}&amp;parent=0\">Comment"
                        + " on this story</a></p>\n",
                table,
                id);
        Discussion.filters(html, "/ViewStory?storyId=" + id, ratings);
        for (Row comment : top) {
            Discussion.whole(html, table, id, comment);
            Discussion.links(html, table, id, comment.number("id"), replies);
        }
        return html;
    }

    /** Queries the recent table and, if it has none, the archive. */
    static Step recentOrArchived(Function<String, Query> query, String recent, Found then) {
        String archive = "old_" + recent;
        return Step.ask(
                query.apply(recent),
                rows -> !rows.isEmpty()
                        ? then.go(rows, recent)
                        : Step.ask(query.apply(archive), old -> then.go(old, archive)));
    }

    /** Continues with rows and the table that had them. */
    interface Found {
        Step go(List<Row> rows, String table);
    }

    static void headlines(Html html, List<Row> stories) {
        if (stories.isEmpty()) {
            html.add("<p>There are no stories here.</p>\n");
            return;
        }
        html.add("<table>\n"
                + "<tr><th scope=\"col\">Story</th><th scope=\"col\">Author</th><th"
                + " scope=\"col\">Date</th></tr>\n");
        for (Row story : stories) {
            html.add(
                    "<tr><td><a" + " href=\"/ViewStory?storyId={}\">{}</a></td><td>{}</td><td>{}</td></tr>\n",
                    story.number("id"),
                    story.text("title"),
                    story.text("nickname"),
                    story.text("date"));
        }
        html.add("</table>\n");
    }

    private static void whole(Html html, Row story, String heading) {
        html.add(
                "<article>\n<" + heading + "><a href=\"/ViewStory?storyId={}\">{}</a></" + heading + ">\n",
                story.number("id"),
                story.text("title"));
        html.add(
                "<p class=\"by\">by {} on {}</p>\n<p>{}</p>\n</article>\n",
                story.text("nickname"),
                story.text("date"),
                story.text("body"));
    }

    private static LocalDate day(Parameters parameters) {
        int year = (int) parameters.number("year", 1970, 9998);
        int month = (int) parameters.number("month", 1, 12);
        int day = (int) parameters.number("day", 1, 31);
        try {
            return LocalDate.of(year, month, day);
        } catch (DateTimeException e) {
            throw new BadRequest("There is no day " + year + "-" + month + "-" + day + ".");
        }
    }
}
