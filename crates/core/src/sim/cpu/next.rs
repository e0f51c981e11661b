//! The next event of each group, and the first of all: groups are in blocks, and each block knows
//! its first event, so that a system of ten thousand servers looks at some two hundred numbers an
//! event. A system of one block looks at its groups alone.

use super::NEVER;

const BLOCK: usize = 64;

#[derive(Default)]
pub struct Next {
    times: Vec<i64>,
    /// The first time of each block; empty while there is one block.
    blocks: Vec<i64>,
}

impl Next {
    /// One more group, without an event.
    pub fn push(&mut self) {
        self.times.push(NEVER);
        if self.times.len() > BLOCK {
            self.blocks = self.times.chunks(BLOCK).map(least).collect();
        }
    }

    #[inline(always)]
    pub fn set(&mut self, group: u32, time: i64) {
        let group = group as usize;
        let before = std::mem::replace(&mut self.times[group], time);
        if let Some(first) = self.blocks.get_mut(group / BLOCK) {
            if time <= *first {
                *first = time;
            } else if before == *first {
                let begin = group / BLOCK * BLOCK;
                let end = self.times.len().min(begin + BLOCK);
                *first = least(&self.times[begin..end]);
            }
        }
    }

    /// The first event and its group; of several at that time, the lowest group.
    #[inline(always)]
    pub fn first(&self) -> (i64, u32) {
        if self.blocks.is_empty() {
            return earliest(&self.times);
        }
        let (time, block) = earliest(&self.blocks);
        let begin = block as usize * BLOCK;
        let end = self.times.len().min(begin + BLOCK);
        let within = self.times[begin..end].iter().position(|&t| t == time);
        (time, (begin + within.unwrap_or(0)) as u32)
    }
}

fn least(times: &[i64]) -> i64 {
    times.iter().copied().min().unwrap_or(NEVER)
}

#[inline(always)]
fn earliest(times: &[i64]) -> (i64, u32) {
    let (mut time, mut at) = (NEVER, 0);
    for (i, &t) in times.iter().enumerate() {
        if t < time {
            (time, at) = (t, i as u32);
        }
    }
    (time, at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Purpose, Stream};

    #[test]
    fn many_blocks_find_what_a_look_at_each_group_finds() {
        for groups in [1_usize, BLOCK, BLOCK + 1, 5 * BLOCK + 3] {
            let mut next = Next::default();
            (0..groups).for_each(|_| next.push());
            let mut random = Stream::of(7, 0, 0, Purpose::Think);
            for _ in 0..5_000 {
                let group = random.below(groups as u32);
                // few different times, so that many are equal
                let time = match random.below(20) {
                    0 => NEVER,
                    1 => i64::MIN,
                    other => i64::from(other),
                };
                next.set(group, time);
                assert_eq!(next.times[group as usize], time);
                assert_eq!(next.first(), earliest(&next.times));
            }
        }
    }
}
