//! Distinguishes words that name a kind of work from those that identify a thing or a person, or
//! that are secret.
//!
//! A plain word is made of letters as words are, with a few digits at its end: `stories`,
//! `BrowseCategories2`, `v2`, `wp-admin`, `edu.rice.rubbos`. Everything else becomes `{}`: numbers,
//! tokens, keys, addresses of people, telephone numbers, anything percent-encoded. A doubtful word
//! is folded.

/// Longer segments are not routes: the longest of the bulletin board has 48 characters.
const SEGMENT_MAX: usize = 64;
/// Letters of one word; random ones of six letters hold less than 28 bits, and acronyms look like them.
const WORD_MAX: usize = 20;
const ACRONYM_MAX: usize = 6;
/// Consonants in a row (`catchphrase` has six, nearly every other word at most four), and digits
/// after a word (`page10`).
const CONSONANTS_MAX: usize = 4;
const DIGITS_MAX: usize = 2;
/// Letters to each capital on average, where there are several: `BrowseStories` has six, random letters two.
const LETTERS_TO_A_CAPITAL: usize = 3;
/// Prefixes of vendors' keys, which make them detectable by scanners for secrets.
const KEYS: [&str; 16] = [
    "sk_",
    "sk-",
    "pk_",
    "rk_",
    "whsec_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "github_pat",
    "glpat",
    "xox",
    "AKIA",
    "ASIA",
    "AIza",
    "eyJ",
];

pub fn is_plain(segment: &str) -> bool {
    segment.len() <= SEGMENT_MAX
        && !KEYS.iter().any(|key| segment.starts_with(key))
        && segment.split(['-', '_', '.', '~', '$']).all(is_token)
}

/// Letters and then at most a few digits, or the other way round.
fn is_token(token: &str) -> bool {
    let letters = token.trim_end_matches(|c: char| c.is_ascii_digit());
    let after = token.len() - letters.len();
    let word = letters.trim_start_matches(|c: char| c.is_ascii_digit());
    let before = letters.len() - word.len();
    after <= DIGITS_MAX
        && before <= DIGITS_MAX
        && (before == 0 || after == 0)
        && word.bytes().all(|b| b.is_ascii_alphabetic())
        && are_words(word)
}

fn are_words(text: &str) -> bool {
    let capitals = text.bytes().filter(u8::is_ascii_uppercase).count();
    let mixed = capitals > 2 && capitals < text.len();
    if mixed && text.len() < capitals * LETTERS_TO_A_CAPITAL {
        return false;
    }
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest[1..].find(|c: char| c.is_ascii_uppercase());
        let (word, next) = rest.split_at(end.map_or(rest.len(), |end| end + 1));
        if !is_word(word) {
            return false;
        }
        rest = next;
    }
    true
}

fn is_word(word: &str) -> bool {
    let vowel = |b: u8| {
        matches!(
            b.to_ascii_lowercase(),
            b'a' | b'e' | b'i' | b'o' | b'u' | b'y'
        )
    };
    let consonants = word
        .as_bytes()
        .split(|&b| vowel(b))
        .map(<[u8]>::len)
        .max()
        .unwrap_or(0);
    word.len() <= ACRONYM_MAX || (word.len() <= WORD_MAX && consonants <= CONSONANTS_MAX)
}

#[cfg(test)]
mod tests {
    use super::is_plain;

    #[test]
    fn words_of_routes_are_plain() {
        for word in [
            "",
            "index",
            "stories",
            "BrowseCategories2",
            "StoriesOfTheDay",
            "edu.rice.rubbos.servlets.ViewStory",
            "v2",
            "page10",
            "1.0",
            "wp-admin",
            "xmlrpc",
            "api",
            "PHP",
            "getUserProfileInformation2",
            "oauth2",
            "favicon",
            "admin_users",
            "2fa",
            "cgi-bin",
            "BrowseStoriesByCategory",
            "checkout",
            "rss.xml",
            "facade",
            "X",
        ] {
            assert!(is_plain(word), "{word}");
        }
    }

    #[test]
    fn what_identifies_or_is_secret_is_not() {
        for word in [
            "4711",
            "+491701234567",
            "555-867-5309",
            "alice@example.org",
            "alice%40example.org",
            "sk_live_abcdef",
            "eyJhbGciOiJIUzI1NiJ9",
            "dQw4w9WgXcQ",
            "xkqzjwvbnmtr",
            "hunter2000",
            "a1b2c3d4",
            "9fceb02d0ae5",
            "123e4567-e89b-12d3-a456-426614174000",
            "caf\u{e9}",
            "a b",
            "QmFzZTY0VGV4dA",
            "AKIAIOSFODNN",
            "10.20.30.400",
            "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz",
            "2026-11-25",
            "zGhKpQrT",
            "order-20231",
            "%20",
        ] {
            assert!(!is_plain(word), "{word}");
        }
    }
}
