package tailrace.board.app;

import java.io.IOException;
import java.nio.file.Path;
import java.sql.SQLException;
import java.time.Clock;
import java.util.Locale;
import tailrace.board.data.Fill;
import tailrace.board.settings.Keys;
import tailrace.board.settings.Problem;
import tailrace.board.settings.Settings;
import tailrace.board.settings.Sizes;

/** The command line. */
public final class Main {
    private static final String USAGE =
            """
usage: java -jar board.jar serve FILE.properties   serve until SIGTERM; prints "ready ..." when it does
       java -jar board.jar data FILE.properties    create the schema and the seeded data
       java -jar board.jar static FOLDER           write the static pages, for a web server
""";

    private Main() {}

    public static void main(String[] arguments) {
        if (arguments.length != 2) {
            System.err.print(USAGE);
            System.exit(2);
        }
        try {
            run(arguments[0], Path.of(arguments[1]));
        } catch (Problem e) {
            System.err.println("board: " + e.getMessage());
            System.exit(1);
        } catch (SQLException | IOException e) {
            System.err.println("board: " + e);
            System.exit(1);
        }
    }

    private static void run(String command, Path path) throws Problem, SQLException, IOException {
        switch (command) {
            case "serve" -> serve(Settings.read(path));
            case "data" -> {
                Keys keys = new Keys(path);
                Fill.fill(Settings.database(keys), Sizes.read(keys), System.out::println);
            }
            case "static" -> Folder.write(path);
            default -> throw new Problem("there is no command " + command + "\n" + USAGE);
        }
    }

    private static void serve(Settings settings) throws Problem, SQLException, IOException {
        Serve serve = Serve.start(settings, Clock.systemUTC());
        Runtime.getRuntime().addShutdownHook(new Thread(serve::close));
        Settings.Listener listener = settings.listener();
        String served = (settings.edge() + " " + listener.protocol()).toLowerCase(Locale.ROOT);
        System.out.printf(
                Locale.ROOT, "ready %s %s:%d work.rate=%.4f%n", served, listener.address(), serve.port(), serve.rate());
        System.out.flush();
    }
}
