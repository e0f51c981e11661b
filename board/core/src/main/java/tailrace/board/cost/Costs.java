package tailrace.board.cost;

import java.util.Map;
import java.util.Optional;
import tailrace.board.core.Answer;
import tailrace.board.core.Interaction;

/** The cost of a page to its server besides queries: CPU time, memory and log. */
public final class Costs {
    private final Work work;
    private final Map<String, Long> ns;
    private final long otherwise;
    private final double before;
    private final Garbage garbage;
    private final Optional<AccessLog> log;

    /**
     * @param ns CPU time of a page by interaction
     * @param otherwise of an interaction that is not there
     * @param before share of it that is spent before the first query; the rest after the last
     */
    public Costs(
            Work work, Map<String, Long> ns, long otherwise, double before, Garbage garbage, Optional<AccessLog> log) {
        this.work = work;
        this.ns = Map.copyOf(ns);
        this.otherwise = otherwise;
        this.before = before;
        this.garbage = garbage;
        this.log = log;
    }

    /** Before the first query of a page. */
    public void begin(Interaction interaction) {
        work.burn((long) (before * total(interaction)));
    }

    /** When the rows have arrived. */
    public void make(Interaction interaction) {
        work.burn((long) ((1 - before) * total(interaction)));
        garbage.page();
    }

    /** When the answer is known, whatever it is. */
    public void log(Optional<Interaction> interaction, Answer answer) {
        log.ifPresent(file -> file.write(interaction.map(Interaction::name).orElse("file"), answer.status()));
    }

    private long total(Interaction interaction) {
        return ns.getOrDefault(interaction.name(), otherwise);
    }
}
