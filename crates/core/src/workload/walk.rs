//! RUBBoS's walk through its pages (`URLGenerator`, `TransitionTable` of the benchmark's client).

use super::plan;
use crate::rng::Stream;

/// The position of a client.
#[derive(Clone, Debug, Default)]
pub struct Position {
    /// State, plus one; 0: the session has not begun.
    state: u8,
    steps: u16,
    history: Vec<u8>,
    /// Its page lacks the links that such pages may lack.
    lacks: bool,
}

/// Rows as running totals: outcome i is taken where a uniform number first lies below `totals[i]`.
pub struct Walk {
    classes: Vec<u32>,
    rows: Vec<Vec<f64>>,
    /// States that empty the history: those from which no client goes back.
    empties: Vec<bool>,
    dead_ends: Vec<Option<plan::DeadEnd>>,
    start: u8,
    length_max: u16,
}

impl Walk {
    pub fn new(walk: &plan::Walk) -> Self {
        let rows = walk.transitions.iter().zip(&walk.back).zip(&walk.end);
        let mut dead_ends = vec![None; walk.classes.len()];
        for dead_end in &walk.dead_ends {
            dead_ends[dead_end.state as usize] = Some(dead_end.clone());
        }
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
            dead_ends,
            start: walk.start as u8,
            length_max: walk.length_max.min(u32::from(u16::MAX)) as u16,
        }
    }

    /// The class of the next page. The remainder of a row to 1 means staying; outcomes beyond 1 are
    /// never reached.
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
        let lacked = at.lacks;
        match outcome {
            None => self.sees(at, from, stream),
            Some(to) if to < states => self.enter(at, from, to as u8, stream),
            Some(to) if to == states => self.back(at),
            Some(_) => return self.begin(at),
        }
        if lacked && self.is_dead_end(from, at.state - 1) {
            self.back(at);
            // The story without comments is still the same one; a search is for something else.
            if at.state == from + 1 {
                self.sees(at, from, stream);
                at.lacks |= !self.leads_nowhere(from);
            }
        }
        self.classes[usize::from(at.state - 1)]
    }

    fn begin(&self, at: &mut Position) -> u32 {
        at.history.clear();
        at.steps = 0;
        at.state = self.start + 1;
        at.lacks = false;
        self.classes[usize::from(self.start)]
    }

    /// To the previous page, which had the link that was followed; if there is none, to the first
    /// page.
    fn back(&self, at: &mut Position) {
        at.lacks = false;
        match at.history.pop() {
            Some(earlier) => at.state = earlier + 1,
            None => {
                self.begin(at);
            }
        }
    }

    fn enter(&self, at: &mut Position, from: u8, to: u8, stream: &mut Stream) {
        if self.empties[usize::from(to)] {
            at.history.clear();
        } else {
            at.history.push(from);
        }
        at.state = to + 1;
        self.sees(at, to, stream);
    }

    /// A new page of this kind, which may lack links.
    fn sees(&self, at: &mut Position, state: u8, stream: &mut Stream) {
        let dead_end = self.dead_ends[usize::from(state)].as_ref();
        at.lacks = dead_end.is_some_and(|d| stream.uniform() < d.share);
    }

    /// Whether a page that lacks links does not lead to `to`.
    fn is_dead_end(&self, from: u8, to: u8) -> bool {
        let dead_end = self.dead_ends[usize::from(from)].as_ref();
        dead_end.is_some_and(|d| d.to.is_empty() || d.to.contains(&u32::from(to)))
    }

    fn leads_nowhere(&self, state: u8) -> bool {
        let dead_end = self.dead_ends[usize::from(state)].as_ref();
        dead_end.is_some_and(|d| d.to.is_empty())
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
            dead_ends: Vec::new(),
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

    fn dead_end(share: f64, to: Vec<u32>) -> Walk {
        // 0 → 1 → 2 → 0, and 2 may be gone back from.
        let rows = vec![
            vec![0.0, 1.0, 0.0],
            vec![0.0, 0.0, 1.0],
            vec![1.0, 0.0, 0.0],
        ];
        Walk::new(&plan::Walk {
            classes: vec![10, 11, 12],
            transitions: rows,
            back: vec![0.0, 0.0, 0.1],
            end: vec![0.0; 3],
            start: 0,
            length_max: 7,
            dead_ends: vec![plan::DeadEnd {
                state: 1,
                share,
                to,
            }],
            other: None,
            other_share: 0.0,
        })
    }

    #[test]
    fn a_page_without_the_link_is_requested_again() {
        assert_eq!(pages(&dead_end(0.0, vec![2]), 4), [10, 11, 12, 10]);
        // It is still the same story, without comments.
        let stuck = [10, 11, 11, 11, 11, 11, 11, 11, 10];
        assert_eq!(pages(&dead_end(1.0, vec![2]), 9), stuck);
        // A session is 10 11, then with equal chance six more of 11, or 12 10 11 and the same again with three more.
        let seen = pages(&dead_end(0.5, vec![2]), 8 * 10_000);
        let after = |from, to| seen.windows(2).filter(|p| p == &[from, to]).count() as f64;
        let (left, stayed) = (after(11, 12), after(11, 11));
        assert!((left / 7500.0 - 1.0).abs() < 0.05, "{left}");
        assert!((stayed / 37_500.0 - 1.0).abs() < 0.05, "{stayed}");
        // Another link is there.
        assert_eq!(pages(&dead_end(1.0, vec![0]), 4), [10, 11, 12, 10]);
    }

    #[test]
    fn a_search_that_finds_nothing_is_made_anew() {
        let seen = pages(&dead_end(0.5, Vec::new()), 30_000);
        let runs = seen.windows(2).filter(|p| p == &[11, 11]).count() as f64;
        let left = seen.windows(2).filter(|p| p == &[11, 12]).count() as f64;
        assert!((runs / left - 1.0).abs() < 0.1, "{runs} {left}");
    }
}
