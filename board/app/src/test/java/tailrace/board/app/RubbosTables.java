package tailrace.board.app;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import tailrace.board.core.Form;

/** The tables from which experiments are made: the pages, and the queries of each. */
final class RubbosTables {
    private static final Path FOLDER = Path.of("../../python/tailrace/experiment/rubbos");
    private static final Pattern NAME = Pattern.compile(
            "(?s)(SELECT).*? FROM (\\w+).*|(INSERT) INTO (\\w+).*|(UPDATE)" + " (\\w+).*|(DELETE) FROM (\\w+).*");

    private final List<String[]> queries = rows("queries.csv");

    RubbosTables() throws IOException {}

    List<String> interactions() throws IOException {
        return rows("states.csv").stream()
                .filter(row -> !row[2].equals("control"))
                .map(row -> row[1])
                .toList();
    }

    /** Share of a page in the browse-only walk, in percent. */
    Map<String, Double> shares() throws IOException {
        Map<String, Double> shares = new HashMap<>();
        rows("shares.csv").forEach(row -> shares.put(row[0], Double.valueOf(row[1])));
        return shares;
    }

    /** Queries of an interaction by name, without those that are not made. */
    Map<String, Integer> queries(String interaction, Form form, Map<String, Integer> words) {
        Map<String, Integer> made = new HashMap<>();
        for (String[] row : queries) {
            int count = (int) terms(row[form == Form.PLAIN ? 2 : 3], words);
            if (row[0].equals(interaction) && count > 0) {
                made.put(row[1], count);
            }
        }
        return made;
    }

    /** All queries of an interaction. */
    double total(String interaction, Form form, Map<String, ? extends Number> words) {
        return queries.stream()
                .filter(row -> row[0].equals(interaction))
                .mapToDouble(row -> terms(row[form == Form.PLAIN ? 2 : 3], words))
                .sum();
    }

    /** "2+depth-1" */
    private static double terms(String text, Map<String, ? extends Number> words) {
        double sum = 0;
        Matcher terms = Pattern.compile("([+-]?)(\\w+)").matcher(text);
        while (terms.find()) {
            double value = terms.group(2).matches("\\d+")
                    ? Double.parseDouble(terms.group(2))
                    : words.get(terms.group(2)).doubleValue();
            sum += terms.group(1).equals("-") ? -value : value;
        }
        return Math.max(sum, 0);
    }

    /** "SELECT stories" */
    static String nameOf(String sql) {
        Matcher name = NAME.matcher(sql);
        if (!name.matches()) {
            throw new IllegalArgumentException(sql);
        }
        List<String> found = new ArrayList<>();
        for (int i = 1; i <= name.groupCount(); i++) {
            if (name.group(i) != null) {
                found.add(name.group(i));
            }
        }
        return String.join(" ", found);
    }

    private static List<String[]> rows(String file) throws IOException {
        List<String> lines = Files.readAllLines(FOLDER.resolve(file));
        return lines.subList(1, lines.size()).stream()
                .map(line -> line.split(","))
                .toList();
    }
}
