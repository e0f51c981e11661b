//! Gives calls without a parent to visits that lack a call, of visits that make exactly one.
//!
//! The linker lets each departing visit choose its likeliest call. In a crowd, one visit may take the
//! call of another, and then two things are left that do not fit each other: a call, and a visit. An
//! augmenting path (Berge 1957) mends this: the call goes to a visit that contains it, the call of
//! that visit to the next one, and so on, until a visit gets one that had none. All others keep
//! theirs.
//! ```text
//! before   call ─?    visit A ─ its call    visit B ─?
//! after    call ─ visit A       call of A ─ visit B
//! ```

use std::collections::VecDeque;

/// A visit or a call, from its begin to its end, in nanoseconds.
pub type Span = (i64, i64);

/// The most visits that are looked at for one call: more than the workers of most servers. It bounds
/// the time where thousands of calls stay without a parent.
const LOOKED_AT: usize = 4096;

/// Returns the visit of each call (an index, or None). `parents` are the known ones.
pub fn rejoined(visits: &[Span], calls: &[Span], parents: &[Option<usize>]) -> Vec<Option<usize>> {
    let mut order: Vec<usize> = (0..visits.len()).collect();
    order.sort_by_key(|&visit| visits[visit]);
    let begins = order.iter().map(|&visit| visits[visit].0).collect();
    let latest = order
        .iter()
        .scan(i64::MIN, |latest, &visit| {
            *latest = visits[visit].1.max(*latest);
            Some(*latest)
        })
        .collect();
    let mut state = State {
        visits,
        calls,
        order,
        begins,
        latest,
        parents: parents.to_vec(),
        call_of: vec![None; visits.len()],
        seen: vec![0; visits.len()],
        turn: 0,
    };
    for (call, parent) in parents.iter().enumerate() {
        if let Some(known) = parent.and_then(|visit| state.call_of.get_mut(visit)) {
            *known = Some(call);
        }
    }
    let mut alone: Vec<usize> = (0..calls.len())
        .filter(|&call| parents[call].is_none())
        .collect();
    alone.sort_by_key(|&call| calls[call]);
    for call in alone {
        state.finds_a_visit(call);
    }
    state.parents
}

struct State<'a> {
    visits: &'a [Span],
    calls: &'a [Span],
    /// The visits by their begin, these begins, and the latest end of all up to each.
    order: Vec<usize>,
    begins: Vec<i64>,
    latest: Vec<i64>,
    parents: Vec<Option<usize>>,
    call_of: Vec<Option<usize>>,
    /// The last search that looked at each visit.
    seen: Vec<u32>,
    turn: u32,
}

impl State<'_> {
    fn finds_a_visit(&mut self, call: usize) {
        self.turn += 1;
        let mut next = VecDeque::from([call]);
        // For each visit that was looked at, the call that would be its own.
        let mut wanted_by: Vec<(usize, usize)> = Vec::new();
        while let Some(call) = next.pop_front() {
            for visit in self.around(call) {
                if self.seen[visit] == self.turn {
                    continue;
                }
                self.seen[visit] = self.turn;
                wanted_by.push((visit, call));
                match self.call_of[visit] {
                    None => return self.hands_over(visit, &wanted_by),
                    Some(its) => next.push_back(its),
                }
                if wanted_by.len() >= LOOKED_AT {
                    return;
                }
            }
        }
    }

    /// The visits that contain a call, the one that began last first.
    fn around(&self, call: usize) -> Vec<usize> {
        let (begin, end) = self.calls[call];
        let before = self.begins.partition_point(|&time| time <= begin);
        (0..before)
            .rev()
            .take_while(|&place| self.latest[place] >= end)
            .take(LOOKED_AT)
            .map(|place| self.order[place])
            .filter(|&visit| self.visits[visit].1 >= end)
            .collect()
    }

    /// From the visit without a call back to the call without a visit.
    fn hands_over(&mut self, mut visit: usize, wanted_by: &[(usize, usize)]) {
        loop {
            let found = wanted_by.iter().find(|one| one.0 == visit);
            let Some(&(_, call)) = found else { return };
            self.call_of[visit] = Some(call);
            match self.parents[call].replace(visit) {
                Some(before) => visit = before,
                None => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::rejoined;

    #[test]
    fn a_call_goes_to_a_visit_that_hands_its_own_to_the_next() {
        let visits = [(0, 100), (20, 90), (40, 95)];
        let calls = [(10, 50), (50, 80), (60, 85)];
        // The first visit took the call of the third, so its own call has no parent.
        let found = rejoined(&visits, &calls, &[None, Some(1), Some(0)]);
        assert_eq!(found, [Some(0), Some(1), Some(2)]);
    }

    #[test]
    fn a_call_outside_all_visits_keeps_no_parent() {
        let found = rejoined(&[(0, 10), (5, 30)], &[(2, 8), (9, 31)], &[Some(0), None]);
        assert_eq!(found, [Some(0), None]);
    }

    #[test]
    fn no_parent_is_taken_away() {
        let visits = [(0, 100)];
        let found = rejoined(&visits, &[(10, 20), (30, 40)], &[Some(0), None]);
        assert_eq!(found, [Some(0), None]);
        assert_eq!(rejoined(&[], &[(1, 2)], &[None]), [None]);
    }
}
