package tailrace.board.core;

import java.time.Clock;
import java.time.LocalDateTime;
import java.util.Map;
import java.util.Optional;

/** The board without a server: turns a path and a query into a page's first step. */
public final class Board {
    private final Map<String, Form> forms;
    private final Clock clock;
    private final Map<String, Answer> files;

    /**
     * @param forms of the pages, by name; those not there have the plain one
     * @param files what is sent as it is, by path; a file goes before a page of the same name
     */
    public Board(Map<String, Form> forms, Clock clock, Map<String, Answer> files) {
        this.forms = Map.copyOf(forms);
        this.clock = clock;
        this.files = Map.copyOf(files);
    }

    /**
     * What the request is for.
     *
     * @param interaction the page, or none: a file, or an unknown path
     */
    public record Opened(Optional<Interaction> interaction, Step first) {}

    public Opened open(String path, String query) {
        Answer file = files.get(path);
        if (file != null) {
            return new Opened(Optional.empty(), new Step.Done(file));
        }
        Interaction interaction = Interactions.BY_NAME.get(path.substring(Math.min(1, path.length())));
        if (interaction == null) {
            return new Opened(Optional.empty(), Step.refuse(404, "Not found", "There is no page " + path + "."));
        }
        try {
            Form form = forms.getOrDefault(interaction.name(), Form.PLAIN);
            Request request = new Request(Parameters.of(query), form, LocalDateTime.now(clock));
            return new Opened(Optional.of(interaction), interaction.page().apply(request));
        } catch (BadRequest e) {
            return new Opened(Optional.of(interaction), Step.refuse(400, "Bad request", e.getMessage()));
        }
    }
}
