package tailrace.board.app;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The 24 requests of paths.csv, with values for the braces. */
final class Paths {
    private static final Map<String, String> VALUES = Map.of(
            "new",
            "1",
            "category",
            "7",
            "day",
            "20",
            "story",
            "77",
            "user",
            "11",
            "comment",
            "30",
            "author",
            "2",
            "word",
            "Be");

    private Paths() {}

    static Map<String, String> all() throws IOException {
        Map<String, String> all = new LinkedHashMap<>();
        List<String> lines = Files.readAllLines(Path.of("../paths.csv"));
        for (String line : lines.subList(1, lines.size())) {
            String path = line.substring(line.indexOf(',') + 1);
            for (Map.Entry<String, String> value : VALUES.entrySet()) {
                path = path.replace("{" + value.getKey() + "}", value.getValue());
            }
            all.put(line.substring(0, line.indexOf(',')), path);
        }
        return all;
    }
}
