package tailrace.board.blocking;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Types;
import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.List;
import tailrace.board.core.Query;
import tailrace.board.core.Row;

/** A query of the board on a JDBC connection. */
final class Statements {
    private Statements() {}

    static List<Row> run(Connection connection, Query query) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(query.sql())) {
            for (int i = 0; i < query.arguments().size(); i++) {
                statement.setObject(i + 1, query.arguments().get(i));
            }
            if (!statement.execute()) {
                return List.of();
            }
            try (ResultSet rows = statement.getResultSet()) {
                return read(rows);
            }
        }
    }

    private static List<Row> read(ResultSet rows) throws SQLException {
        ResultSetMetaData types = rows.getMetaData();
        List<String> columns = new ArrayList<>();
        for (int i = 1; i <= types.getColumnCount(); i++) {
            columns.add(types.getColumnLabel(i));
        }
        List<Row> read = new ArrayList<>();
        while (rows.next()) {
            Object[] values = new Object[columns.size()];
            for (int i = 0; i < values.length; i++) {
                values[i] = value(rows, i + 1, types.getColumnType(i + 1));
            }
            read.add(new Row(columns, values));
        }
        return read;
    }

    private static Object value(ResultSet rows, int column, int type) throws SQLException {
        return switch (type) {
            case Types.TINYINT, Types.SMALLINT, Types.INTEGER, Types.BIGINT -> rows.getLong(column);
            case Types.TIMESTAMP -> rows.getObject(column, LocalDateTime.class);
            default -> rows.getString(column);
        };
    }
}
