package tailrace.board.core;

import java.util.List;
import java.util.Map;

/** Comments and the replies to them, as queries and as HTML. */
final class Discussion {
    static final String[] WHOLE = {"id", "subject", "body", "date", "parent", "replies", "rating", "writer"};
    static final String ORDER = " ORDER BY {t}.date, {t}.id";

    /** Deeper replies are not shown: the page would not be readable, and any user may store a chain of thousands. */
    private static final int DEPTH_MAX = 100;

    private Discussion() {}

    /** The number of comments of a story with each rating. */
    static Query ratings(String table, long story) {
        return Query.of(
                "SELECT rating, COUNT(*) AS comments FROM "
                        + table
                        + " WHERE story_id = ? GROUP BY rating ORDER BY rating",
                story);
    }

    /** Comments of a story below one of them (0: top-level ones) with at least this rating. */
    static Query children(Form form, String table, long story, long parent, long filter) {
        return Query.of(
                Authors.select(form, table, WHOLE)
                        + (" WHERE {t}.story_id = ? AND {t}.parent = ? AND {t}.rating >= ?" + ORDER)
                                .replace("{t}", table),
                story,
                parent,
                filter);
    }

    /** Links that show only comments with at least this rating. */
    static void filters(Html html, String link, List<Row> ratings) {
        html.add("<p>Rated at least");
        for (Row rating : ratings) {
            html.add(
                    " <a href=\"{}\">{}</a> ({})",
                    link + "&filter=" + rating.number("rating"),
                    rating.number("rating"),
                    rating.number("comments"));
        }
        html.add("</p>\n");
    }

    static void whole(Html html, String table, long story, Row comment) {
        html.add(
                "<article>\n<h2><a href=\"{}\">{}</a></h2>\n",
                link(table, story, comment.number("id")),
                comment.text("subject"));
        html.add(
                "<p class=\"by\">by {} on {}, rated {}</p>\n",
                comment.text("nickname"),
                comment.text("date"),
                comment.number("rating"));
        html.add("<p>{}</p>\n", comment.text("body"));
        html.add(
                "<p><a" + " href=\"/PostComment?comment_table={}&amp;storyId={}&amp;parent={}\">Reply</a>" + " ",
                table,
                story,
                comment.number("id"));
        html.add(
                "<a href=\"/ModerateComment?comment_table={}&amp;commentId={}\">Moderate</a></p>\n" + "</article>\n",
                table,
                comment.number("id"));
    }

    /** Replies as nested lists of links. */
    static void links(Html html, String table, long story, long parent, Map<Long, List<Row>> replies) {
        links(html, table, story, replies.get(parent), replies, 1);
    }

    private static void links(
            Html html, String table, long story, List<Row> comments, Map<Long, List<Row>> replies, int depth) {
        if (comments == null || depth > DEPTH_MAX) {
            return;
        }
        html.add("<ul>\n");
        for (Row comment : comments) {
            html.add(
                    "<li><a href=\"{}\">{}</a> {}",
                    link(table, story, comment.number("id")),
                    comment.text("subject"),
                    comment.text("date"));
            links(html, table, story, replies.get(comment.number("id")), replies, depth + 1);
            html.add("</li>\n");
        }
        html.add("</ul>\n");
    }

    /** A comment and below it, in order, all replies with text and author. */
    static void nested(Html html, String table, long story, Row comment, Map<Long, List<Row>> replies, int depth) {
        whole(html, table, story, comment);
        if (depth <= DEPTH_MAX) {
            for (Row reply : replies.getOrDefault(comment.number("id"), List.of())) {
                nested(html, table, story, reply, replies, depth + 1);
            }
        }
    }

    /** For the page that shows a comment and its replies, or with comment 0 a whole discussion. */
    static String link(String table, long story, long comment) {
        return "/ViewComment?comment_table=" + table + "&storyId=" + story + "&commentId=" + comment;
    }
}
