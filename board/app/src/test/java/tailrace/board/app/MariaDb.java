package tailrace.board.app;

import java.io.File;
import java.io.IOException;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** A MariaDB server for the tests, in a temporary folder, with user root and no password. */
final class MariaDb {
    private static final long START_S = 30;

    private final Path folder;
    final int port;
    private Process server;

    MariaDb() throws IOException, InterruptedException {
        folder = Files.createTempDirectory("board-mariadb");
        try (ServerSocket free = new ServerSocket(0)) {
            port = free.getLocalPort();
        }
        Process install = run(List.of(
                "mariadb-install-db",
                "--no-defaults",
                "--user=" + user(),
                "--datadir=" + data(),
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
                "--skip-name-resolve"));
        if (!install.waitFor(START_S, TimeUnit.SECONDS) || install.exitValue() != 0) {
            throw new IOException("mariadb-install-db failed; see " + folder.resolve("log"));
        }
        start();
    }

    /** Also after {@link #stop}. */
    void start() throws IOException, InterruptedException {
        server = run(List.of(
                "mariadbd",
                "--no-defaults",
                "--user=" + user(),
                "--datadir=" + data(),
                "--port=" + port,
                "--bind-address=127.0.0.1",
                "--socket=" + folder.resolve("socket"),
                "--pid-file=" + folder.resolve("pid"),
                "--skip-name-resolve",
                "--innodb-flush-log-at-trx-commit=0",
                "--innodb-buffer-pool-size=64M",
                "--innodb-log-file-size=16M"));
        for (long left = START_S * 20; ; left--) {
            try {
                connect("").close();
                return;
            } catch (SQLException e) {
                if (left == 0 || !server.isAlive()) {
                    throw new IOException("mariadbd did not start; see " + folder.resolve("log"), e);
                }
                TimeUnit.MILLISECONDS.sleep(50);
            }
        }
    }

    void stop() throws InterruptedException {
        server.destroyForcibly().waitFor();
    }

    /** STOP freezes the server, CONT continues it. */
    void signal(String name) throws IOException, InterruptedException {
        new ProcessBuilder("kill", "-" + name, Long.toString(server.pid()))
                .start()
                .waitFor();
    }

    Connection connect(String schema) throws SQLException {
        return DriverManager.getConnection("jdbc:mariadb://127.0.0.1:" + port + "/" + schema, "root", "");
    }

    void run(String schema, String... statements) throws SQLException {
        try (Connection connection = connect(schema);
                Statement statement = connection.createStatement()) {
            for (String sql : statements) {
                statement.execute(sql);
            }
        }
    }

    /** Debian installs the server in a folder that is only on root's path. */
    private Process run(List<String> command) throws IOException {
        File log = folder.resolve("log").toFile();
        ProcessBuilder program = new ProcessBuilder(command);
        program.environment().merge("PATH", ":/usr/sbin", String::concat);
        List<String> found = new ArrayList<>(List.of("env"));
        found.addAll(command);
        return program.command(found)
                .redirectErrorStream(true)
                .redirectOutput(ProcessBuilder.Redirect.appendTo(log))
                .start();
    }

    private Path data() {
        return folder.resolve("data");
    }

    private static String user() {
        return System.getProperty("user.name");
    }

    void close() throws InterruptedException {
        stop();
        Folder.delete(folder);
    }
}
