package tailrace.board.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.time.Clock;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Discussions that nobody has in earnest, but anybody can store. */
final class DiscussionTest {
    private static final List<String> COLUMNS =
            List.of("id", "parent", "replies", "subject", "body", "date", "rating", "writer", "nickname", "title");

    private static Row comment(long id, long parent, long replies) {
        return new Row(COLUMNS, new Object[] {
            id, parent, replies, "Subject " + id, "text", "2024-01-01", 1L, 5L, "somebody", "A story"
        });
    }

    /** The page of story 1 when the database has these comments, and nothing else but that story. */
    private static String page(Form form, List<Row> comments) {
        Step step = new Board(Map.of("ViewStory", form), Clock.systemUTC(), Map.of())
                .open("/ViewStory", "storyId=1")
                .first();
        int asked = 0;
        while (step instanceof Step.Ask ask) {
            assertTrue(++asked < 3 * comments.size() + 10, "no end");
            step = ask.then().apply(rows(ask.query(), comments));
        }
        Answer answer = ((Step.Done) step).answer();
        assertEquals(200, answer.status());
        return new String(answer.body(), StandardCharsets.UTF_8);
    }

    private static List<Row> rows(Query query, List<Row> comments) {
        if (query.sql().contains("COUNT(*)")) {
            return List.of();
        }
        if (!query.sql().contains("FROM comments")) {
            return List.of(comment(1, 0, 0));
        }
        List<Object> parents = query.sql().contains("parent IN")
                ? query.arguments()
                : List.of(query.arguments().get(1));
        return comments.stream()
                .filter(comment -> parents.contains(comment.number("parent")))
                .toList();
    }

    @ParameterizedTest
    @EnumSource
    void aCommentThatIsItsOwnParentIsShownOnceOrNot(Form form) {
        String page = page(form, List.of(comment(7, 0, 1), comment(8, 7, 1), comment(9, 9, 1)));
        assertEquals(2, page.split("Subject", -1).length - 1);
    }

    @ParameterizedTest
    @EnumSource
    void aChainOfThousandsOfRepliesIsCutAndNotFatal(Form form) {
        List<Row> chain = new ArrayList<>();
        for (int id = 1; id <= 5_000; id++) {
            chain.add(comment(id, id - 1, 1));
        }
        assertEquals(1 + 100, page(form, chain).split("Subject", -1).length - 1);
    }
}
