package tailrace.board.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

final class ParametersTest {
    @Test
    void percentsAndPlusesAreDecoded() {
        Parameters parameters = Parameters.of("a=1+2%2b3&%62=%c3%A9&&c&a=twice");
        assertEquals("1 2+3", parameters.text("a", 10));
        assertEquals("é", parameters.text("b", 10));
        assertEquals(5, parameters.number("d", 0, 9, 5));
        assertEquals("x", parameters.choice("d", List.of("x", "y")));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "a=%",
                "a=%1",
                "a=%zz",
                "a=%ff",
                "a=%c3",
                "a=%ed%a0%80",
                "a=%00",
                "a=\u00e9",
                "a=%\uff11\uff11",
                "%=1"
            })
    void damagedQueriesAreTheClientsMistake(String query) {
        assertThrows(BadRequest.class, () -> Parameters.of(query));
    }

    @Test
    void anythingElseIsReadOrRefused() {
        Random random = new Random(1);
        for (int i = 0; i < 10_000; i++) {
            StringBuilder query = new StringBuilder();
            for (int length = random.nextInt(12); length > 0; length--) {
                query.append("%&=+a0cf3é\u0000".charAt(random.nextInt(11)));
            }
            try {
                Parameters.of(query.toString());
            } catch (BadRequest expected) {
                // a sentence, and not another exception
            }
        }
    }

    @Test
    void valuesOutOfRangeAreRefused() {
        Parameters parameters = Parameters.of("n=11&s=abc&big=99999999999999999999&c=z");
        assertThrows(BadRequest.class, () -> parameters.number("n", 0, 10));
        assertThrows(BadRequest.class, () -> parameters.number("s", 0, 10));
        assertThrows(BadRequest.class, () -> parameters.id("big"));
        assertThrows(BadRequest.class, () -> parameters.text("s", 2));
        assertThrows(BadRequest.class, () -> parameters.text("missing", 2));
        assertThrows(BadRequest.class, () -> parameters.choice("c", List.of("x", "y")));
    }
}
