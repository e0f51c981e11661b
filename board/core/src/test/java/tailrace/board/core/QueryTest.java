package tailrace.board.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.time.LocalDateTime;
import org.junit.jupiter.api.Test;

final class QueryTest {
    @Test
    void argumentsStandWhereTheirMarksAre() {
        Query query = Query.of(
                "SELECT a FROM b WHERE c = ? AND d = ? AND e < ?", 7, "x?y", LocalDateTime.of(2024, 1, 2, 3, 4));
        assertEquals("SELECT a FROM b WHERE c = 7 AND d = 'x?y' AND e < '2024-01-02 03:04'", query.text());
    }

    @Test
    void noQuoteEndsAText() {
        assertEquals(
                "SELECT '''; DROP TABLE users; -- ', '\\\\'''",
                Query.of("SELECT ?, ?", "'; DROP TABLE users; -- ", "\\'").text());
    }

    @Test
    void argumentsAndMarksAreAsMany() {
        assertThrows(RuntimeException.class, () -> Query.of("SELECT ?, ?", 1).text());
        assertThrows(
                IllegalArgumentException.class, () -> Query.of("SELECT ?", 1, 2).text());
        assertThrows(IllegalArgumentException.class, () -> Query.of("SELECT ?", 1.5));
    }
}
