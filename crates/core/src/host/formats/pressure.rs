//! Pressure stall information: of the host from `/proc/pressure/`, of a cgroup (version 2) from
//! `*.pressure`.

use super::{lines, number, words};

/// Microseconds in which some, and in which all, non-idle tasks waited for the resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    pub some_us: u64,
    /// 0 if the kernel does not give it.
    pub full_us: u64,
}

pub fn parse(text: &[u8]) -> Option<Pressure> {
    let total = |kind: &[u8]| {
        let line = lines(text).find(|line| line.starts_with(kind))?;
        words(line).find_map(|word| number(word.strip_prefix(b"total=")?))
    };
    Some(Pressure {
        some_us: total(b"some ")?,
        full_us: total(b"full ").unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::damaged;
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "some avg10=48.63 avg60=58.08 avg300=71.97 total=6159035542\n\
        full avg10=0.00 avg60=0.00 avg300=0.00 total=71\n";

    #[test]
    fn totals_are_read() {
        assert_eq!(
            parse(TEXT.as_bytes()),
            Some(Pressure {
                some_us: 6_159_035_542,
                full_us: 71
            })
        );
        assert_eq!(
            parse(b"some avg10=0.00 total=5\n"),
            Some(Pressure {
                some_us: 5,
                full_us: 0
            })
        );
        assert_eq!(parse(b"full total=5\n"), None);
    }

    proptest! {
        #[test]
        fn damaged_text_does_no_harm(text in damaged(TEXT)) {
            let _ = parse(&text);
        }
    }
}
