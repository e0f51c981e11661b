package tailrace.board.core;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;

/**
 * All replies below some comments. The plain form queries those of one comment after another, the joined form those of
 * a whole level at once.
 */
final class Replies {
    private static final String OUTLINE = "SELECT id, subject, date, parent, replies FROM ";

    private final Form form;
    private final String table;
    private final String select;
    private final Complete complete;
    private final Function<Map<Long, List<Row>>, Step> then;
    private final Deque<Long> open = new ArrayDeque<>();
    private final Map<Long, List<Row>> found = new HashMap<>();

    /** A user may store a comment that names itself as its parent: none is used twice. */
    private final Set<Long> seen = new HashSet<>();

    /** What to do with the replies of one query before continuing. */
    private interface Complete {
        Step go(List<Row> rows, Function<List<Row>, Step> next);
    }

    private Replies(
            Form form, String table, String select, Complete complete, Function<Map<Long, List<Row>>, Step> then) {
        this.form = form;
        this.table = table;
        this.select = select;
        this.complete = complete;
        this.then = then;
    }

    /** Continues with their subjects, by parent. */
    static Step outlined(Form form, String table, List<Row> comments, Function<Map<Long, List<Row>>, Step> then) {
        return new Replies(form, table, OUTLINE + table, (rows, next) -> next.apply(rows), then).below(comments);
    }

    /** Continues with their text and author, by parent. */
    static Step whole(Form form, String table, List<Row> comments, Function<Map<Long, List<Row>>, Step> then) {
        String select = Authors.select(form, table, Discussion.WHOLE);
        return new Replies(form, table, select, (rows, next) -> Authors.named(form, rows, next), then).below(comments);
    }

    private Step below(List<Row> comments) {
        for (Row comment : comments) {
            if (seen.add(comment.number("id")) && comment.number("replies") > 0) {
                open.add(comment.number("id"));
            }
        }
        if (open.isEmpty()) {
            return then.apply(found);
        }
        List<Long> parents = new ArrayList<>();
        do {
            parents.add(open.remove());
        } while (form == Form.JOINED && !open.isEmpty());
        String where = " WHERE {t}.parent IN (" + Query.marks(parents) + ")" + Discussion.ORDER;
        return Step.ask(Query.of(select + where.replace("{t}", table), parents.toArray()), rows -> {
            List<Row> unseen = rows.stream()
                    .filter(row -> !seen.contains(row.number("id")))
                    .toList();
            return complete.go(unseen, replies -> {
                replies.forEach(row -> found.computeIfAbsent(row.number("parent"), key -> new ArrayList<>())
                        .add(row));
                return below(replies);
            });
        });
    }
}
