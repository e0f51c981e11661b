package tailrace.board.async;

import jakarta.servlet.AsyncContext;
import jakarta.servlet.AsyncEvent;
import jakarta.servlet.AsyncListener;
import jakarta.servlet.ServletOutputStream;
import jakarta.servlet.WriteListener;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.util.concurrent.atomic.AtomicBoolean;
import tailrace.board.core.Answer;

/** The answer to one request, sent once, either by the page or when the container's patience ends. */
final class Reply implements AsyncListener {
    private final AsyncContext context;
    private final HttpServletResponse response;
    private final AtomicBoolean sent = new AtomicBoolean();
    private volatile Runnable giveUp = () -> {};

    Reply(AsyncContext context, HttpServletResponse response) {
        this.context = context;
        this.response = response;
        context.addListener(this);
    }

    /** Stops the waiting for a page that will not be sent. */
    void onTimeout(Runnable giveUp) {
        this.giveUp = giveUp;
    }

    /** Sends as fast as the client reads, so that a slow client holds no thread. */
    void send(Answer answer) {
        if (!sent.compareAndSet(false, true)) {
            return;
        }
        try {
            ServletOutputStream out = begin(answer);
            out.setWriteListener(new WriteListener() {
                private boolean written;

                @Override
                public void onWritePossible() throws IOException {
                    while (out.isReady()) {
                        if (written) {
                            context.complete();
                            return;
                        }
                        out.write(answer.body());
                        written = true;
                    }
                }

                @Override
                public void onError(Throwable gone) {
                    context.complete();
                }
            });
        } catch (IOException | RuntimeException gone) {
            context.complete();
        }
    }

    private ServletOutputStream begin(Answer answer) throws IOException {
        response.setStatus(answer.status());
        response.setContentType(answer.type());
        response.setContentLength(answer.body().length);
        return response.getOutputStream();
    }

    /** The container requires completion when this returns. */
    @Override
    public void onTimeout(AsyncEvent event) throws IOException {
        if (sent.compareAndSet(false, true)) {
            Answer answer = Answer.unavailable();
            begin(answer).write(answer.body());
        }
        context.complete();
        giveUp.run();
    }

    @Override
    public void onError(AsyncEvent event) {
        sent.set(true);
        context.complete();
        giveUp.run();
    }

    @Override
    public void onComplete(AsyncEvent event) {}

    @Override
    public void onStartAsync(AsyncEvent event) {}
}
