//! `/proc/diskstats`: what each disk did since boot.

use super::{lines, number, words};

const SECTOR: u64 = 512;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// Milliseconds in which it was busy.
    pub busy_ms: u64,
}

/// Every line with its device's name, partitions included.
pub fn parse(text: &[u8]) -> impl Iterator<Item = (&[u8], Disk)> {
    lines(text).filter_map(|line| {
        // major minor name reads merged sectors ms writes merged sectors ms in-flight busy-ms …
        let mut words = words(line).skip(2);
        let name = words.next()?;
        let mut counts = [0; 10];
        for count in &mut counts {
            *count = words.next().and_then(number)?;
        }
        let disk = Disk {
            read_bytes: counts[2].saturating_mul(SECTOR),
            written_bytes: counts[6].saturating_mul(SECTOR),
            busy_ms: counts[9],
        };
        Some((name, disk))
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::damaged;
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n \
        254       0 vda 123 4 1000 55 678 9 2000 77 0 88 132 0 0 0 0 1 2\n 254       1 vda1 1 2 3\n";

    #[test]
    fn whole_lines_are_read_and_cut_ones_left_out() {
        let found: Vec<_> = parse(TEXT.as_bytes()).collect();
        let vda = Disk {
            read_bytes: 512_000,
            written_bytes: 1_024_000,
            busy_ms: 88,
        };
        assert_eq!(
            found,
            [(&b"loop0"[..], Disk::default()), (&b"vda"[..], vda)]
        );
    }

    proptest! {
        #[test]
        fn damaged_text_does_no_harm(text in damaged(TEXT)) {
            let _ = parse(&text).count();
        }
    }
}
