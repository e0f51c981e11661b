package tailrace.board.app;

import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;

/** {@code /admin/gc}: runs a whole garbage collection, and reports how long it took. */
final class Collect extends HttpServlet {
    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        long begun = System.nanoTime();
        System.gc();
        response.setContentType("text/plain;charset=utf-8");
        response.getWriter().println("collected in " + (System.nanoTime() - begun) + " ns");
    }
}
