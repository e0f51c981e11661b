package tailrace.board.core;

/** Maximum lengths: the widths of the schema's columns, in characters, and the benchmark's page sizes. */
final class Limits {
    static final int NAME = 20;
    static final int EMAIL = 50;
    static final int TITLE = 100;

    /** The request line must contain it. */
    static final int BODY = 4_000;

    static final int HOME_ROWS = 10;

    /** Default if a request does not give it: the published pages' own number. */
    static final int ROWS = 25;

    static final int ROWS_MAX = 100;
    static final int RATING_MIN = -1;
    static final int RATING_MAX = 5;

    private Limits() {}
}
