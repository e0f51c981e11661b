package tailrace.board.async;

import io.vertx.core.Future;
import io.vertx.sqlclient.SqlConnection;
import jakarta.servlet.AsyncContext;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;
import tailrace.board.core.Answer;
import tailrace.board.core.Board;
import tailrace.board.core.Interaction;
import tailrace.board.core.Step;
import tailrace.board.cost.Costs;
import tailrace.board.gate.Gate;

/**
 * Serves the board without a thread for each request: a page continues when its rows arrive, in the thread that reads
 * them. As in the blocking edge it holds one connection from its first query until it is complete.
 */
public final class AsyncEdge extends HttpServlet {
    private final Board board;
    private final Costs costs;
    private final Function<Interaction, Entrance> entrances;
    private final Supplier<Future<SqlConnection>> connections;
    private final Consumer<Throwable> troubles;
    private final long patience;

    /** The line in which a page waits for its connection. */
    public record Entrance(Gate.Line line, boolean light) {}

    /**
     * @param connections of a pool, or a new one each time
     * @param troubles told why a page could not be made
     * @param patience ms after which a page is given up
     */
    public AsyncEdge(
            Board board,
            Costs costs,
            Function<Interaction, Entrance> entrances,
            Supplier<Future<SqlConnection>> connections,
            Consumer<Throwable> troubles,
            long patience) {
        this.board = board;
        this.costs = costs;
        this.entrances = entrances;
        this.connections = connections;
        this.troubles = troubles;
        this.patience = patience;
    }

    @Override
    protected void service(HttpServletRequest request, HttpServletResponse response) {
        AsyncContext context = request.startAsync();
        context.setTimeout(patience);
        Reply reply = new Reply(context, response);
        if (!request.getMethod().equals("GET") && !request.getMethod().equals("HEAD")) {
            reply.send(Answer.notAllowed());
            return;
        }
        Board.Opened opened = board.open(request.getRequestURI(), request.getQueryString());
        Consumer<Answer> answered = answer -> {
            costs.log(opened.interaction(), answer);
            reply.send(answer);
        };
        if (opened.interaction().isEmpty()) {
            answered.accept(((Step.Done) opened.first()).answer());
            return;
        }
        Interaction interaction = opened.interaction().get();
        costs.begin(interaction);
        if (opened.first() instanceof Step.Done done) {
            costs.make(interaction);
            answered.accept(done.answer());
            return;
        }
        Page page = new Page(connections, opened.first(), () -> costs.make(interaction));
        reply.onTimeout(page::giveUp);
        page.make(entrances.apply(interaction)).onComplete(made -> {
            if (made.failed()) {
                troubles.accept(made.cause());
            }
            answered.accept(made.succeeded() ? made.result() : Answer.unavailable());
        });
    }
}
