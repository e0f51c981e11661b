//! `/proc/schedstat`: how long runnable threads waited for a CPU.

use super::{lines, number, words};

/// Nanoseconds that threads waited on the run queues of all CPUs since boot, as field 8 of the `cpu` lines counts them
/// (Documentation/scheduler/sched-stats.rst); None where no line has it.
pub fn waited_ns(text: &[u8]) -> Option<u64> {
    let waits = lines(text).filter_map(|line| {
        let mut words = words(line);
        let is_cpu = words.next()?.strip_prefix(b"cpu").and_then(number);
        is_cpu.and_then(|_| words.nth(7).and_then(number))
    });
    waits.fold(None, |sum, wait| {
        Some(sum.unwrap_or(0_u64).saturating_add(wait))
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::damaged;
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "version 17\ntimestamp 4294937296\n\
        cpu0 0 0 0 0 0 0 2145323411 114223344 9211\ndomain0 MC 3 1 2 3 4 5 6 7 8 9\n\
        cpu1 0 0 0 0 0 0 1900000000 200000000 8000\n";

    #[test]
    fn waits_of_all_cpus_add_up() {
        assert_eq!(waited_ns(TEXT.as_bytes()), Some(314_223_344));
        assert_eq!(waited_ns(b"version 17\ncpu0 1 2 3\n"), None);
    }

    proptest! {
        #[test]
        fn damaged_text_does_no_harm(text in damaged(TEXT)) {
            let _ = waited_ns(&text);
        }
    }
}
