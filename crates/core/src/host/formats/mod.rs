//! The kernel's text files, one source each: bytes in, numbers out. Lines that are missing, cut or
//! unexpected give None or nothing, never a panic.

pub mod cgroup;
pub mod cpus;
pub mod disks;
pub mod netstat;
pub mod pressure;
pub mod process;
pub mod schedstat;
pub mod stat;
pub mod vmstat;

/// The words of a line.
pub fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
}

pub fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&byte| byte == b'\n')
}

/// A whole word of digits as a number.
pub fn number(word: &[u8]) -> Option<u64> {
    std::str::from_utf8(word)
        .ok()?
        .parse()
        .ok()
        .filter(|_| word.first().is_some_and(u8::is_ascii_digit))
}

/// The number behind the first line that begins with the word `key`.
pub fn value(text: &[u8], key: &[u8]) -> Option<u64> {
    lines(text).find_map(|line| {
        let mut words = words(line);
        (words.next() == Some(key)).then(|| words.next().and_then(number))?
    })
}

/// A text that is one number, as in many files of cgroups and /sys.
pub fn only(text: &[u8]) -> Option<u64> {
    number(text.trim_ascii())
}

#[cfg(test)]
pub(super) mod testing {
    use proptest::prelude::*;

    /// Texts near a real one: cut anywhere, bytes changed, lines swapped.
    pub fn damaged(text: &'static str) -> impl Strategy<Value = Vec<u8>> {
        let bytes = text.as_bytes();
        let edits = prop::collection::vec((0..bytes.len().max(1), any::<u8>()), 0..8);
        (0..=bytes.len(), edits).prop_map(move |(end, edits)| {
            let mut copy = bytes.to_vec();
            for (at, byte) in edits {
                if let Some(place) = copy.get_mut(at) {
                    *place = byte;
                }
            }
            copy.truncate(end);
            copy
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_numbers_count() {
        assert_eq!(number(b"17"), Some(17));
        assert_eq!(number(b"+17"), None);
        assert_eq!(number(b"-1"), None);
        assert_eq!(number(b"99999999999999999999"), None);
        assert_eq!(only(b"max\n"), None);
        assert_eq!(only(b" 42\n"), Some(42));
    }

    #[test]
    fn a_value_is_found_by_its_whole_key() {
        let text = b"nr_dirty_background 5\nnr_dirty 7\n";
        assert_eq!(value(text, b"nr_dirty"), Some(7));
        assert_eq!(value(text, b"nr"), None);
    }
}
