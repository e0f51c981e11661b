package tailrace.board.data;

import java.util.Random;

/**
 * Invented words, and texts of them. There are as many words as in RUBBoS's dictionary, and, as in a real language, the
 * n-th is used about 1/n as often as the first (Zipf).
 */
final class Words {
    private static final int COUNT = 4_563;
    private static final String[] BEGIN = {
        "b", "br", "c", "d", "f", "g", "gr", "h", "k", "l", "m", "n", "p", "pl", "r", "s", "st", "t", "tr", "v"
    };
    private static final String[] MIDDLE = {"a", "e", "i", "o", "u", "ai", "ea", "ou"};
    private static final String[] END = {"", "l", "m", "n", "r", "s", "t", "nd"};

    private Words() {}

    /** The n-th word from 0 on: its digits as syllables, so that no two are the same. */
    static String word(int n) {
        StringBuilder word = new StringBuilder();
        int rest = n;
        do {
            word.append(BEGIN[rest % BEGIN.length]);
            rest /= BEGIN.length;
            word.append(MIDDLE[rest % MIDDLE.length]);
            rest /= MIDDLE.length;
            word.append(END[rest % END.length]);
            rest /= END.length;
        } while (rest > 0);
        return word.toString();
    }

    /** Words with spaces between, at most `length` characters, at least one word. */
    static String text(Random random, int length) {
        StringBuilder text = new StringBuilder(drawn(random));
        text.setCharAt(0, Character.toUpperCase(text.charAt(0)));
        for (String word = drawn(random); text.length() + 1 + word.length() <= length; word = drawn(random)) {
            text.append(' ').append(word);
        }
        return text.toString();
    }

    /** Inverse of the continuous distribution with density 1/x on 1 … COUNT + 1. */
    private static String drawn(Random random) {
        return word((int) Math.pow(COUNT + 1.0, random.nextDouble()) - 1);
    }
}
