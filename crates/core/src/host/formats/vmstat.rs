//! `/proc/vmstat`: pages that wait to be written and that are being written.

use super::{lines, number, words};

/// (dirty, in writeback), in pages.
pub fn dirty_and_writeback(text: &[u8]) -> Option<(u64, u64)> {
    let (mut dirty, mut writeback) = (None, None);
    for line in lines(text) {
        let mut words = words(line);
        match words.next() {
            Some(b"nr_dirty") => dirty = words.next().and_then(number),
            Some(b"nr_writeback") => writeback = words.next().and_then(number),
            _ => continue,
        }
        if dirty.is_some() && writeback.is_some() {
            break;
        }
    }
    dirty.zip(writeback)
}

#[cfg(test)]
mod tests {
    use super::super::testing::damaged;
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str =
        "nr_free_pages 100\nnr_dirty 2048\nnr_writeback 17\nnr_writeback_temp 3\nnr_dirtied 9\n";

    #[test]
    fn both_are_read() {
        assert_eq!(dirty_and_writeback(TEXT.as_bytes()), Some((2048, 17)));
        assert_eq!(dirty_and_writeback(b"nr_dirty 1\n"), None);
    }

    proptest! {
        #[test]
        fn damaged_text_does_no_harm(text in damaged(TEXT)) {
            let _ = dirty_and_writeback(&text);
        }
    }
}
