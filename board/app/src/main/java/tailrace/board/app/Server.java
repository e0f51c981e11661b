package tailrace.board.app;

import jakarta.servlet.http.HttpServlet;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.apache.catalina.Context;
import org.apache.catalina.LifecycleException;
import org.apache.catalina.Wrapper;
import org.apache.catalina.connector.Connector;
import org.apache.catalina.startup.Tomcat;
import tailrace.board.settings.Problem;
import tailrace.board.settings.Settings.Listener;
import tailrace.board.settings.Settings.Protocol;

/** Tomcat with one servlet behind one connector. */
final class Server implements AutoCloseable {
    /** Held here, because a logger without a reference forgets its level. */
    private static final Logger TOMCAT = Logger.getLogger("org.apache");

    /** Warns about leaks of an application in a server that continues; this one ends with its application. */
    private static final Logger LEAKS = Logger.getLogger("org.apache.catalina.loader");

    private final Tomcat tomcat = new Tomcat();
    private final Path work;

    private Server(Path work) {
        this.work = work;
    }

    static Server start(Listener listener, HttpServlet board, boolean admin) throws Problem, IOException {
        TOMCAT.setLevel(Level.WARNING);
        LEAKS.setLevel(Level.OFF);
        Server server = new Server(Files.createTempDirectory("board"));
        server.tomcat.setBaseDir(server.work.toString());
        server.tomcat.setConnector(connector(listener));
        Context context = server.tomcat.addContext("", server.work.toString());
        add(context, "board", board, "/");
        if (admin) {
            add(context, "gc", new Collect(), "/admin/gc");
        }
        try {
            server.tomcat.start();
            return server;
        } catch (LifecycleException e) {
            server.close();
            throw new Problem("cannot listen on %s:%d (%s); free that port, or choose other values of address and port"
                    .formatted(listener.address(), listener.port(), reason(e)));
        }
    }

    int port() {
        return tomcat.getConnector().getLocalPort();
    }

    private static void add(Context context, String name, HttpServlet servlet, String pattern) {
        Wrapper wrapper = Tomcat.addServlet(context, name, servlet);
        wrapper.setAsyncSupported(true);
        context.addServletMappingDecoded(pattern, name);
    }

    private static Connector connector(Listener listener) {
        boolean ajp = listener.protocol() == Protocol.AJP;
        Connector connector = new Connector(ajp ? "AJP/1.3" : "HTTP/1.1");
        connector.setThrowOnFailure(true);
        connector.setPort(listener.port());
        connector.setProperty("address", listener.address());
        connector.setProperty("maxThreads", Integer.toString(listener.threads()));
        connector.setProperty("minSpareThreads", Integer.toString(listener.threads()));
        connector.setProperty("maxConnections", Integer.toString(listener.connections()));
        connector.setProperty("acceptCount", Integer.toString(listener.backlog()));
        if (ajp) {
            // the caller is a web server of the same experiment
            connector.setProperty("secretRequired", "false");
        } else {
            connector.setProperty("maxKeepAliveRequests", Integer.toString(listener.keepalive()));
        }
        return connector;
    }

    private static String reason(Throwable e) {
        return e.getCause() == null ? e.getMessage() : reason(e.getCause());
    }

    @Override
    public void close() {
        try {
            tomcat.stop();
            tomcat.destroy();
        } catch (LifecycleException e) {
            System.err.println("board: Tomcat did not stop cleanly: " + reason(e));
        }
        Folder.delete(work);
    }
}
