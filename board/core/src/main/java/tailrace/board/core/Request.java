package tailrace.board.core;

import java.time.LocalDateTime;

/** What a page is made from, besides rows. */
record Request(Parameters parameters, Form form, LocalDateTime now) {}
