package tailrace.board.core;

import java.time.LocalDateTime;

/** The input of a page, besides rows. */
record Request(Parameters parameters, Form form, LocalDateTime now) {}
