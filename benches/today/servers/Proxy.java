import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.net.HttpURLConnection;
import java.net.URI;
import org.apache.catalina.connector.Connector;
import org.apache.catalina.startup.Tomcat;

/**
 * A blocking servlet on an embedded Tomcat: java Proxy HOST PORT ORIGIN FOLDER [KEY=VALUE]…, with attributes of its
 * connector.
 */
public final class Proxy extends HttpServlet {
    private static final long serialVersionUID = 1L;
    private final String origin;

    private Proxy(String origin) {
        this.origin = origin;
    }

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse answer) throws IOException {
        URI asked = URI.create("http://" + origin + request.getRequestURI());
        HttpURLConnection connection = (HttpURLConnection) asked.toURL().openConnection();
        answer.setStatus(connection.getResponseCode());
        try (var body = connection.getInputStream()) {
            body.transferTo(answer.getOutputStream());
        }
    }

    public static void main(String[] words) throws Exception {
        Tomcat tomcat = new Tomcat();
        tomcat.setBaseDir(words[3]);
        Connector connector = new Connector("HTTP/1.1");
        connector.setPort(Integer.parseInt(words[1]));
        connector.setProperty("address", words[0]);
        for (int i = 4; i < words.length; i++) {
            String[] pair = words[i].split("=", 2);
            if (!connector.setProperty(pair[0], pair[1])) {
                throw new IllegalArgumentException("Tomcat's connector has no attribute " + pair[0]);
            }
        }
        tomcat.getService().addConnector(connector);
        var context = tomcat.addContext("", null);
        Tomcat.addServlet(context, "proxy", new Proxy(words[2]));
        context.addServletMappingDecoded("/", "proxy");
        tomcat.start();
        tomcat.getServer().await();
    }
}
