//! Words that name what a page does, and nobody: `report`, `export`, `login`.
//!
//! A word that one or two requests have may be the name of a person, and is folded. These words are not, because they
//! occur in the routes of many web applications. Words that are given names at least as often (`mark`, `grace`) are left out.

use rustc_hash::FxHashSet;
use std::sync::OnceLock;

/// They are in alphabetical order.
const WORDS: &str = include_str!("vocabulary.txt");

/// Whether all parts of a word are such words, also in the plural: `HeavyReport`, `order-items`, `threads2`.
pub fn names_nobody(word: &str) -> bool {
    let mut parts = word.split(|c: char| !c.is_ascii_alphabetic());
    let mut found = false;
    parts.all(|part| {
        found |= !part.is_empty();
        pieces(part).all(|piece| piece.is_empty() || is_known(&piece.to_ascii_lowercase()))
    }) && found
}

/// The parts of a word that begin with a capital after a small letter.
fn pieces(part: &str) -> impl Iterator<Item = &str> {
    let bytes = part.as_bytes();
    let begins = |&at: &usize| bytes[at].is_ascii_uppercase() && bytes[at - 1].is_ascii_lowercase();
    let mut bounds = vec![0];
    bounds.extend((1..bytes.len()).filter(begins));
    bounds.push(bytes.len());
    (1..bounds.len()).filter_map(move |i| part.get(bounds[i - 1]..bounds[i]))
}

fn is_known(word: &str) -> bool {
    static KNOWN: OnceLock<FxHashSet<&str>> = OnceLock::new();
    let known = KNOWN.get_or_init(|| WORDS.split_ascii_whitespace().collect());
    let one = |word: &str| known.contains(word);
    let ends = [("s", ""), ("es", ""), ("ies", "y")];
    one(word)
        || ends.iter().any(|(end, instead)| {
            let stem = word.strip_suffix(end);
            stem.is_some_and(|stem| one(&format!("{stem}{instead}")))
        })
}

#[cfg(test)]
mod tests {
    use super::{names_nobody, WORDS};

    #[test]
    fn routes_of_web_applications_name_nobody() {
        for word in [
            "report",
            "Reports",
            "HeavyReport",
            "order-items",
            "threads2",
            "categories",
        ] {
            assert!(names_nobody(word), "{word}");
        }
    }

    #[test]
    fn what_may_be_a_person_or_a_secret_is_none_of_them() {
        for word in [
            "alice",
            "john-report",
            "smith2",
            "hunter2",
            "",
            "17",
            "secret",
            "ReportJohn",
        ] {
            assert!(!names_nobody(word), "{word}");
        }
    }

    #[test]
    fn each_word_is_there_once() {
        let words: Vec<_> = WORDS.split_ascii_whitespace().collect();
        assert!(words.windows(2).all(|two| two[0] < two[1]));
    }
}
