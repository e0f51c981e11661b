package tailrace.board.settings;

/** Why the board cannot go on: what was found, where, and what to do. */
public final class Problem extends Exception {
    public Problem(String message) {
        super(message);
    }
}
