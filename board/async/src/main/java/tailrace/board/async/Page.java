package tailrace.board.async;

import io.vertx.core.Future;
import io.vertx.core.Promise;
import io.vertx.sqlclient.RowSet;
import io.vertx.sqlclient.SqlConnection;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeoutException;
import java.util.function.Supplier;
import tailrace.board.core.Answer;
import tailrace.board.core.Row;
import tailrace.board.core.Step;
import tailrace.board.gate.Gate;

/** One page being made: wait at the gate, open a connection, take the steps, close. */
final class Page {
    private final Supplier<Future<SqlConnection>> connections;
    private final Step first;
    private final Runnable complete;
    private final Promise<Void> admitted = Promise.promise();

    /** @param complete what is to be done when the rows are there, before the connection is closed */
    Page(Supplier<Future<SqlConnection>> connections, Step first, Runnable complete) {
        this.connections = connections;
        this.first = first;
        this.complete = complete;
    }

    Future<Answer> make(AsyncEdge.Entrance entrance) {
        Gate.Entry entry = entrance.line().enter(entrance.light(), admitted::tryComplete);
        return admitted.future()
                .compose(in -> connections.get())
                .compose(connection -> take(connection, first).onComplete(made -> connection.close()))
                .onComplete(made -> entry.close());
    }

    /** Stops waiting at the gate. */
    void giveUp() {
        admitted.tryFail(new TimeoutException("no database connection became free in time"));
    }

    private Future<Answer> take(SqlConnection connection, Step step) {
        if (step instanceof Step.Ask ask) {
            return connection
                    .query(ask.query().text())
                    .execute()
                    .compose(rows -> take(connection, ask.then().apply(read(rows))));
        }
        complete.run();
        return Future.succeededFuture(((Step.Done) step).answer());
    }

    private static List<Row> read(RowSet<io.vertx.sqlclient.Row> rows) {
        List<Row> read = new ArrayList<>(rows.size());
        for (io.vertx.sqlclient.Row row : rows) {
            Object[] values = new Object[row.size()];
            for (int i = 0; i < values.length; i++) {
                values[i] = row.getValue(i);
            }
            read.add(new Row(rows.columnsNames(), values));
        }
        return read;
    }
}
