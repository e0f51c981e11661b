package tailrace.board.settings;

import java.io.IOException;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Locale;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;

/** The keys of a properties file, read by type; a key that is never read is an error. */
public final class Keys {
    private final String file;
    private final Properties properties = new Properties();
    private final Set<String> known = new TreeSet<>();

    public Keys(Path path) throws Problem {
        file = path.toString();
        try (Reader reader = Files.newBufferedReader(path)) {
            properties.load(reader);
        } catch (IOException | IllegalArgumentException e) {
            throw new Problem(
                    file + " cannot be read (" + e + "); give a properties file as board/README.md describes it");
        }
    }

    public String text(String key) throws Problem {
        String value = text(key, "");
        if (value.isEmpty()) {
            throw new Problem(file + ": " + key + " is missing; add a line " + key + "=…");
        }
        return value;
    }

    public String text(String key, String otherwise) {
        known.add(key);
        return properties.getProperty(key, otherwise).strip();
    }

    public long number(String key, long least, long most) throws Problem {
        String value = text(key);
        try {
            long number = Long.parseLong(value);
            if (number >= least && number <= most) {
                return number;
            }
        } catch (NumberFormatException e) {
            // checked below
        }
        throw wrong(key, "a whole number from " + least + " to " + most);
    }

    public long number(String key, long least, long most, long otherwise) throws Problem {
        return has(key) ? number(key, least, most) : otherwise;
    }

    public int count(String key, int least, int otherwise) throws Problem {
        return (int) number(key, least, Integer.MAX_VALUE, otherwise);
    }

    /** A number with a fraction, not below 0. */
    public double amount(String key, double most, double otherwise) throws Problem {
        if (!has(key)) {
            return otherwise;
        }
        try {
            double amount = Double.parseDouble(text(key));
            if (amount >= 0 && amount <= most) {
                return amount;
            }
        } catch (NumberFormatException e) {
            // checked below
        }
        throw wrong(key, "a number from 0 to " + most);
    }

    public boolean truth(String key, boolean otherwise) throws Problem {
        return choice(key, otherwise ? Truth.TRUE : Truth.FALSE) == Truth.TRUE;
    }

    private enum Truth {
        TRUE,
        FALSE
    }

    /** One of the constants, in lower case. */
    public <E extends Enum<E>> E choice(String key, E otherwise) throws Problem {
        return has(key) ? choice(key, otherwise.getDeclaringClass()) : otherwise;
    }

    public <E extends Enum<E>> E choice(String key, Class<E> type) throws Problem {
        String value = text(key);
        for (E constant : type.getEnumConstants()) {
            if (constant.name().toLowerCase(Locale.ROOT).equals(value)) {
                return constant;
            }
        }
        String names = Arrays.stream(type.getEnumConstants()).map(E::name).collect(Collectors.joining(" or "));
        throw wrong(key, names.toLowerCase(Locale.ROOT));
    }

    public boolean has(String key) {
        known.add(key);
        return properties.containsKey(key);
    }

    public Problem wrong(String key, String wanted) {
        return new Problem(file + ": " + key + " must be " + wanted + ", got " + text(key, "nothing"));
    }

    /** Called when all keys have been read. */
    public void done() throws Problem {
        for (String key : properties.stringPropertyNames()) {
            if (!known.contains(key)) {
                throw new Problem(file + ": there is no key " + key + "; the keys are " + String.join(", ", known));
            }
        }
    }
}
