//! RUBBoS's walk through its pages (`URLGenerator`, `TransitionTable` of the benchmark's client).

use super::plan;
use crate::rng::Stream;

/// Where a client is.
#[derive(Clone, Debug, Default)]
pub struct Position {
    /// State, plus one; 0: the session has not begun.
    state: u8,
    steps: u16,
    history: Vec<u8>,
}

/// Rows as running totals: outcome i is taken where a uniform number first lies below `totals[i]`.
pub struct Walk {
    classes: Vec<u32>,
    rows: Vec<Vec<f64>>,
    /// States that empty the history: those that never go back.
    empties: Vec<bool>,
    start: u8,
    length_max: u16,
}

impl Walk {
    pub fn new(walk: &plan::Walk) -> Self {
        let rows = walk.transitions.iter().zip(&walk.back).zip(&walk.end);
        Walk {
            classes: walk.classes.clone(),
            rows: rows
                .map(|((to, back), end)| {
                    let mut total = 0.0;
                    to.iter()
                        .chain([back, end])
                        .map(|p| {
                            total += p;
                            total
                        })
                        .collect()
                })
                .collect(),
            empties: walk.back.iter().map(|&p| p == 0.0).collect(),
            start: walk.start as u8,
            length_max: walk.length_max.min(u32::from(u16::MAX)) as u16,
        }
    }

    /// The class of the next page. A row short of 1 stays with what is missing; beyond 1 nothing is reached.
    pub fn next(&self, at: &mut Position, stream: &mut Stream) -> u32 {
        let states = self.classes.len();
        if at.state == 0 || at.steps >= self.length_max {
            return self.begin(at);
        }
        let from = at.state - 1;
        at.steps += 1;
        let u = stream.uniform();
        let outcome = self.rows[usize::from(from)]
            .iter()
            .position(|&total| u < total);
        match outcome {
            None => {}
            Some(to) if to < states => self.enter(at, from, to as u8),
            Some(to) if to == states => match at.history.pop() {
                Some(earlier) => at.state = earlier + 1,
                None => return self.begin(at),
            },
            Some(_) => return self.begin(at),
        }
        self.classes[usize::from(at.state - 1)]
    }

    fn begin(&self, at: &mut Position) -> u32 {
        at.history.clear();
        at.steps = 0;
        at.state = self.start + 1;
        self.classes[usize::from(self.start)]
    }

    fn enter(&self, at: &mut Position, from: u8, to: u8) {
        if self.empties[usize::from(to)] {
            at.history.clear();
        } else {
            at.history.push(from);
        }
        at.state = to + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Purpose;

    fn walk(transitions: Vec<Vec<f64>>, back: Vec<f64>, end: Vec<f64>) -> Walk {
        Walk::new(&plan::Walk {
            classes: (0..transitions.len() as u32).map(|i| i + 10).collect(),
            transitions,
            back,
            end,
            start: 0,
            length_max: 1000,
            other: None,
            other_share: 0.0,
        })
    }

    fn pages(walk: &Walk, n: usize) -> Vec<u32> {
        let (mut at, mut stream) = (Position::default(), Stream::of(1, 0, 0, Purpose::Choice));
        (0..n).map(|_| walk.next(&mut at, &mut stream)).collect()
    }

    #[test]
    fn back_returns_to_the_page_before_and_the_end_begins_anew() {
        // 0 → 1 → back to 0 → …
        let w = walk(
            vec![vec![0.0, 1.0], vec![0.0, 0.0]],
            vec![0.0, 1.0],
            vec![0.0, 0.0],
        );
        assert_eq!(pages(&w, 5), [10, 11, 10, 11, 10]);
        let w = walk(
            vec![vec![0.0, 1.0], vec![0.0, 0.0]],
            vec![0.0, 0.0],
            vec![0.0, 1.0],
        );
        assert_eq!(pages(&w, 4), [10, 11, 10, 11]);
    }

    #[test]
    fn what_is_missing_in_a_row_stays() {
        let w = walk(
            vec![vec![0.0, 0.5], vec![1.0, 0.0]],
            vec![0.0, 0.0],
            vec![0.0, 0.0],
        );
        let seen = pages(&w, 30_000);
        let stays = seen.windows(2).filter(|p| p == &[10, 10]).count() as f64;
        let from = seen.iter().filter(|&&p| p == 10).count() as f64;
        assert!((stays / from - 0.5).abs() < 0.02, "{}", stays / from);
    }

    #[test]
    fn a_session_has_an_end() {
        let mut w = walk(
            vec![vec![0.0, 1.0], vec![0.0, 1.0]],
            vec![0.0, 0.0],
            vec![0.0, 0.0],
        );
        w.length_max = 3;
        assert_eq!(pages(&w, 9), [10, 11, 11, 11, 10, 11, 11, 11, 10]);
    }
}
