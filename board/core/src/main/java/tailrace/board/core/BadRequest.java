package tailrace.board.core;

/** A request that cannot be understood; the message says what is wrong, and what would be right. */
final class BadRequest extends RuntimeException {
    BadRequest(String message) {
        super(message, null, false, false);
    }
}
