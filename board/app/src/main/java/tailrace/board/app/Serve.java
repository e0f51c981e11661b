package tailrace.board.app;

import com.zaxxer.hikari.HikariDataSource;
import io.vertx.mysqlclient.MySQLConnectOptions;
import jakarta.servlet.http.HttpServlet;
import java.io.IOException;
import java.sql.SQLException;
import java.time.Clock;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;
import javax.sql.DataSource;
import tailrace.board.async.AsyncEdge;
import tailrace.board.async.AsyncEdge.Entrance;
import tailrace.board.async.Connections;
import tailrace.board.blocking.BlockingEdge;
import tailrace.board.blocking.Pools;
import tailrace.board.core.Answer;
import tailrace.board.core.Board;
import tailrace.board.core.Interaction;
import tailrace.board.core.Interactions;
import tailrace.board.core.StaticPages;
import tailrace.board.cost.AccessLog;
import tailrace.board.cost.Costs;
import tailrace.board.cost.Garbage;
import tailrace.board.cost.Work;
import tailrace.board.data.Database;
import tailrace.board.gate.Gate;
import tailrace.board.gate.LimitedDataSource;
import tailrace.board.gate.PriorityDataSource;
import tailrace.board.settings.Problem;
import tailrace.board.settings.Settings;
import tailrace.board.settings.Settings.Cost;
import tailrace.board.settings.Settings.Edge;
import tailrace.board.settings.Settings.Order;
import tailrace.board.settings.Settings.Per;
import tailrace.board.settings.Settings.Pool;

/** Starts a board from its settings, from the database to the listening port. */
final class Serve implements AutoCloseable {
    private final Server server;
    private final Optional<AccessLog> log;
    private final AutoCloseable connections;
    private final double rate;

    /** A servlet and the connections that it uses. */
    private record Served(HttpServlet servlet, AutoCloseable connections) {}

    private Serve(Server server, Optional<AccessLog> log, AutoCloseable connections, double rate) {
        this.server = server;
        this.log = log;
        this.connections = connections;
        this.rate = rate;
    }

    static Serve start(Settings settings, Clock clock) throws Problem, IOException, SQLException {
        Database.requireWhole(settings.database());
        Map<String, Answer> files = new HashMap<>(StaticPages.files());
        if (settings.files().isPresent()) {
            files.putAll(Folder.read(settings.files().get()));
        }
        Board board = new Board(settings.forms(), clock, files);
        Cost cost = settings.cost();
        Optional<AccessLog> log = log(cost);
        double rate = cost.rate() > 0 ? cost.rate() : Work.calibrated();
        if (cost.live() > Runtime.getRuntime().maxMemory()) {
            throw new Problem("garbage.live of %d bytes does not fit into a heap of %d; start Java with a larger -Xmx"
                    .formatted(cost.live(), Runtime.getRuntime().maxMemory()));
        }
        Garbage garbage = new Garbage(cost.garbage(), cost.live());
        Costs costs = new Costs(new Work(rate), cost.work(), cost.otherwise(), cost.before(), garbage, log);
        Served served =
                settings.edge() == Edge.BLOCKING ? blocking(settings, board, costs) : async(settings, board, costs);
        Server server = Server.start(settings.listener(), served.servlet(), settings.admin());
        return new Serve(server, log, served.connections(), rate);
    }

    int port() {
        return server.port();
    }

    /** Turns of work per ns. */
    double rate() {
        return rate;
    }

    private static Optional<AccessLog> log(Cost cost) throws Problem {
        try {
            return cost.file().isPresent()
                    ? Optional.of(new AccessLog(cost.file().get(), cost.log()))
                    : Optional.empty();
        } catch (IOException e) {
            throw new Problem("log.file %s cannot be opened (%s); name a file in a folder that is there"
                    .formatted(cost.file().get(), e));
        }
    }

    private static Served blocking(Settings settings, Board board, Costs costs) throws SQLException {
        Pool pool = settings.pool();
        Settings.Database database = settings.database();
        int patience = database.timeoutMs();
        String url = database.url(database.name()) + "?connectTimeout=" + patience + "&socketTimeout=" + patience;
        HikariDataSource hikari =
                Pools.hikari(url, database.user(), database.password(), connections(pool), database.timeoutMs());
        Function<Interaction, DataSource> pools = interaction -> hikari;
        if (pool.order() == Order.PRIORITY) {
            Map<String, DataSource> gated = new HashMap<>();
            lines(pool)
                    .forEach((name, line) -> gated.put(
                            name,
                            new PriorityDataSource(
                                    hikari, line, () -> pool.light().get(name), database.timeout())));
            pools = interaction -> gated.get(interaction.name());
        } else if (pool.per() == Per.INTERACTION || pool.limit() < Gate.UNLIMITED) {
            Map<String, DataSource> gated = new HashMap<>();
            lines(pool)
                    .forEach((name, line) -> gated.put(name, new LimitedDataSource(hikari, line, database.timeout())));
            pools = interaction -> gated.get(interaction.name());
        }
        return new Served(new BlockingEdge(board, costs, pools, new Troubles()), hikari);
    }

    private static Served async(Settings settings, Board board, Costs costs) {
        Pool pool = settings.pool();
        Settings.Database database = settings.database();
        MySQLConnectOptions options = new MySQLConnectOptions()
                .setHost(database.host())
                .setPort(database.port())
                .setUser(database.user())
                .setPassword(database.password())
                .setDatabase(database.name());
        int size = pool.size() == Gate.UNLIMITED ? 0 : connections(pool);
        Connections connections = new Connections(options, size, database.loops(), database.timeoutMs());
        Map<String, Entrance> entrances = new HashMap<>();
        lines(pool)
                .forEach((name, line) ->
                        entrances.put(name, new Entrance(line, pool.light().get(name))));
        HttpServlet servlet = new AsyncEdge(
                board,
                costs,
                interaction -> entrances.get(interaction.name()),
                connections.supplier(),
                new Troubles(),
                database.timeoutMs());
        return new Served(servlet, connections);
    }

    /** The line in which each interaction waits for its connection: one for all, or one for each servlet. */
    private static Map<String, Gate.Line> lines(Pool pool) {
        Gate gate = pool.order() == Order.PRIORITY
                ? Gate.lightFirst(pool.limit(), pool.lightMax())
                : Gate.inOrder(pool.limit());
        Map<String, Gate.Line> shared = new HashMap<>();
        Map<String, Gate.Line> lines = new HashMap<>();
        for (Interaction interaction : Interactions.ALL) {
            String sharer = pool.per() == Per.INTERACTION ? interaction.servlet() : "all";
            lines.put(interaction.name(), shared.computeIfAbsent(sharer, name -> gate.line(pool.size())));
        }
        return lines;
    }

    /** The most connections in use at once. */
    private static int connections(Pool pool) {
        long pools = pool.per() == Per.INTERACTION ? Interactions.ASKING : 1;
        return (int) Math.min(pools * pool.size(), pool.limit());
    }

    @Override
    public void close() {
        server.close();
        for (AutoCloseable part :
                log.isPresent() ? new AutoCloseable[] {connections, log.get()} : new AutoCloseable[] {connections}) {
            try {
                part.close();
            } catch (Exception e) {
                System.err.println("board: " + e);
            }
        }
    }
}
