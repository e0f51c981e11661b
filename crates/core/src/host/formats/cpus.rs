//! Lists of CPUs, as files of cpusets have them: `0-1,3`.

use std::collections::BTreeSet;

/// More than any kernel supports (CONFIG_NR_CPUS), so that a damaged list cannot fill the memory.
const CPUS_MAX: u32 = 8192;

/// None: it is not a list, or an empty one.
pub fn list(text: &[u8]) -> Option<BTreeSet<u32>> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let mut found = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let last = last.parse().ok().filter(|&last| last < CPUS_MAX)?;
        found.extend(first.parse::<u32>().ok()?..=last);
    }
    (!found.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::super::testing::damaged;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranges_and_single_cpus_are_read() {
        assert_eq!(list(b"0-1,3\n"), Some(BTreeSet::from([0, 1, 3])));
        for none in ["", "\n", "3-1", "0-99999999", "x", "1,,2"] {
            assert_eq!(list(none.as_bytes()), None, "{none}");
        }
    }

    proptest! {
        #[test]
        fn a_damaged_list_is_no_panic(text in damaged("0-1,3,5-7\n")) {
            let _ = list(&text);
        }
    }
}
