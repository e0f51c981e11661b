//! What a client requests next.

use super::plan::{self, Arrivals, Choice};
use super::{Position, Walk};
use crate::rng::{Purpose, Stream};

/// The length of a walk whose pages are counted: each share is then accurate to 0.1 points, in some
/// 30 ms.
const STEPS: u32 = 1_000_000;

pub struct Chooser {
    walks: Vec<Walk>,
    author_share: f64,
    /// Classes of a mix, with running totals up to 1.
    mix: Vec<(u32, f64)>,
}

impl Chooser {
    /// An open arrival does not walk: it requests any page, as often as such walks lead to it.
    pub fn new(choice: &Choice, arrivals: &Arrivals) -> Self {
        let (mut walks, mut author_share, mut mix) = (Vec::new(), 0.0, Vec::new());
        match choice {
            Choice::Mix(classes) => mix = totals(classes),
            Choice::Walk(walk) if !matches!(arrivals, Arrivals::Closed { .. }) => {
                mix = totals(&pages(walk));
            }
            Choice::Walk(walk) => {
                walks.push(Walk::new(walk));
                if let Some(other) = &walk.other {
                    walks.push(Walk::new(other));
                    author_share = walk.other_share;
                }
            }
        }
        Chooser {
            walks,
            author_share,
            mix,
        }
    }

    /// Whether a new client walks by the second table.
    pub fn draw_author(&self, stream: &mut Stream) -> bool {
        self.author_share > 0.0 && stream.uniform() < self.author_share
    }

    /// The class of the next page.
    #[inline]
    pub fn next(&self, author: bool, at: &mut Position, stream: &mut Stream) -> u32 {
        if let Some(walk) = self.walks.get(usize::from(author)) {
            return walk.next(at, stream);
        }
        match self.mix[..] {
            [] => 0,
            [(only, _)] => only,
            [.., (last, _)] => {
                let u = stream.uniform();
                let found = self.mix.iter().find(|c| u < c.1);
                found.map_or(last, |c| c.0)
            }
        }
    }
}

/// Running totals of weights, up to 1.
fn totals(classes: &[(u32, f64)]) -> Vec<(u32, f64)> {
    let sum: f64 = classes.iter().map(|c| c.1).sum();
    let mut total = 0.0;
    let totals = classes.iter().map(|&(class, weight)| {
        total += weight / sum;
        (class, total)
    });
    totals.collect()
}

/// How often walks lead to each page. It is independent of the seed, because it is the distribution
/// and not a sample of the run.
fn pages(walk: &plan::Walk) -> Vec<(u32, f64)> {
    let mut found = Vec::new();
    let other = walk.other.as_deref();
    for (walk, share) in [
        (Some(walk), 1.0 - walk.other_share),
        (other, walk.other_share),
    ] {
        let Some(walk) = walk.filter(|_| share > 0.0) else {
            continue;
        };
        let (steps, mut at) = (Walk::new(walk), Position::default());
        let mut stream = Stream::of(0, 0, 0, Purpose::Choice);
        let most = walk.classes.iter().copied().max().unwrap_or(0);
        let mut counts = vec![0.0; most as usize + 1];
        for _ in 0..STEPS {
            counts[steps.next(&mut at, &mut stream) as usize] += share;
        }
        found.extend((0..).zip(counts).filter(|page: &(u32, f64)| page.1 > 0.0));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 0 → 1 → 2 → 0, where 1 lacks its link in half of the cases and 2 goes back or ends at times; authors go 0 → 3.
    fn walk() -> plan::Walk {
        let table = |classes: &[u32], transitions: Vec<Vec<f64>>, back: Vec<f64>, end: Vec<f64>| {
            plan::Walk {
                classes: classes.to_vec(),
                transitions,
                back,
                end,
                start: 0,
                length_max: 50,
                dead_ends: Vec::new(),
                other: None,
                other_share: 0.0,
            }
        };
        let rows = vec![
            vec![0.0, 1.0, 0.0],
            vec![0.0, 0.0, 1.0],
            vec![0.3, 0.0, 0.0],
        ];
        let authors = table(
            &[10, 13],
            vec![vec![0.5, 0.5], vec![1.0, 0.0]],
            vec![0.0; 2],
            vec![0.0; 2],
        );
        plan::Walk {
            dead_ends: vec![plan::DeadEnd {
                state: 1,
                share: 0.5,
                to: vec![2],
            }],
            other: Some(Box::new(authors)),
            other_share: 0.25,
            ..table(
                &[10, 11, 12],
                rows,
                vec![0.0, 0.0, 0.5],
                vec![0.0, 0.0, 0.2],
            )
        }
    }

    /// Shares of pages that these clients request, a quarter of them authors.
    fn asked(arrivals: &Arrivals) -> [f64; 4] {
        let (clients, each) = (4000, 400);
        let chooser = Chooser::new(&Choice::Walk(walk()), arrivals);
        let mut shares = [0.0; 4];
        for client in 0..clients {
            let mut stream = Stream::of(7, 0, client, Purpose::Choice);
            let mut at = Position::default();
            for _ in 0..each {
                let page = chooser.next(client % 4 == 0, &mut at, &mut stream);
                shares[page as usize - 10] += 1.0 / (clients * each) as f64;
            }
        }
        shares
    }

    #[test]
    fn open_arrivals_request_pages_as_often_as_walks_do() {
        let closed = Arrivals::Closed {
            clients: 1,
            think: plan::Time::Constant(0.0),
            think_max: 0,
            chain: None,
            spread: None,
            aggregate: false,
        };
        let (walked, drawn) = (asked(&closed), asked(&Arrivals::Poisson { rate: 1.0 }));
        for (walked, drawn) in walked.iter().zip(drawn) {
            assert!((walked - drawn).abs() < 0.003, "{walked} {drawn}");
        }
    }
}
