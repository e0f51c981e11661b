package tailrace.board.app;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.util.Map;
import org.junit.jupiter.api.Test;
import tailrace.board.core.Form;
import tailrace.board.core.Interaction;
import tailrace.board.core.Interactions;

/** The board's interactions are those of the experiments. */
final class InteractionsTest {
    /** Defaults of an experiment's [rubbos]. */
    private static final Map<String, Double> WORDS =
            Map.of("rows", 20.0, "comments", 6.0, "replied", 2.0, "nested", 0.0, "depth", 1.0, "archived", 0.014);

    private final RubbosTables tables = new RubbosTables();

    InteractionsTest() throws IOException {}

    @Test
    void namesAndOrderAreThoseOfTheStates() throws IOException {
        assertEquals(
                tables.interactions(),
                Interactions.ALL.stream().map(Interaction::name).toList());
    }

    @Test
    void aPageIsLightWithNoMoreQueriesThanTheMeanPage() throws IOException {
        Map<String, Double> shares = tables.shares();
        double all = shares.values().stream().mapToDouble(share -> share).sum();
        for (Form form : Form.values()) {
            double mean = shares.entrySet().stream()
                            .mapToDouble(page -> page.getValue() * tables.total(page.getKey(), form, WORDS))
                            .sum()
                    / all;
            for (Interaction interaction : Interactions.ALL) {
                assertEquals(
                        tables.total(interaction.name(), form, WORDS) <= mean,
                        interaction.light(form),
                        form + " " + interaction);
            }
        }
    }

    @Test
    void soManyServletsAsk() {
        long asking = Interactions.ALL.stream()
                .filter(page -> tables.total(page.name(), Form.PLAIN, WORDS) > 0)
                .map(Interaction::servlet)
                .distinct()
                .count();
        assertEquals(asking, Interactions.ASKING);
    }
}
