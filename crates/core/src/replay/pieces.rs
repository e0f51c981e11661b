//! The time of a server, cut where its work changes.
use std::ops::Range;

/// Steps of equal length, of at least one nanosecond; there is at least one.
#[derive(Clone, Copy, Debug)]
pub struct Grid {
    begin: i64,
    pub step: i64,
    pub steps: usize,
}

impl Grid {
    pub fn new(begin: i64, step: i64, steps: usize) -> Grid {
        Grid {
            begin,
            step: step.max(1),
            steps: steps.max(1),
        }
    }

    pub fn begin(&self) -> i64 {
        self.begin
    }

    /// The step of a time; earlier times belong to the first step, later ones to the last.
    pub fn at(&self, time: i64) -> usize {
        usize::try_from(time.saturating_sub(self.begin).div_euclid(self.step))
            .unwrap_or(0)
            .min(self.steps - 1)
    }

    /// The same steps without those before `first`; at least the last step remains.
    pub fn since(&self, first: usize) -> Grid {
        let first = first.min(self.steps - 1);
        let begin = self.step.saturating_mul(first as i64);
        Grid {
            begin: self.begin.saturating_add(begin),
            step: self.step,
            steps: self.steps - first,
        }
    }

    pub fn is_last(&self, step: usize) -> bool {
        step + 1 >= self.steps
    }

    pub fn end_of(&self, step: usize) -> i64 {
        self.begin
            .saturating_add(self.step.saturating_mul(step as i64 + 1))
    }
}

/// Stretches within one step in which the number of parts at work is constant.
pub(super) struct Pieces {
    /// The pieces of step `i` are those from `first[i]` until `first[i + 1]`.
    first: Vec<u32>,
    pub at_work: Vec<u32>,
    /// Nanoseconds at full speed that each part at work attains.
    pub share: Vec<f64>,
}

impl Pieces {
    /// The time of the grid, cut where one of these parts begins or ends and at the ends of steps; and when each
    /// piece begins.
    pub fn of(
        stretches: impl Iterator<Item = (i64, i64)>,
        cores: f64,
        grid: Grid,
    ) -> (Pieces, Vec<i64>) {
        let (mut begins, mut ends): (Vec<i64>, Vec<i64>) = stretches.unzip();
        begins.sort_unstable();
        ends.sort_unstable();
        let (mut begins, mut ends) = (begins.into_iter().peekable(), ends.into_iter().peekable());
        let mut over = Some(grid.end_of(grid.steps - 1));
        let (mut first, mut starts) = (vec![0], Vec::new());
        let (mut at_works, mut shares) = (Vec::new(), Vec::new());
        let (mut at_work, mut now) = (0i64, grid.begin());
        while let Some(time) = [begins.peek(), ends.peek(), over.as_ref()]
            .into_iter()
            .flatten()
            .min()
            .copied()
        {
            while now < time {
                let step = grid.at(now);
                let until = if grid.is_last(step) {
                    time
                } else {
                    time.min(grid.end_of(step))
                };
                first.resize(step + 1, starts.len() as u32);
                let at_work = at_work.max(0) as u32;
                at_works.push(at_work);
                shares.push((until - now) as f64 * speed(cores, at_work));
                starts.push(now);
                now = until;
            }
            over = over.filter(|&over| over > time);
            while begins.next_if_eq(&time).is_some() {
                at_work += 1;
            }
            while ends.next_if_eq(&time).is_some() {
                at_work -= 1;
            }
        }
        first.resize(grid.steps + 1, starts.len() as u32);
        let found = Pieces {
            first,
            at_work: at_works,
            share: shares,
        };
        (found, starts)
    }

    pub fn len(&self) -> usize {
        self.share.len()
    }

    /// Each step with its pieces.
    pub fn by_step(&self) -> impl Iterator<Item = (usize, Range<usize>)> + '_ {
        let ranges = self.first.windows(2);
        ranges
            .map(|two| two[0] as usize..two[1] as usize)
            .enumerate()
    }

    /// The first piece that is not before a step.
    pub fn first_of(&self, step: usize) -> u32 {
        self.first[step.min(self.first.len() - 1)]
    }

    /// The step of a piece.
    pub fn step_of(&self, piece: u32) -> Option<usize> {
        let later = self.first.partition_point(|&first| first <= piece);
        ((piece as usize) < self.len()).then_some(later.saturating_sub(1))
    }

    /// How long a piece lasts, if `cores` serve its parts.
    pub fn length(&self, piece: usize, cores: f64) -> f64 {
        self.share[piece] / speed(cores, self.at_work[piece])
    }

    /// Let `now` cores serve the parts instead of `before`.
    pub fn share_among(&mut self, before: f64, now: f64) {
        for (share, &at_work) in self.share.iter_mut().zip(&self.at_work) {
            *share = *share / speed(before, at_work) * speed(now, at_work);
        }
    }
}

/// The share of full speed at which each of these parts works.
fn speed(cores: f64, at_work: u32) -> f64 {
    (cores / f64::from(at_work.max(1))).min(1.0)
}

/// The first of these sorted times that is not before `time`, searched from the index `near` outwards.
pub(super) fn first_from(times: &[i64], near: usize, time: i64) -> usize {
    let (mut low, mut high, mut width) = (near.min(times.len()), near.min(times.len()), 1);
    while times.get(high).is_some_and(|&one| one < time) {
        (low, high, width) = (high + 1, (high + width).min(times.len()), width * 2);
    }
    while low > 0 && times[low - 1] >= time {
        (high, low, width) = (low - 1, low.saturating_sub(width), width * 2);
    }
    low + times[low..high.max(low)].partition_point(|&one| one < time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_found_from_wherever_the_search_begins() {
        let times = [1, 3, 3, 7, 20, 21, 22, 40];
        for (near, time) in (0..=9).flat_map(|near| (0..45).map(move |time| (near, time))) {
            let right = times.partition_point(|&one| one < time);
            assert_eq!(first_from(&times, near, time), right, "{time} from {near}");
        }
        assert_eq!(first_from(&[], 3, 5), 0);
    }

    #[test]
    fn pieces_are_cut_where_parts_begin_and_end_and_at_the_ends_of_steps() {
        let grid = Grid::new(0, 10, 3);
        let (pieces, starts) = Pieces::of([(2, 4), (3, 25)].into_iter(), 1.0, grid);
        assert_eq!(starts, [0, 2, 3, 4, 10, 20, 25]);
        assert_eq!(pieces.at_work, [0, 1, 2, 1, 1, 1, 0]);
        assert_eq!(pieces.share, [2.0, 1.0, 0.5, 6.0, 10.0, 5.0, 5.0]);
        let steps: Vec<_> = pieces.by_step().map(|(_, range)| range).collect();
        assert_eq!(steps, [0..4, 4..5, 5..7]);
        let of: Vec<_> = (0..8).map(|piece| pieces.step_of(piece)).collect();
        assert_eq!(of[3..], [Some(0), Some(1), Some(2), Some(2), None]);
    }
}
