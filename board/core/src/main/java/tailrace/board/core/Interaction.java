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

    /** What makes the page in the published servlets, each with a pool of its own: Search makes all that search. */
    public String servlet() {
        return name.startsWith("SearchIn") ? "Search" : name;
    }

    @Override
    public String toString() {
        return name;
    }
}
