package tailrace.board.core;

/** The form of the queries: the published servlets query every author separately, later ones join. */
public enum Form {
    PLAIN,
    JOINED
}
