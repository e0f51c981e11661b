package tailrace.board.core;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;

/**
 * The parameters of a request. They are read here and not by the servlet container, which drops what it cannot decode:
 * a damaged query is the client's mistake, and both edges must report it in the same words.
 */
final class Parameters {
    private final Map<String, String> values;

    private Parameters(Map<String, String> values) {
        this.values = values;
    }

    /**
     * @param query what follows the question mark, or null
     * @throws BadRequest if it is not percent-encoded UTF-8
     */
    static Parameters of(String query) {
        Map<String, String> values = new HashMap<>();
        for (String pair : query == null ? new String[0] : query.split("&")) {
            int equals = pair.indexOf('=');
            String name = equals < 0 ? pair : pair.substring(0, equals);
            values.putIfAbsent(decoded(name), equals < 0 ? "" : decoded(pair.substring(equals + 1)));
        }
        return new Parameters(values);
    }

    /** At most `longest` characters, at least one. */
    String text(String name, int longest) {
        String value = values.getOrDefault(name, "");
        if (value.isEmpty()) {
            throw new BadRequest("The parameter " + name + " is missing.");
        }
        if (value.length() > longest) {
            throw new BadRequest("The parameter %s must have at most %d characters, got %d."
                    .formatted(name, longest, value.length()));
        }
        return value;
    }

    long number(String name, long least, long most) {
        String value = text(name, 20);
        try {
            long number = Long.parseLong(value);
            if (number >= least && number <= most) {
                return number;
            }
        } catch (NumberFormatException e) {
            // checked below
        }
        throw new BadRequest(
                "The parameter %s must be a whole number from %d to %d, got %s.".formatted(name, least, most, value));
    }

    long number(String name, long least, long most, long otherwise) {
        return values.containsKey(name) ? number(name, least, most) : otherwise;
    }

    /** The key of a row. */
    long id(String name) {
        return number(name, 0, Integer.MAX_VALUE);
    }

    /** One of these; the first if it is not given. */
    String choice(String name, List<String> choices) {
        String value = values.getOrDefault(name, choices.get(0));
        if (!choices.contains(value)) {
            throw new BadRequest(
                    "The parameter %s must be one of %s, got %s.".formatted(name, String.join(", ", choices), value));
        }
        return value;
    }

    private static String decoded(String text) {
        byte[] bytes = new byte[text.length()];
        int length = 0;
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '%') {
                bytes[length++] = (byte) (hex(text, i + 1) * 16 + hex(text, i + 2));
                i += 2;
            } else if (c >= 0x80) {
                throw new BadRequest("The query has a byte above 127 that is not percent-encoded.");
            } else {
                bytes[length++] = (byte) (c == '+' ? ' ' : c);
            }
        }
        try {
            String value = StandardCharsets.UTF_8
                    .newDecoder()
                    .decode(ByteBuffer.wrap(bytes, 0, length))
                    .toString();
            if (value.indexOf('\0') >= 0) {
                throw new BadRequest("The query has a NUL character.");
            }
            return value;
        } catch (CharacterCodingException e) {
            throw new BadRequest("The query is not UTF-8.");
        }
    }

    private static int hex(String text, int at) {
        if (at >= text.length() || !HexFormat.isHexDigit(text.charAt(at))) {
            throw new BadRequest("The query has a percent sign without two hexadecimal digits behind it.");
        }
        return HexFormat.fromHexDigit(text.charAt(at));
    }
}
