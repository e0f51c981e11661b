//! `/proc/stat`: CPU time of the host since boot, in ticks of 10 ms, and the runnable threads.

use super::{lines, number, value, words};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Ticks of all CPUs together.
    pub idle: u64,
    pub iowait: u64,
    pub steal: u64,
    pub all: u64,
    pub context_switches: u64,
    /// Threads that run or are runnable.
    pub running: u64,
}

/// None without the line of all CPUs.
pub fn parse(text: &[u8]) -> Option<Stat> {
    let mut line = lines(text).map(words).find_map(|mut words| {
        let found = words.next() == Some(b"cpu");
        found.then_some(words)
    })?;
    // user nice system idle iowait irq softirq steal; guest times are in user and nice already.
    let mut ticks = [0; 8];
    for (i, tick) in ticks.iter_mut().enumerate() {
        match line.next().and_then(number) {
            Some(found) => *tick = found,
            // Kernels before 2.6.11 have no steal.
            None if i >= 4 => break,
            None => return None,
        }
    }
    Some(Stat {
        idle: ticks[3],
        iowait: ticks[4],
        steal: ticks[7],
        all: ticks.iter().fold(0, |sum, tick| sum.saturating_add(*tick)),
        context_switches: value(text, b"ctxt").unwrap_or(0),
        running: value(text, b"procs_running").unwrap_or(0),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::testing::damaged;
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "cpu  1399688 200555 297308 612338 18410 0 3679 7523 0 0\n\
        cpu0 672863 98765 141718 344461 7825 0 146 3722 0 0\nintr 11870170 0 0\nctxt 36331552\nbtime 1795193376\n\
        processes 812345\nprocs_running 5\nprocs_blocked 0\nsoftirq 1 2 3\n";

    #[test]
    fn the_line_of_all_cpus_counts() {
        let found = parse(TEXT.as_bytes()).unwrap();
        assert_eq!(
            (found.idle, found.iowait, found.steal),
            (612_338, 18_410, 7_523)
        );
        assert_eq!(
            found.all,
            1_399_688 + 200_555 + 297_308 + 612_338 + 18_410 + 3_679 + 7_523
        );
        assert_eq!((found.context_switches, found.running), (36_331_552, 5));
    }

    #[test]
    fn an_old_kernel_has_no_steal_and_a_cut_line_is_none() {
        assert_eq!(parse(b"cpu 1 2 3 4\n").unwrap().all, 10);
        assert_eq!(parse(b"cpu 1 2 3"), None);
        assert_eq!(parse(b"cpu0 1 2 3 4\n"), None);
    }

    proptest! {
        #[test]
        fn damaged_text_does_no_harm(text in damaged(TEXT)) {
            let _ = parse(&text);
        }
    }
}
