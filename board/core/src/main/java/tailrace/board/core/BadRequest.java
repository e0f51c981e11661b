package tailrace.board.core;

/** What a client sent cannot be understood; the message says what, and what would be. */
final class BadRequest extends RuntimeException {
    BadRequest(String message) {
        super(message, null, false, false);
    }
}
