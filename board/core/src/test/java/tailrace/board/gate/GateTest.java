package tailrace.board.gate;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

final class GateTest {
    private final List<String> admitted = new ArrayList<>();
    private final Map<String, Gate.Entry> entries = new HashMap<>();

    /** Light ones have a small letter, heavy ones a capital. */
    private void enter(Gate.Line line, String... names) {
        for (String name : names) {
            entries.put(name, line.enter(Character.isLowerCase(name.charAt(0)), () -> admitted.add(name)));
        }
    }

    private void leave(String... names) {
        for (String name : names) {
            entries.get(name).close();
        }
    }

    @Test
    void asManyAsTheLimitAreInside() {
        Gate.Line line = Gate.inOrder(2).line(10);
        enter(line, "a", "B", "C", "d");
        assertEquals(List.of("a", "B"), admitted);
        leave("a");
        assertEquals(List.of("a", "B", "C"), admitted);
    }

    @Test
    void withoutPriorityWhoComesFirstGoesFirst() {
        Gate.Line line = Gate.inOrder(1).line(1);
        enter(line, "A", "B", "c", "D", "e");
        leave("A", "B", "c", "D");
        assertEquals(List.of("A", "B", "c", "D", "e"), admitted);
    }

    @Test
    void lightOnesGoBeforeHeavyOnesThatWaitLonger() {
        Gate.Line line = Gate.lightFirst(1, Gate.UNLIMITED).line(1);
        enter(line, "A", "B", "C", "d", "e");
        leave("A", "d", "e", "B");
        assertEquals(List.of("A", "d", "e", "B", "C"), admitted);
    }

    @Test
    void heavyOnesWaitWhileMoreLightOnesThanAllowedAreThere() {
        Gate gate = Gate.lightFirst(Gate.UNLIMITED, 1);
        Gate.Line light = gate.line(1);
        Gate.Line heavy = gate.line(5);
        enter(light, "a", "b");
        enter(heavy, "C", "D");
        assertEquals(List.of("a"), admitted);
        leave("a");
        assertEquals(List.of("a", "b", "C", "D"), admitted);
    }

    @Test
    void aLineThatIsFullDoesNotHoldUpAnother() {
        Gate gate = Gate.inOrder(3);
        Gate.Line one = gate.line(1);
        Gate.Line other = gate.line(5);
        enter(one, "a", "b");
        enter(other, "c", "d", "e");
        assertEquals(List.of("a", "c", "d"), admitted);
        leave("a");
        assertEquals(List.of("a", "c", "d", "b"), admitted);
    }

    @Test
    void whoGivesUpIsNotAdmittedAndMakesRoomForThoseItHeldUp() {
        Gate.Line line = Gate.lightFirst(5, 0).line(5);
        enter(line, "a", "B");
        Gate.Line full = Gate.inOrder(1).line(1);
        enter(full, "x", "y", "z");
        leave("y", "y", "x", "a");
        assertEquals(List.of("a", "x", "z", "B"), admitted);
    }

    @Test
    void closingTwiceMakesRoomOnce() {
        Gate.Line line = Gate.inOrder(1).line(1);
        enter(line, "a", "b", "c");
        leave("a", "a");
        assertEquals(List.of("a", "b"), admitted);
    }
}
