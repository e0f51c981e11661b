//! The times of failed attempts.
//!
//! If events.parquet contains the losses, their times are exact. Otherwise the sender's schedule is
//! inferred from the time between the first attempt and the last, and stretched to fit; if none
//! fits, the attempts are spread evenly.

use std::collections::BTreeMap;
use std::path::Path;

use super::names::Names;
use super::rows::{Batch, Rows};
use crate::error::Result;
use crate::record::NO_NAME;

const SECOND: i64 = 1_000_000_000;
/// Seconds from the first SYN to each repetition: Linux since 6.5 (four linear timeouts, then doubling), before that
/// with a first timeout of 1 s (RFC 6298), and of 3 s (RFC 2988).
const SCHEDULES: [&[i64]; 3] = [
    &[1, 2, 3, 4, 5, 7, 11, 19, 35, 67],
    &[1, 3, 7, 15, 31, 63],
    &[3, 9, 21, 45, 93],
];
/// Timers are rounded up to the kernel's slots: 1/8 of their length at most.
const ROUNDING: i64 = 8;
/// The first retransmission of data, doubled each time (Linux: TCP_RTO_MIN).
const DATA_TIMEOUT: i64 = 200_000_000;
/// The most events examined for one visit; a table with more that begin and end alike is damaged.
const STEPS_MAX: usize = 10_000;

/// A loss from events.parquet.
pub struct Loss {
    place: u32,
    begin: i64,
    end: i64,
}

/// The losses between the open visits and the newest attempt.
pub struct Losses {
    rows: Option<Rows<Loss>>,
    /// (server, begin) → ends.
    known: BTreeMap<(i64, u32), Vec<i64>>,
}

impl Losses {
    /// Without the table, only schedules are used.
    pub fn open(path: &Path) -> Result<Losses> {
        let rows = Rows::open_if_there(path, drops)?;
        Ok(Losses {
            rows,
            known: BTreeMap::new(),
        })
    }

    /// The attempts from `first` to `last`, of which `lost` failed. Calls come in the order of
    /// `first`.
    pub fn attempts(
        &mut self,
        server: u32,
        (first, last): (i64, i64),
        lost: u8,
        names: &mut Names,
    ) -> Result<Vec<i64>> {
        if lost == 0 {
            return Ok(vec![last]);
        }
        self.load(first, last, names)?;
        let told = self.chain(server, first, usize::from(lost), &|end| end == last, last);
        Ok(told.unwrap_or_else(|| scheduled(first, last, usize::from(lost))))
    }

    /// The attempts of a request that failed at `end`: the last was refused, or (not `answered`)
    /// lost as well.
    pub fn attempts_in_vain(
        &mut self,
        server: u32,
        (first, end): (i64, i64),
        repeated: u8,
        answered: bool,
        names: &mut Names,
    ) -> Result<Vec<i64>> {
        if repeated == 0 {
            return Ok(vec![first]);
        }
        self.load(first, end, names)?;
        let repeated = usize::from(repeated);
        let told = self.chain(server, first, repeated, &|_| true, end);
        Ok(told.unwrap_or_else(|| given_up((first, end), repeated, answered)))
    }

    /// Reads every loss that begins by `until`; those before `now` cannot be the first of a later
    /// visit.
    fn load(&mut self, now: i64, until: i64, names: &mut Names) -> Result<()> {
        self.known = self.known.split_off(&(now, 0));
        let Some(rows) = &mut self.rows else {
            return Ok(());
        };
        while rows.peek(names)?.is_some_and(|loss| loss.begin <= until) {
            if let Some(loss) = rows.next(names)?.filter(|loss| loss.end > loss.begin) {
                let ends = self.known.entry((loss.begin, loss.place)).or_default();
                if !ends.contains(&loss.end) {
                    ends.push(loss.end);
                }
            }
        }
        Ok(())
    }

    /// Losses of which each begins where the previous one ends.
    fn chain(
        &self,
        server: u32,
        first: i64,
        links: usize,
        fits: &dyn Fn(i64) -> bool,
        last: i64,
    ) -> Option<Vec<i64>> {
        let mut chain = vec![(first, 0)];
        for _ in 0..STEPS_MAX {
            let &(at, tried) = chain.last()?;
            if chain.len() > links {
                if fits(at) {
                    return Some(chain.into_iter().map(|(time, _)| time).collect());
                }
                chain.pop();
                continue;
            }
            let next = self
                .known
                .get(&(at, server))
                .and_then(|ends| ends.get(tried));
            chain.last_mut()?.1 += 1;
            match next {
                Some(&end) if end <= last => chain.push((end, 0)),
                Some(_) => {}
                None => drop(chain.pop()),
            }
        }
        None
    }
}

fn drops(batch: &Batch<'_>, names: &mut Names, out: &mut Vec<Loss>) -> Result<()> {
    let place = batch.names("place", true, names)?;
    let kind = batch.texts("kind")?;
    let (begin, end) = (batch.times("begin", true)?, batch.times("end", true)?);
    for row in 0..batch.len() {
        if let ("drop", Some(begin), Some(end)) = (kind.get(row), begin.get(row), end.get(row)) {
            let place = place.get(row);
            if place != NO_NAME {
                out.push(Loss { place, begin, end });
            }
        }
    }
    Ok(())
}

/// `lost` attempts between the first and the last one.
fn scheduled(first: i64, last: i64, lost: usize) -> Vec<i64> {
    let span = last - first;
    let even: Vec<i64> = (0..=lost as i64).collect();
    let offsets = SCHEDULES
        .iter()
        .filter_map(|schedule| schedule.get(..lost))
        .filter(|offsets| {
            let expected = offsets[lost - 1] * SECOND;
            (span - expected).abs() <= expected / ROUNDING
        })
        .min_by_key(|offsets| (span - offsets[lost - 1] * SECOND).abs())
        .map_or(even, |offsets| [&[0], offsets].concat());
    let whole = i128::from(offsets[lost]);
    let at = |offset: &i64| first + (i128::from(span) * i128::from(*offset) / whole) as i64;
    offsets.iter().map(at).collect()
}

/// Attempts before the request was given up at `end`: on the schedule whose next attempt would have
/// been due at about that time. An unanswered one that had to wait beyond the end was never sent.
fn given_up((first, end): (i64, i64), repeated: usize, answered: bool) -> Vec<i64> {
    let span = end - first;
    let fitting = SCHEDULES
        .iter()
        .filter_map(|schedule| schedule.get(..repeated))
        .filter(|offsets| offsets[repeated - 1] * SECOND <= span);
    let due = |offsets: &&[i64]| {
        let last = offsets[repeated - 1];
        let before = offsets[..repeated - 1].last().copied().unwrap_or(0);
        let wait = 2 * (last - before) * SECOND;
        (span - last * SECOND - wait - wait / ROUNDING).abs()
    };
    match fitting.min_by_key(due) {
        Some(offsets) => {
            let at = |offset: &i64| first + offset * SECOND;
            [0].iter().chain(offsets).map(at).collect()
        }
        None if answered => scheduled(first, end, repeated),
        None if repeated == 1 => vec![first],
        None => given_up((first, end), repeated - 1, answered),
    }
}

/// When the client's first bytes were sent again after `first`, all before `by`.
pub fn repetitions(first: i64, by: i64, count: u8) -> Vec<i64> {
    let count = u32::from(count);
    let doubling = |i: u32| {
        (1i64.checked_shl(i).unwrap_or(i64::MAX) - 1)
            .checked_mul(DATA_TIMEOUT)
            .and_then(|offset| first.checked_add(offset))
    };
    if count < 62 && doubling(count).is_some_and(|last| last <= by) {
        return (1..=count).filter_map(doubling).collect();
    }
    let span = i128::from(by - first);
    let at = |i: u32| first + (span * i128::from(i) / i128::from(count + 1)) as i64;
    (1..=count).map(at).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn seconds(times: &[i64]) -> Vec<f64> {
        times.iter().map(|t| *t as f64 / SECOND as f64).collect()
    }

    #[test]
    fn the_senders_schedule_is_recognised_by_its_span() {
        assert_eq!(
            scheduled(0, 3 * SECOND, 3),
            [0, SECOND, 2 * SECOND, 3 * SECOND]
        );
        assert_eq!(
            scheduled(0, 7 * SECOND, 3),
            [0, SECOND, 3 * SECOND, 7 * SECOND]
        );
        assert_eq!(
            scheduled(0, 21 * SECOND, 3),
            [0, 3 * SECOND, 9 * SECOND, 21 * SECOND]
        );
        assert_eq!(
            seconds(&scheduled(0, 7070 * MS, 3)),
            [0.0, 1.01, 3.03, 7.07]
        );
        assert_eq!(seconds(&scheduled(0, SECOND / 2, 2)), [0.0, 0.25, 0.5]);
    }

    #[test]
    fn data_is_repeated_after_doubling_timeouts_if_there_is_time() {
        assert_eq!(repetitions(0, SECOND, 2), [200 * MS, 600 * MS]);
        assert_eq!(repetitions(0, 300 * MS, 2), [100 * MS, 200 * MS]);
        assert_eq!(repetitions(5, 5, 3), [5, 5, 5]);
        assert_eq!(repetitions(0, i64::MAX, 255).len(), 255);
    }

    #[test]
    fn an_attempt_given_up_has_the_schedule_that_ends_there() {
        // Repeated after 1 s: the next was due 2 s later and an eighth for rounding.
        assert_eq!(given_up((0, 3250 * MS), 1, false), [0, SECOND]);
        assert_eq!(given_up((0, SECOND / 2), 1, true), [0, SECOND / 2]);
        assert_eq!(given_up((0, SECOND / 2), 1, false), [0]);
        assert_eq!(given_up((0, 2500 * MS), 3, false), [0, SECOND, 2 * SECOND]);
        // 3 s, then 6 s, then 12 s and an eighth.
        assert_eq!(
            given_up((0, 22_500 * MS), 2, false),
            [0, 3 * SECOND, 9 * SECOND]
        );
    }

    #[test]
    fn losses_that_were_recorded_say_it_exactly() {
        let mut losses = Losses {
            rows: None,
            known: BTreeMap::new(),
        };
        for (begin, end) in [(0, 5), (0, 7), (7, 9), (5, 8), (9, 20)] {
            losses.known.entry((begin, 1)).or_default().push(end);
        }
        let mut names = Names::default();
        let mut attempts = |span, lost| losses.attempts(1, span, lost, &mut names).unwrap();
        assert_eq!(attempts((0, 9), 2), [0, 7, 9]);
        assert_eq!(attempts((0, 20), 3), [0, 7, 9, 20]);
        assert_eq!(attempts((0, 10), 2), [0, 5, 10]);
    }
}
