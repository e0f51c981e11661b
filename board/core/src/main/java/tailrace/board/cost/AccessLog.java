package tailrace.board.cost;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Instant;
import java.util.Arrays;

/**
 * A line for each page, padded to a number of bytes and written at once: the load of a server's log on its disk. A log
 * that cannot be written is reported once and does not stop the pages.
 */
public final class AccessLog implements AutoCloseable {
    private final FileChannel file;
    private final Path path;
    private final int bytes;
    private volatile boolean troubled;

    /** @param bytes of each line; a line that needs more is as long as it is */
    public AccessLog(Path path, int bytes) throws IOException {
        this.path = path;
        this.bytes = bytes;
        this.file =
                FileChannel.open(path, StandardOpenOption.CREATE, StandardOpenOption.WRITE, StandardOpenOption.APPEND);
    }

    public void write(String page, int status) {
        byte[] line = (Instant.now() + " " + page + " " + status).getBytes(StandardCharsets.UTF_8);
        byte[] padded = Arrays.copyOf(line, Math.max(bytes, line.length + 1));
        Arrays.fill(padded, line.length, padded.length, (byte) ' ');
        padded[padded.length - 1] = '\n';
        try {
            file.write(ByteBuffer.wrap(padded));
        } catch (IOException e) {
            if (!troubled) {
                troubled = true;
                System.err.println("board: cannot write to the log "
                        + path
                        + ": "
                        + e.getMessage()
                        + "; pages are served without");
            }
        }
    }

    @Override
    public void close() throws IOException {
        file.close();
    }
}
