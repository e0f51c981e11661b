package tailrace.board.core;

/** Of the queries: the published servlets look up every author by itself, later ones join. */
public enum Form {
    PLAIN,
    JOINED
}
