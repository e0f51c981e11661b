//! `/proc/vmstat`: pages that wait to be written and that are being written, and waits for memory.

use super::{lines, number, words};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    pub dirty_pages: u64,
    pub writeback_pages: u64,
    /// Since boot: waits for a page that was read from a disk.
    pub major_faults: u64,
    /// Since boot: allocations that had to reclaim memory first, in all zones.
    pub direct_reclaims: u64,
}

/// None without the dirty pages and those in writeback.
pub fn parse(text: &[u8]) -> Option<Memory> {
    let mut found = Memory::default();
    let (mut dirty, mut writeback) = (None, None);
    for line in lines(text) {
        let mut words = words(line);
        let (name, value) = (words.next(), words.next().and_then(number));
        match name {
            Some(b"nr_dirty") => dirty = value,
            Some(b"nr_writeback") => writeback = value,
            Some(b"pgmajfault") => found.major_faults = value.unwrap_or(0),
            // One counter before Linux 4.12, and one for each zone since.
            Some(name) if name.starts_with(b"allocstall") => {
                let more = value.unwrap_or(0);
                found.direct_reclaims = found.direct_reclaims.saturating_add(more);
            }
            _ => {}
        }
    }
    (found.dirty_pages, found.writeback_pages) = dirty.zip(writeback)?;
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::super::testing::damaged;
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str =
        "nr_free_pages 100\nnr_dirty 2048\nnr_writeback 17\nnr_writeback_temp 3\nnr_dirtied 9\n\
        allocstall_dma 1\nallocstall_normal 20\npgmajfault 93477\n";

    #[test]
    fn pages_and_waits_are_read() {
        let found = Memory {
            dirty_pages: 2048,
            writeback_pages: 17,
            major_faults: 93_477,
            direct_reclaims: 21,
        };
        assert_eq!(parse(TEXT.as_bytes()), Some(found));
        assert_eq!(parse(b"nr_dirty 1\n"), None);
    }

    proptest! {
        #[test]
        fn damaged_text_does_no_harm(text in damaged(TEXT)) {
            let _ = parse(&text);
        }
    }
}
