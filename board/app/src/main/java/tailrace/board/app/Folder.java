package tailrace.board.app;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import tailrace.board.core.Answer;
import tailrace.board.core.StaticPages;
import tailrace.board.settings.Problem;

/** Folders of files: one to send, one to write for a web server, one to remove. */
final class Folder {
    /** All files are kept in memory; a larger folder does not hold static pages. */
    private static final long BYTES_MAX = 100_000_000;

    private Folder() {}

    /** Its files by relative path. */
    static Map<String, Answer> read(Path folder) throws Problem {
        Map<String, Answer> files = new HashMap<>();
        long total = 0;
        try (Stream<Path> found = Files.walk(folder)) {
            for (Path file : (Iterable<Path>) found.filter(Files::isRegularFile)::iterator) {
                total += Files.size(file);
                if (total > BYTES_MAX) {
                    throw new Problem("static.dir %s has more than %d bytes; name the folder of the static pages"
                            .formatted(folder, BYTES_MAX));
                }
                String path = "/" + folder.relativize(file).toString().replace('\\', '/');
                files.put(path, StaticPages.file(path, Files.readAllBytes(file)));
            }
        } catch (IOException e) {
            throw new Problem("static.dir " + folder + " cannot be read (" + e + "); name a folder that is there");
        }
        return files;
    }

    /** The built-in ones, for a web server that serves them itself. */
    static void write(Path folder) throws Problem {
        try {
            Files.createDirectories(folder);
            for (Map.Entry<String, Answer> file : StaticPages.all().entrySet()) {
                Path path = folder.resolve(file.getKey().substring(1));
                Path whole = path.resolveSibling(path.getFileName() + ".tmp");
                Files.write(whole, file.getValue().body());
                Files.move(whole, path, java.nio.file.StandardCopyOption.REPLACE_EXISTING);
            }
        } catch (IOException e) {
            throw new Problem("the static pages cannot be written to " + folder + " (" + e + ")");
        }
    }

    static void delete(Path folder) {
        try (Stream<Path> found = Files.walk(folder)) {
            List<Path> paths = new ArrayList<>(found.toList());
            Collections.reverse(paths);
            for (Path path : paths) {
                Files.delete(path);
            }
        } catch (IOException e) {
            System.err.println("board: cannot remove " + folder + ": " + e.getMessage());
        }
    }
}
