package tailrace.board.settings;

/**
 * Amounts of data. Defaults are RUBBoS's where it has them (users, authors, longest text); two years and a month of 33
 * stories a day are a few hundred MB.
 *
 * @param comments mean number of top-level comments of a story @param text longest story or comment, in characters
 */
public record Sizes(
        long seed, int users, int authors, int stories, int oldStories, int submissions, int comments, int text) {
    private static final int ROWS_MAX = 100_000_000;

    public static Sizes read(Keys keys) throws Problem {
        return new Sizes(
                keys.number("data.seed", 0, Long.MAX_VALUE, 1),
                rows(keys, "data.users", 500_000),
                rows(keys, "data.authors", 50),
                rows(keys, "data.stories", 1_000),
                rows(keys, "data.old_stories", 24_000),
                rows(keys, "data.submissions", 1_000),
                (int) keys.number("data.comments", 0, 1_000, 6),
                (int) keys.number("data.text", 100, 10_000, 1_024));
    }

    private static int rows(Keys keys, String key, int otherwise) throws Problem {
        return (int) keys.number(key, 1, ROWS_MAX, otherwise);
    }
}
