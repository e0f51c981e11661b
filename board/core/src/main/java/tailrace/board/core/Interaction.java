package tailrace.board.core;

import java.util.function.Function;

/**
 * One of the 24 pages.
 *
 * @param lightPlain whether it is light for cross-tier priority in the plain form: no more queries than the mean page of
 *     the browse-only walk, the rule of the experiments
 * @param lightJoined the same in the joined form
 */
public record Interaction(String name, boolean lightPlain, boolean lightJoined, Function<Request, Step> page) {
    public boolean light(Form form) {
        return form == Form.PLAIN ? lightPlain : lightJoined;
    }

    /**
     * The servlet that makes the page in the published version; each has its own pool. Search makes all search pages.
     */
    public String servlet() {
        return name.startsWith("SearchIn") ? "Search" : name;
    }

    @Override
    public String toString() {
        return name;
    }
}
