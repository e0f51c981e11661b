//! The steps of a visit, read from the times of its calls.

/// The visits of a recording, a column each; times are nanoseconds.
#[derive(Clone, Default)]
pub struct Visits {
    pub server: Vec<u32>,
    /// The index of the calling visit, or -1.
    pub parent: Vec<i64>,
    /// The first attempt to reach the server.
    pub sent: Vec<i64>,
    pub arrival: Vec<i64>,
    /// A worker took it.
    pub start: Vec<i64>,
    pub departure: Vec<i64>,
    /// Visits of one group need about the same work.
    pub group: Vec<u32>,
    /// When its caller had finished its work before this call; from then until `sent` it waited for
    /// a connection.
    pub ready: Vec<i64>,
    /// How long after `sent` its caller stopped waiting for it (`i64::MAX`: it waited until the end).
    pub gives_up: Vec<i64>,
}

impl Visits {
    /// When its caller went on: with the answer, or without it.
    pub fn back(&self, visit: usize) -> i64 {
        self.departure[visit].min(self.sent[visit].saturating_add(self.gives_up[visit]))
    }

    pub fn len(&self) -> usize {
        self.server.len()
    }

    pub fn is_empty(&self) -> bool {
        self.server.is_empty()
    }

    /// The visit that a client sent, for which this one was made. Callers that call each other in a circle have none.
    pub fn root(&self, visit: usize) -> Option<usize> {
        let mut at = visit;
        for _ in 0..self.len() {
            match usize::try_from(self.parent[at]) {
                Ok(parent) => at = parent,
                Err(_) => return Some(at),
            }
        }
        None
    }

    /// Whether all columns have the same length, and each number is one of `servers` or one of
    /// `groups`.
    pub fn hold_together(&self, servers: usize, groups: usize) -> bool {
        let n = self.len() as i64;
        let times = [
            &self.parent,
            &self.sent,
            &self.arrival,
            &self.start,
            &self.departure,
            &self.ready,
            &self.gives_up,
        ];
        times.iter().all(|column| column.len() as i64 == n)
            && self.group.len() as i64 == n
            && self
                .server
                .iter()
                .all(|&server| (server as usize) < servers)
            && self.group.iter().all(|&group| (group as usize) < groups)
            && self.parent.iter().all(|&parent| parent < n)
    }
}

/// A stretch in which a visit works at its server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    pub server: u32,
    pub group: u32,
    pub begin: i64,
    pub end: i64,
}

impl Part {
    /// Whether it is the first of its visit: no call was sent before it.
    pub fn is_new(&self) -> bool {
        self.group % KINDS == 0
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// The part of this index.
    Work(u32),
    /// The visit of this index.
    Send(u32),
    Wait(u32),
}

/// The steps of all visits; those of visit `i` are `steps[first[i]..first[i + 1]]`.
#[derive(Clone)]
pub struct Program {
    pub parts: Vec<Part>,
    pub steps: Vec<Step>,
    pub first: Vec<u32>,
}

/// The first, a middle and the last part of a visit belong to different groups.
pub const KINDS: u32 = 3;
const MIDDLE: u32 = 1;
const LAST: u32 = 2;

impl Program {
    pub fn of(visits: &Visits) -> Program {
        Program::like(visits, &[])
    }

    /// `like` has the visit whose steps each visit takes, because its own work was not recorded, or -1. Each of these
    /// steps is the same part, so a work that is measured once holds for both. An empty column names none.
    pub fn like(visits: &Visits, like: &[i64]) -> Program {
        let (calls, first) = calls(&visits.parent);
        let mut found = Program {
            parts: Vec::new(),
            steps: Vec::new(),
            first: vec![0],
        };
        let mut moments = Vec::new();
        for visit in 0..visits.len() {
            let children = &calls[first[visit] as usize..first[visit + 1] as usize];
            if other(like, visit).is_none() {
                found.add(visits, visit, children, &mut moments);
            }
            found.first.push(found.steps.len() as u32);
        }
        if (0..visits.len()).any(|visit| other(like, visit).is_some()) {
            found.lend(like, &calls, &first);
        }
        found
    }

    /// Give visits the steps of others. A call in these steps becomes the call that is like it.
    fn lend(&mut self, like: &[i64], calls: &[u32], first: &[u32]) {
        let (mut steps, mut ends) = (Vec::with_capacity(self.steps.len()), vec![0]);
        for visit in 0..self.first.len() - 1 {
            let from = other(like, visit).unwrap_or(visit);
            let its = self.first.get(from).zip(self.first.get(from + 1));
            let range = its.map_or(0..0, |(&begin, &end)| begin as usize..end as usize);
            let children = &calls[first[visit] as usize..first[visit + 1] as usize];
            let mine = |call: u32| {
                let alike = |&&child: &&u32| other(like, child as usize) == Some(call as usize);
                children.iter().find(alike).copied()
            };
            steps.extend(self.steps[range].iter().filter_map(|&step| match step {
                Step::Work(_) => Some(step),
                _ if from == visit => Some(step),
                Step::Send(call) => mine(call).map(Step::Send),
                Step::Wait(call) => mine(call).map(Step::Wait),
            }));
            ends.push(steps.len() as u32);
        }
        (self.steps, self.first) = (steps, ends);
    }

    fn add(
        &mut self,
        visits: &Visits,
        visit: usize,
        children: &[u32],
        moments: &mut Vec<(i64, bool, u32)>,
    ) {
        moments.clear();
        for &child in children {
            let (sent, back) = (visits.sent[child as usize], visits.back(child as usize));
            moments.push((sent.max(visits.start[visit]), false, child));
            moments.push((back.max(sent).max(visits.start[visit]), true, child));
        }
        moments.sort_unstable();
        let first = self.parts.len();
        let mut now = visits.start[visit];
        for &(time, back, child) in moments.iter() {
            if back {
                // Whether it works while it waits is not recorded.
                self.steps.push(Step::Wait(child));
            } else {
                let ready = visits.ready[child as usize].clamp(now, time.max(now));
                self.work(visits, visit, (now, ready), MIDDLE);
                self.steps.push(Step::Send(child));
            }
            now = now.max(time);
        }
        self.work(visits, visit, (now, visits.departure[visit]), LAST);
        if let Some(part) = self
            .parts
            .get_mut(first)
            .filter(|part| part.begin == visits.start[visit])
        {
            part.group = visits.group[visit] * KINDS;
        }
    }

    fn work(&mut self, visits: &Visits, visit: usize, (begin, end): (i64, i64), kind: u32) {
        if end > begin {
            self.steps.push(Step::Work(self.parts.len() as u32));
            let group = visits.group[visit] * KINDS + kind;
            self.parts.push(Part {
                server: visits.server[visit],
                group,
                begin,
                end,
            });
        }
    }
}

/// The visit whose steps a visit takes.
fn other(like: &[i64], visit: usize) -> Option<usize> {
    usize::try_from(*like.get(visit)?).ok()
}

/// The calls of all visits; those of visit `i` are `calls[first[i]..first[i + 1]]`, in order.
fn calls(parents: &[i64]) -> (Vec<u32>, Vec<u32>) {
    let known = |&parent: &i64| {
        let parent = usize::try_from(parent).ok();
        parent.filter(|&at| at < parents.len())
    };
    let pairs = || {
        let all = parents.iter().enumerate();
        all.filter_map(|(child, parent)| Some((child as u32, known(parent)?)))
    };
    let mut first = vec![0u32; parents.len() + 1];
    pairs().for_each(|(_, parent)| first[parent + 1] += 1);
    for at in 0..parents.len() {
        first[at + 1] += first[at];
    }
    let mut next = first.clone();
    let mut found = vec![0u32; pairs().count()];
    for (child, parent) in pairs() {
        found[next[parent] as usize] = child;
        next[parent] += 1;
    }
    (found, first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_visit_that_is_like_another_takes_its_steps_and_sends_its_own_calls() {
        // A request with two calls; and one that was never answered, whose second call was recorded as the first.
        let visits = Visits {
            server: vec![0, 1, 1, 0, 1, 1],
            parent: vec![-1, 0, 0, -1, 3, 3],
            sent: vec![0, 2, 5, 1, 8, 3],
            arrival: vec![0, 2, 5, 1, 90, 90],
            start: vec![0, 2, 5, 1, 90, 90],
            departure: vec![9, 4, 7, 90, 90, 90],
            group: vec![0, 1, 1, 0, 1, 1],
            ready: vec![0, 2, 5, 1, 8, 3],
            gives_up: vec![i64::MAX; 6],
        };
        let program = Program::like(&visits, &[-1, -1, -1, 0, 1, 2]);
        let steps = |visit: usize| {
            &program.steps[program.first[visit] as usize..program.first[visit + 1] as usize]
        };
        let first = [
            Step::Work(0),
            Step::Send(1),
            Step::Wait(1),
            Step::Work(1),
            Step::Send(2),
            Step::Wait(2),
            Step::Work(2),
        ];
        assert_eq!(steps(0), first);
        let own = first.map(|step| match step {
            Step::Work(part) => Step::Work(part),
            Step::Send(call) => Step::Send(call + 3),
            Step::Wait(call) => Step::Wait(call + 3),
        });
        assert_eq!(steps(3), own);
        assert_eq!((steps(1), steps(2)), (steps(4), steps(5)));
        assert_eq!(program.parts.len(), 5, "its own time shows no work");
    }
}
