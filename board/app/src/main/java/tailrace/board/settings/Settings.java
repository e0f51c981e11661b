package tailrace.board.settings;

import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import tailrace.board.core.Form;
import tailrace.board.core.Interaction;
import tailrace.board.core.Interactions;
import tailrace.board.gate.Gate;

/**
 * The content of a properties file; board/README.md describes every key. Times are ns, sizes bytes.
 *
 * @param forms of every page, by interaction
 */
public record Settings(
        Edge edge,
        Listener listener,
        Database database,
        Pool pool,
        Map<String, Form> forms,
        Optional<Path> files,
        Cost cost,
        boolean admin) {
    public enum Edge {
        BLOCKING,
        ASYNC
    }

    public enum Protocol {
        HTTP,
        AJP
    }

    public enum Per {
        SERVER,
        INTERACTION
    }

    public enum Order {
        FIFO,
        PRIORITY
    }

    public record Listener(
            Protocol protocol, String address, int port, int threads, int connections, int backlog, int keepalive) {}

    /** @param loops threads that read what it sends, in the asynchronous edge */
    public record Database(String host, int port, String user, String password, String name, long timeout, int loops) {
        /** For values that take milliseconds. */
        public int timeoutMs() {
            return (int) (timeout / 1_000_000);
        }

        public String url(String schema) {
            String bracketed = host.contains(":") ? "[" + host + "]" : host;
            return "jdbc:mariadb://" + bracketed + ":" + port + "/" + schema;
        }

        @Override
        public String toString() {
            return name + " at " + host + ":" + port;
        }
    }

    /**
     * @param limit connections in use at once, over all pools
     * @param lightMax heavy pages wait while more light ones hold or want a connection
     * @param light whether a page is light, by interaction
     */
    public record Pool(int size, Per per, Order order, int limit, int lightMax, Map<String, Boolean> light) {}

    /** @param work CPU time of a page by interaction, `otherwise` of those not there */
    public record Cost(
            Map<String, Long> work,
            long otherwise,
            double before,
            double rate,
            long garbage,
            long live,
            int log,
            Optional<Path> file) {}

    private static final long SECOND = 1_000_000_000;

    /** Largest CPU time of one page; more is a mistake in the unit. */
    private static final long WORK_MAX = 60 * SECOND;

    public static Settings read(Path file) throws Problem {
        Keys keys = new Keys(file);
        Edge edge = keys.choice("edge", Edge.class);
        Map<String, Form> forms = forms(keys);
        Optional<Path> files = Optional.of(keys.text("static.dir", ""))
                .filter(dir -> !dir.isEmpty())
                .map(Path::of);
        Settings settings = new Settings(
                edge,
                listener(keys, edge),
                database(keys),
                pool(keys, edge, forms),
                forms,
                files,
                cost(keys),
                keys.truth("admin", false));
        Sizes.read(keys);
        keys.done();
        return settings;
    }

    private static Listener listener(Keys keys, Edge edge) throws Problem {
        Protocol protocol = keys.choice("connector", Protocol.HTTP);
        int threads = keys.count("threads", 1, edge == Edge.BLOCKING ? 165 : 8);
        // a blocking server that accepts more connections than it has threads would queue without limit and never
        // overflow; AJP connections are kept, and those beyond this number would never be served
        int connections = edge == Edge.ASYNC ? 20_000 : protocol == Protocol.AJP ? 1000 : threads;
        return new Listener(
                protocol,
                keys.text("address", "127.0.0.1"),
                (int) keys.number("port", 0, 65_535),
                threads,
                keys.count("connections", 1, connections),
                keys.count("backlog", 1, edge == Edge.BLOCKING ? 128 : 65_535),
                (int) keys.number("keepalive", -1, Integer.MAX_VALUE, -1));
    }

    public static Database database(Keys keys) throws Problem {
        String name = keys.text("database.name");
        if (!name.matches("[A-Za-z0-9_]{1,50}")) {
            throw keys.wrong("database.name", "at most 50 letters, digits and underscores");
        }
        return new Database(
                keys.text("database.host"),
                (int) keys.number("database.port", 1, 65_535, 3306),
                keys.text("database.user"),
                keys.text("database.password", ""),
                name,
                keys.number("database.timeout", 1_000_000, 3600 * SECOND, 60 * SECOND),
                keys.count("database.loops", 1, Runtime.getRuntime().availableProcessors()));
    }

    private static Map<String, Form> forms(Keys keys) throws Problem {
        Form usual = keys.choice("form", Form.JOINED);
        Map<String, Form> forms = new HashMap<>();
        for (String interaction : Interactions.BY_NAME.keySet()) {
            forms.put(interaction, keys.choice("form." + interaction, usual));
        }
        return forms;
    }

    private static Pool pool(Keys keys, Edge edge, Map<String, Form> forms) throws Problem {
        Map<String, Boolean> light = new HashMap<>();
        for (Interaction interaction : Interactions.ALL) {
            String name = interaction.name();
            light.put(name, keys.truth("light." + name, interaction.light(forms.get(name))));
        }
        int size = keys.count("pool.size", 0, 50);
        if (size == 0 && edge == Edge.BLOCKING) {
            throw keys.wrong("pool.size", "at least 1 with edge=blocking");
        }
        Per per = keys.choice("pool.per", Per.SERVER);
        Order order = keys.choice("pool.order", Order.FIFO);
        int limit = keys.count("pool.limit", 0, 0);
        int lightMax = keys.count("pool.priority", 0, Gate.UNLIMITED);
        if (order == Order.FIFO && lightMax < Gate.UNLIMITED) {
            throw keys.wrong("pool.order", "priority when there is a pool.priority");
        }
        boolean queues = limit > 0 || size > 0 && per == Per.SERVER || lightMax < Gate.UNLIMITED;
        if (order == Order.PRIORITY && !queues) {
            throw keys.wrong(
                    "pool.order",
                    "fifo, or have pool.limit or pool.priority beside it: light and heavy pages share no queue");
        }
        return new Pool(
                size == 0 ? Gate.UNLIMITED : size, per, order, limit == 0 ? Gate.UNLIMITED : limit, lightMax, light);
    }

    private static Cost cost(Keys keys) throws Problem {
        Map<String, Long> work = new HashMap<>();
        for (String interaction : Interactions.BY_NAME.keySet()) {
            if (keys.has("work." + interaction)) {
                work.put(interaction, keys.number("work." + interaction, 0, WORK_MAX));
            }
        }
        int log = keys.count("log.per_page", 0, 0);
        String file = log > 0 ? keys.text("log.file") : keys.text("log.file", "");
        return new Cost(
                work,
                keys.number("work.default", 0, WORK_MAX, 0),
                keys.amount("work.before", 1, 0.1),
                keys.amount("work.rate", 1000, 0),
                keys.number("garbage.per_page", 0, 1L << 30, 0),
                keys.number("garbage.live", 0, 1L << 40, 0),
                log,
                Optional.of(file).filter(name -> log > 0).map(Path::of));
    }
}
