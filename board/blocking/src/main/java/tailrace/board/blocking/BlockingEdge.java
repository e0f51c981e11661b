package tailrace.board.blocking;

import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.function.Consumer;
import java.util.function.Function;
import javax.sql.DataSource;
import tailrace.board.core.Answer;
import tailrace.board.core.Board;
import tailrace.board.core.Interaction;
import tailrace.board.core.Step;
import tailrace.board.cost.Costs;

/**
 * Serves the board with a thread for each request, which waits for each of its queries. A page holds one connection from
 * its first query until it is complete.
 */
public final class BlockingEdge extends HttpServlet {
    private final Board board;
    private final Costs costs;
    private final Function<Interaction, DataSource> pools;
    private final Consumer<Throwable> troubles;

    /** @param troubles told why a page could not be made */
    public BlockingEdge(
            Board board, Costs costs, Function<Interaction, DataSource> pools, Consumer<Throwable> troubles) {
        this.board = board;
        this.costs = costs;
        this.pools = pools;
        this.troubles = troubles;
    }

    @Override
    protected void service(HttpServletRequest request, HttpServletResponse response) throws IOException {
        boolean asks = request.getMethod().equals("GET") || request.getMethod().equals("HEAD");
        Answer answer = asks ? answer(request) : Answer.notAllowed();
        response.setStatus(answer.status());
        response.setContentType(answer.type());
        response.setContentLength(answer.body().length);
        response.getOutputStream().write(answer.body());
    }

    private Answer answer(HttpServletRequest request) {
        Board.Opened opened = board.open(request.getRequestURI(), request.getQueryString());
        Answer answer;
        try {
            answer = opened.interaction().isPresent()
                    ? page(opened.interaction().get(), opened.first())
                    : ((Step.Done) opened.first()).answer();
        } catch (SQLException | RuntimeException e) {
            troubles.accept(e);
            answer = Answer.unavailable();
        }
        costs.log(opened.interaction(), answer);
        return answer;
    }

    private Answer page(Interaction interaction, Step first) throws SQLException {
        costs.begin(interaction);
        if (first instanceof Step.Done done) {
            costs.make(interaction);
            return done.answer();
        }
        try (Connection connection = pools.apply(interaction).getConnection()) {
            Step step = first;
            while (step instanceof Step.Ask ask) {
                step = ask.then().apply(Statements.run(connection, ask.query()));
            }
            costs.make(interaction);
            return ((Step.Done) step).answer();
        }
    }
}
