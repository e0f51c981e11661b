package tailrace.board.core;

import java.time.LocalDateTime;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.List;

/**
 * A statement and the values of its question marks: only whole numbers and text.
 *
 * @param sql the statement with a question mark for each argument, and no other question mark
 */
public record Query(String sql, List<Object> arguments) {
    public Query {
        arguments = List.copyOf(arguments);
    }

    public static Query of(String sql, Object... arguments) {
        List<Object> plain = new ArrayList<>();
        for (Object argument : arguments) {
            plain.add(plain(argument));
        }
        return new Query(sql, plain);
    }

    /** A question mark for each of them, for {@code IN (…)}. */
    static String marks(List<?> items) {
        return "?" + ", ?".repeat(items.size() - 1);
    }

    /**
     * The whole statement as text, for a driver that would otherwise need a second exchange to prepare it. The JDBC
     * driver also sends text, so that packets of both edges look alike.
     *
     * <p>In text, quotes and backslashes are doubled: a quote cannot end the text, whether or not the server takes
     * backslashes for escapes (NO_BACKSLASH_ESCAPES); with the default mode the text arrives as it was.
     */
    public String text() {
        StringBuilder text = new StringBuilder(sql.length() + 16 * arguments.size());
        int next = 0;
        for (int i = 0; i < sql.length(); i++) {
            char c = sql.charAt(i);
            if (c == '?') {
                literal(text, arguments.get(next++));
            } else {
                text.append(c);
            }
        }
        if (next != arguments.size()) {
            throw new IllegalArgumentException(arguments.size() + " arguments for " + sql);
        }
        return text.toString();
    }

    private static Object plain(Object argument) {
        if (argument instanceof Long || argument instanceof String) {
            return argument;
        }
        if (argument instanceof Integer number) {
            return number.longValue();
        }
        if (argument instanceof LocalDateTime time) {
            return time.truncatedTo(ChronoUnit.SECONDS).toString().replace('T', ' ');
        }
        throw new IllegalArgumentException("a query takes numbers, text and times, got " + argument);
    }

    private static void literal(StringBuilder text, Object argument) {
        if (argument instanceof Long) {
            text.append(argument);
        } else {
            text.append('\'')
                    .append(argument.toString().replace("\\", "\\\\").replace("'", "''"))
                    .append('\'');
        }
    }
}
