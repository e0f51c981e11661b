package tailrace.board.core;

import java.time.LocalDateTime;
import java.time.format.DateTimeFormatter;
import java.util.Arrays;
import java.util.List;

/**
 * One row of an answer of the database. Whole numbers of any width, text and times; the edges need no more types.
 *
 * @param columns names of the columns, shared by all rows of an answer
 * @param values in the order of the columns
 */
public record Row(List<String> columns, Object[] values) {
    private static final DateTimeFormatter TIME = DateTimeFormatter.ofPattern("uuuu-MM-dd HH:mm:ss");

    public long number(String column) {
        return ((Number) value(column)).longValue();
    }

    /** Text, or a time as the database writes it. A missing value is the empty text. */
    public String text(String column) {
        Object value = value(column);
        if (value instanceof LocalDateTime time) {
            return time.format(TIME);
        }
        return value == null ? "" : value.toString();
    }

    /** This row and one more column. */
    public Row with(String column, Object value) {
        String[] names = columns.toArray(new String[columns.size() + 1]);
        Object[] more = Arrays.copyOf(values, values.length + 1);
        names[columns.size()] = column;
        more[values.length] = value;
        return new Row(List.of(names), more);
    }

    private Object value(String column) {
        for (int i = 0; i < values.length; i++) {
            if (columns.get(i).equals(column)) {
                return values[i];
            }
        }
        throw new IllegalArgumentException("no column " + column + " in " + columns);
    }
}
