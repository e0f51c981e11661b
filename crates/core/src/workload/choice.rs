//! What a client asks for next.

use super::plan::Choice;
use super::{Position, Walk};
use crate::rng::Stream;

pub struct Chooser {
    walks: Vec<Walk>,
    author_share: f64,
    /// Classes of a mix, with running totals up to 1.
    mix: Vec<(u32, f64)>,
}

impl Chooser {
    pub fn new(choice: &Choice) -> Self {
        let (mut walks, mut author_share, mut mix) = (Vec::new(), 0.0, Vec::new());
        match choice {
            Choice::Mix(classes) => {
                let sum: f64 = classes.iter().map(|c| c.1).sum();
                let mut total = 0.0;
                mix.extend(classes.iter().map(|&(class, weight)| {
                    total += weight / sum;
                    (class, total)
                }));
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
