//! Infers how fast a server was at each time.
//!
//! If jobs share a server's cores equally (processor sharing), a part that works from b to e among
//! n(t) others attains ∫ c(t) · min(1, cores / n(t)) dt; if they are served in turn, ∫ c(t) dt
//! during its turn. With the right c, parts of one group attain their usual service demand. The
//! multiplicative update of expectation maximisation finds it (Richardson 1972, Lucy 1974): the
//! capacity of each step is scaled by the mean of usual / attained over the parts that work in it.
//! The probability that a part is at work at a random time is proportional to its work
//! (length-biased sampling), so this mean is 1 where c is right, whatever the distribution of the
//! works.
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::pieces::{first_from, Grid, Pieces};
use super::program::Part;

/// A part and the pieces that it spans.
#[derive(Clone, Copy)]
struct Span {
    begin: u32,
    end: u32,
    group: u32,
    /// When the part came: jobs that are served in turn keep a core at work before the one that leaves next came.
    came: u32,
}

/// The usual service demand of the parts of a group.
#[derive(Clone, Copy)]
pub struct Need {
    /// Nanoseconds at full speed; NaN if too few are known.
    pub mean: f64,
    pub variance: f64,
}

/// The parts of one server.
pub struct Capacity {
    cores: f64,
    pieces: Pieces,
    spans: Vec<Span>,
    /// Index in the program of the part of each span.
    pub which: Vec<u32>,
}

/// A capacity stays within these bounds; one above full speed belongs to parts that need less than
/// usual.
const LEAST: f64 = 1e-4;
const MOST: f64 = 3.0;
/// The answers of calls are on their way for some time, and threads pause. So visits show a server that is busier
/// than its CPU. They do not show one that is busy twice as long.
const BUSIER: f64 = 2.0;
/// The number of parts at full speed is within a hundredth of its limit after so many rounds.
const ROUNDS: usize = 100;
/// The most by which one part may raise a step's capacity: parts with almost no demand do not show
/// a fast server.
const PULL: f64 = 5.0;

impl Capacity {
    /// The parts of `server`. `in_turn`: jobs are served one after the other, as by an event loop,
    /// and not all at once.
    pub fn of(parts: &[Part], server: u32, cores: f64, grid: Grid, in_turn: bool) -> Capacity {
        let mut which: Vec<u32> = (0..parts.len() as u32)
            .filter(|&i| parts[i as usize].server == server)
            .collect();
        let part = |i: &u32| parts[*i as usize];
        let begins: Vec<i64> = if in_turn {
            which.sort_by_key(|i| (part(i).end, part(i).begin));
            turns(&which.iter().map(part).collect::<Vec<_>>(), cores)
        } else {
            which.iter().map(|i| part(i).begin).collect()
        };
        let stretches = begins
            .iter()
            .copied()
            .zip(which.iter().map(|i| part(i).end));
        // Time is also cut where a part came that kept no core at work then.
        let came = which.iter().map(|i| (part(i).begin, part(i).begin));
        let (pieces, starts) = Pieces::of(stretches.chain(came), cores, grid);
        // Parts that are near to each other in the recording are near to each other in time.
        let mut last = 0;
        let mut find = |time: i64| {
            last = first_from(&starts, last, time);
            last as u32
        };
        let spans = which.iter().map(part).zip(&begins);
        let spans = spans
            .map(|(p, &begin)| Span {
                begin: find(begin),
                end: find(p.end),
                group: p.group,
                came: find(p.begin),
            })
            .collect();
        Capacity {
            cores,
            pieces,
            spans,
            which,
        }
    }

    /// How many parts the server works on at full speed, if it is as busy with them in calm steps as samples
    /// show of it (`used`, a share): the utilisation law. It is at least the number of cores. A part does not
    /// need a core all the time: it also sleeps, waits for a disk, or sends to a slow client.
    pub fn at_full_speed(&self, used: f64, calm: &[bool]) -> f64 {
        let mut lasted: Vec<f64> = Vec::new();
        for (_, range) in self.pieces.by_step().filter(|&(step, _)| calm[step]) {
            for i in range {
                let at_work = self.pieces.at_work[i] as usize;
                lasted.resize(lasted.len().max(at_work + 1), 0.0);
                lasted[at_work] += self.pieces.length(i, self.cores);
            }
        }
        let whole: f64 = lasted.iter().sum();
        let mean_of_at_most = |number: f64| {
            let numbers = lasted.iter().enumerate();
            let sum: f64 = numbers
                .map(|(n, length)| number.min(n as f64) * length)
                .sum();
            sum / whole
        };
        let busy = mean_of_at_most(self.cores) / self.cores;
        if !(used > 0.0 && busy > BUSIER * used) {
            return self.cores;
        }
        (0..ROUNDS).fold(self.cores, |number, _| {
            (mean_of_at_most(number) / used).max(number)
        })
    }

    /// Let this many parts work at full speed.
    pub fn serve_at_once(&mut self, number: f64) {
        if number == self.cores {
            return;
        }
        self.pieces.share_among(self.cores, number);
        self.cores = number;
    }

    /// What each part attains at these capacities, in nanoseconds at full speed.
    pub fn works(&self, capacity: &[f64]) -> Vec<f64> {
        let sum = self.sums(capacity);
        self.spans
            .iter()
            .map(|span| (sum[span.end as usize] - sum[span.begin as usize]).max(0.0))
            .collect()
    }

    /// The share of each step in which at least one part is at work.
    pub fn at_work(&self, grid: Grid) -> Vec<f64> {
        let mut found = vec![0.0; grid.steps];
        for (share, (_, range)) in found.iter_mut().zip(self.pieces.by_step()) {
            for i in range.filter(|&i| self.pieces.at_work[i] > 0) {
                *share += self.pieces.length(i, self.cores) / grid.step as f64;
            }
        }
        found
    }

    /// The demand of each group's parts, from at least `least` that begin and end in calm steps.
    pub fn needs(&self, works: &[f64], calm: &[bool], groups: usize, least: u32) -> Vec<Need> {
        let is_calm = |at: u32| self.pieces.step_of(at).is_some_and(|step| calm[step]);
        let mut sums = vec![(0.0, 0.0, 0u32); groups];
        for (span, work) in self.spans.iter().zip(works) {
            if is_calm(span.begin) && is_calm(span.end.saturating_sub(1)) {
                let sum = &mut sums[span.group as usize];
                *sum = (sum.0 + work, sum.1 + work * work, sum.2 + 1);
            }
        }
        let need = |&(sum, squares, count): &(f64, f64, u32)| {
            let mean = if count >= least {
                sum / f64::from(count)
            } else {
                f64::NAN
            };
            Need {
                mean,
                variance: (squares / f64::from(count.max(1)) - mean * mean).max(0.0),
            }
        };
        sums.iter().map(need).collect()
    }

    /// One update of the capacities. A step without jobs keeps its capacity.
    /// `busy` is the work in each step.
    /// `since` is what each part attained since it came.
    fn improve(
        &self,
        capacity: &mut [f64],
        busy: &[f64],
        needs: &[Need],
        since: &[f64],
        room: &mut Room,
    ) {
        self.sum_up(capacity, &mut room.attained);
        room.changes.clear();
        room.changes.resize(self.pieces.len() + 1, 0.0);
        for (span, since) in self.spans.iter().zip(since) {
            let (begin, end) = (span.begin as usize, span.end as usize);
            let work = (room.attained[end] - room.attained[begin]).max(0.0);
            let need = needs[span.group as usize].mean;
            let ratio = if !need.is_nan() {
                (need / work.max(1.0)).min(PULL)
            } else if span.came > span.begin {
                // A part whose need is unknown needs no more than what it attained since it came.
                (since / work.max(1.0)).min(1.0)
            } else {
                1.0
            };
            room.changes[begin] += ratio;
            room.changes[end] -= ratio;
        }
        let mut ratios = 0.0;
        let steps = capacity.iter_mut().zip(busy);
        for ((value, busy), (_, range)) in steps.zip(self.pieces.by_step()) {
            let mut above = 0.0;
            let pieces = self.pieces.share[range.clone()].iter();
            for (share, change) in pieces.zip(&room.changes[range]) {
                ratios += change;
                above += ratios * share;
            }
            if *busy > 0.0 {
                *value = (*value * above / busy).clamp(LEAST, MOST);
            }
        }
    }

    /// The capacities that fit best, found from `prior` by this many updates; demands are measured
    /// in the `calm` steps.
    pub fn found(
        &self,
        prior: &[f64],
        calm: &[bool],
        groups: usize,
        least: u32,
        rounds: u32,
    ) -> Vec<f64> {
        let needs = self.needs(&self.works(prior), calm, groups, least);
        let sum = self.sums(prior);
        let attained = |span: &Span| sum[span.end as usize] - sum[span.came as usize];
        let since: Vec<f64> = self.spans.iter().map(attained).collect();
        let (mut capacity, mut room) = (prior.to_vec(), Room::default());
        let busy = self.busy(prior.len());
        (0..rounds).for_each(|_| self.improve(&mut capacity, &busy, &needs, &since, &mut room));
        capacity
    }

    /// Nanoseconds that the cores are at work in each step.
    pub fn busy(&self, steps: usize) -> Vec<f64> {
        let mut found = vec![0.0; steps];
        for (sum, (_, range)) in found.iter_mut().zip(self.pieces.by_step()) {
            for i in range {
                *sum += f64::from(self.pieces.at_work[i]) * self.pieces.share[i];
            }
        }
        found
    }

    /// For each of these stretches of steps (disjoint, in order), two values of the parts that are
    /// at work in it: the variance of the sum of their needs, and by how many nanoseconds the work
    /// that they attain in it at this capacity exceeds their usual needs. Every part that begins also
    /// ends, so this sum is right however unequal the needs are.
    pub fn excess(
        &self,
        capacity: &[f64],
        needs: &[Need],
        stretches: &[(usize, usize)],
    ) -> Vec<(f64, f64)> {
        let at = |step: usize| self.pieces.first_of(step);
        let bounds: Vec<(u32, u32)> = stretches.iter().map(|&(b, e)| (at(b), at(e))).collect();
        let sums = self.sums(capacity);
        let attained = |from: u32, to: u32| (sums[to as usize] - sums[from as usize]).max(0.0);
        let mut found = vec![(0.0, 0.0); stretches.len()];
        for span in &self.spans {
            let (need, whole) = (needs[span.group as usize], attained(span.begin, span.end));
            let first = bounds.partition_point(|&(_, last)| last <= span.begin);
            let inside = bounds.iter().zip(&mut found).skip(first);
            for (&(first, last), (variance, excess)) in
                inside.take_while(|((first, _), _)| *first < span.end)
            {
                *variance += need.variance;
                if whole > 0.0 && !need.mean.is_nan() {
                    let part = attained(span.begin.max(first), span.end.min(last)) / whole;
                    *excess += (whole - need.mean) * part;
                }
            }
        }
        found
    }

    /// The work that one part attains from the beginning until each piece.
    fn sums(&self, capacity: &[f64]) -> Vec<f64> {
        let mut found = Vec::new();
        self.sum_up(capacity, &mut found);
        found
    }

    fn sum_up(&self, capacity: &[f64], found: &mut Vec<f64>) {
        let mut total = 0.0;
        found.clear();
        found.reserve(self.pieces.len() + 1);
        found.push(total);
        for (capacity, (_, range)) in capacity.iter().zip(self.pieces.by_step()) {
            found.extend(self.pieces.share[range].iter().map(|share| {
                total += capacity * share;
                total
            }));
        }
    }
}

/// What one update computes: a fresh column of millions of pieces costs as much as the update itself.
#[derive(Default)]
struct Room {
    /// The work that one part attains until each piece.
    attained: Vec<f64>,
    /// By how much the sum of the ratios of usual to attained work changes at each piece.
    changes: Vec<f64>,
}

/// Of the parts that came at once, or were still at the server when a later one came, how many there
/// are, and the share of their time of those that no later one overtook. An event loop serves those of one kind
/// (new requests, and answers) in their order; parts that share the cores overtake each other.
pub fn in_order(parts: &[Part], server: u32) -> (usize, f64) {
    let (mut together, mut whole, mut ordered) = (0, 0.0, 0.0);
    for is_new in [true, false] {
        let of_kind = |part: &&Part| part.server == server && part.is_new() == is_new;
        let mut here: Vec<&Part> = parts.iter().filter(of_kind).collect();
        here.sort_by_key(|part| Reverse(part.begin));
        let (mut later, mut leaves) = (i64::MAX, i64::MAX);
        for same in here.chunk_by(|a, b| a.begin == b.begin) {
            let is_alone = same.len() == 1;
            for part in same.iter().filter(|part| !is_alone || later < part.end) {
                let lasted = (part.end - part.begin) as f64;
                (together, whole) = (together + 1, whole + lasted);
                if leaves >= part.end {
                    ordered += lasted;
                }
            }
            later = same.first().map_or(later, |part| part.begin);
            leaves = same.iter().fold(leaves, |first, part| first.min(part.end));
        }
    }
    (together, ordered / f64::max(whole, 1.0))
}

/// Whether an event loop goes on with visits whose call was answered before it begins with new ones
/// that came earlier. Of pairs that waited together and were served one after the other, more than
/// half show it.
pub fn answers_first(parts: &[Part], server: u32) -> bool {
    let mut here: Vec<&Part> = parts.iter().filter(|part| part.server == server).collect();
    here.sort_by_key(|part| (part.end, part.begin));
    let (mut waited, mut overtook) = (0, 0);
    for three in here.windows(3) {
        let (before, first, second) = (three[0], three[1], three[2]);
        let (new, answered) = match (first.is_new(), second.is_new()) {
            (true, false) => (first, second),
            (false, true) => (second, first),
            _ => continue,
        };
        // Both waited when the first of them was chosen, and the new one had waited longer.
        if new.begin < answered.begin && answered.begin < before.end {
            waited += 1;
            overtook += usize::from(second.is_new());
        }
    }
    overtook * 2 > waited
}

/// When each part, in the order of their ends, is served: the part that leaves next is served,
/// because a core is free for it. A core is at work whenever a part is there, also if the one that
/// leaves next came later: a server that was stopped may go on with any of them.
fn turns(parts: &[Part], cores: f64) -> Vec<i64> {
    let mut free: BinaryHeap<Reverse<i64>> =
        vec![Reverse(i64::MIN); (cores.ceil() as usize).max(1)].into();
    let mut came: Vec<i64> = parts.iter().map(|part| part.begin).collect();
    came.sort_unstable();
    let mut begins = Vec::new();
    for (part, came) in parts.iter().zip(came) {
        let since = free.pop().map_or(i64::MIN, |Reverse(since)| since);
        begins.push(came.max(since).min(part.end));
        free.push(Reverse(part.end));
    }
    begins
}
