//! Files of cgroups, version 1 and 2.

use super::{lines, number, value, words};

/// CPU time that a quota withheld.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttled {
    /// For how long, over all CPUs.
    pub ns: u64,
    /// In how many periods.
    pub periods: u64,
}

/// From `cpu.stat`: version 1 counts nanoseconds, version 2 microseconds. None if there can be no
/// quota.
pub fn throttled(cpu_stat: &[u8]) -> Option<Throttled> {
    let v2 = || value(cpu_stat, b"throttled_usec").map(|us| us.saturating_mul(1000));
    let ns = value(cpu_stat, b"throttled_time").or_else(v2)?;
    let periods = value(cpu_stat, b"nr_throttled").unwrap_or(0);
    Some(Throttled { ns, periods })
}

/// The period of a quota: from `cpu.cfs_period_us` (version 1), or the last word of `cpu.max`
/// (version 2).
pub fn period_ns(text: &[u8]) -> Option<u64> {
    let us = words(text).last().and_then(number)?;
    Some(us.saturating_mul(1000))
}

/// Whether `cpu.cfs_quota_us` (version 1: -1 is none) or `cpu.max` (version 2: `max` is none) limits a group.
pub fn has_quota(text: &[u8]) -> bool {
    words(text).next().and_then(number).is_some()
}

/// CPU time used, from `cpu.stat` of version 2; version 1 has a separate file.
pub fn used_ns(cpu_stat: &[u8]) -> Option<u64> {
    value(cpu_stat, b"usage_usec").map(|us| us.saturating_mul(1000))
}

/// Bytes (read, written) on all devices: from `io.stat` (version 2), or
/// `blkio.throttle.io_service_bytes` (version 1).
pub fn io_bytes(text: &[u8]) -> (u64, u64) {
    let (mut read, mut written) = (0_u64, 0_u64);
    for line in lines(text) {
        let mut words = words(line).skip(1);
        match (words.next(), words.next().and_then(number)) {
            (Some(b"Read"), Some(bytes)) => read = read.saturating_add(bytes),
            (Some(b"Write"), Some(bytes)) => written = written.saturating_add(bytes),
            _ => {
                for word in line.split(u8::is_ascii_whitespace) {
                    if let Some(bytes) = word.strip_prefix(b"rbytes=").and_then(number) {
                        read = read.saturating_add(bytes);
                    } else if let Some(bytes) = word.strip_prefix(b"wbytes=").and_then(number) {
                        written = written.saturating_add(bytes);
                    }
                }
            }
        }
    }
    (read, written)
}

#[cfg(test)]
mod tests {
    use super::super::testing::damaged;
    use super::*;
    use proptest::prelude::*;

    const V1: &str = "nr_periods 10\nnr_throttled 3\nthrottled_time 123456789\nnr_bursts 0\n";
    const V2: &str =
        "usage_usec 700\nuser_usec 400\nsystem_usec 300\nnr_throttled 3\nthrottled_usec 12\n";
    const BLKIO: &str =
        "254:0 Read 100\n254:0 Write 200\n254:0 Total 300\n7:0 Write 50\nTotal 350\n";
    const IO_STAT: &str =
        "254:0 rbytes=100 wbytes=200 rios=1 wios=2 dbytes=0 dios=0\n7:0 rbytes=1 wbytes=2\n";

    #[test]
    fn both_versions_of_cpu_stat_are_nanoseconds() {
        let waited = |ns| Some(Throttled { ns, periods: 3 });
        assert_eq!(throttled(V1.as_bytes()), waited(123_456_789));
        assert_eq!(throttled(V2.as_bytes()), waited(12_000));
        assert_eq!(used_ns(V2.as_bytes()), Some(700_000));
        assert_eq!(used_ns(V1.as_bytes()), None);
        assert_eq!(throttled(b"usage_usec 1\n"), None);
    }

    #[test]
    fn both_versions_give_the_period() {
        assert_eq!(period_ns(b"100000\n"), Some(100_000_000));
        assert_eq!(period_ns(b"max 250000\n"), Some(250_000_000));
        assert_eq!(period_ns(b"1000 4000\n"), Some(4_000_000));
        assert_eq!(period_ns(b""), None);
    }

    #[test]
    fn bytes_of_all_devices_add_up() {
        assert_eq!(io_bytes(BLKIO.as_bytes()), (100, 250));
        assert_eq!(io_bytes(IO_STAT.as_bytes()), (101, 202));
        assert_eq!(io_bytes(b""), (0, 0));
    }

    proptest! {
        #[test]
        fn damaged_text_does_no_harm(v1 in damaged(V1), v2 in damaged(V2), blkio in damaged(BLKIO), io in damaged(IO_STAT)) {
            let _ = (throttled(&v1), used_ns(&v2), io_bytes(&blkio), io_bytes(&io));
        }
    }
}
