package tailrace.board.data;

import java.time.Duration;
import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import tailrace.board.settings.Sizes;

/** The rows of each table. Each table draws from its own stream; the same sizes and seed give the same rows. */
final class Rows {
    /** The end of all data. Data do not age, so a date in an experiment always finds them. */
    static final LocalDateTime NEWEST = LocalDateTime.of(2024, 12, 31, 23, 0);

    /** RUBBoS: one month in the recent tables, two years in the archive. */
    static final Duration RECENT = Duration.ofDays(30);

    static final Duration ARCHIVED = Duration.ofDays(730);
    static final int CATEGORIES = 85;

    /** Probability that a comment has replies, by depth: of six top-level ones two have, as in the experiments. */
    private static final double[] REPLIED = {0.27, 0.1, 0.1, 0};

    private static final int REPLIES_MAX = 3;

    private final Sizes sizes;

    Rows(Sizes sizes) {
        this.sizes = sizes;
    }

    Stream<Object[]> categories() {
        return IntStream.rangeClosed(1, CATEGORIES).mapToObj(id -> new Object[] {id, "About " + Words.word(id * 17)});
    }

    /** User 0 is "nobody"; then follow user1 …, then author1 …. */
    Stream<Object[]> users() {
        Random random = random("users");
        return IntStream.rangeClosed(0, sizes.users() + sizes.authors()).mapToObj(id -> {
            int author = id - sizes.users();
            String name = id == 0 ? "nobody" : author > 0 ? "author" + author : "user" + id;
            String password = id == 0 ? "" : author > 0 ? "password" + author : "password" + id;
            LocalDateTime since = NEWEST.minus(ARCHIVED).minusHours(random.nextInt(10_000));
            return new Object[] {
                id,
                "First" + id,
                "Last" + id,
                name,
                password,
                name + "@board.example",
                random.nextInt(11) - 1,
                author > 0 ? 1 : 0,
                since
            };
        });
    }

    Stream<Object[]> oldStories() {
        return stories(
                "old_stories", 1, sizes.oldStories(), NEWEST.minus(RECENT).minus(ARCHIVED), ARCHIVED);
    }

    Stream<Object[]> stories() {
        return stories("stories", sizes.oldStories() + 1, sizes.stories(), NEWEST.minus(RECENT), RECENT);
    }

    Stream<Object[]> submissions() {
        return stories("submissions", 1, sizes.submissions(), NEWEST.minusDays(7), Duration.ofDays(7));
    }

    Stream<Object[]> oldComments() {
        return comments(
                "old_comments", 1, sizes.oldStories(), NEWEST.minus(RECENT).minus(ARCHIVED), ARCHIVED);
    }

    Stream<Object[]> comments() {
        return comments("comments", sizes.oldStories() + 1, sizes.stories(), NEWEST.minus(RECENT), RECENT);
    }

    private Stream<Object[]> stories(String table, int first, int count, LocalDateTime begin, Duration span) {
        Random random = random(table);
        return IntStream.range(0, count).mapToObj(i -> new Object[] {
            first + i,
            Words.text(random, 20 + random.nextInt(60)),
            text(random),
            begin.plus(span.multipliedBy(i + 1).dividedBy(count)),
            writer(random),
            1 + random.nextInt(CATEGORIES)
        });
    }

    private Stream<Object[]> comments(String table, int first, int stories, LocalDateTime begin, Duration span) {
        Random random = random(table);
        int[] last = {0};
        return IntStream.range(0, stories).boxed().flatMap(i -> {
            List<Object[]> comments = new ArrayList<>();
            LocalDateTime told = begin.plus(span.multipliedBy(i + 1).dividedBy(stories));
            int top = random.nextInt(2 * sizes.comments() + 1);
            thread(random, comments, last, first + i, 0, top, told, 0);
            last[0] += comments.size();
            return comments.stream();
        });
    }

    /** Comments with one parent, each followed by the replies to it. */
    private void thread(
            Random random,
            List<Object[]> comments,
            int[] last,
            int story,
            int parent,
            int count,
            LocalDateTime told,
            int depth) {
        for (int k = 0; k < count; k++) {
            int id = last[0] + comments.size() + 1;
            int replies = random.nextDouble() < REPLIED[depth] ? 1 + random.nextInt(REPLIES_MAX) : 0;
            LocalDateTime date = told.plusMinutes(1 + random.nextInt(600));
            String subject = Words.text(random, 20 + random.nextInt(40));
            comments.add(new Object[] {
                id, writer(random), story, parent, replies, rating(random), date, subject, text(random)
            });
            thread(random, comments, last, story, id, replies, date, depth + 1);
        }
    }

    private String text(Random random) {
        return Words.text(random, sizes.text() / 10 + random.nextInt(sizes.text() * 9 / 10 + 1));
    }

    private int writer(Random random) {
        return random.nextInt(sizes.users() + 1);
    }

    /** From -1 to 5, low ones more often. */
    private static int rating(Random random) {
        return Math.min(random.nextInt(7), random.nextInt(7)) - 1;
    }

    private Random random(String table) {
        return new Random(sizes.seed() * 31 + table.hashCode());
    }
}
