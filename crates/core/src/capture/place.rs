//! How far a reading is. What comes after must be what came before, or the saved state is of another input.

use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;
use serde::{Deserialize, Serialize};

use super::Segment;

/// How far a reading is: the packets so far, and a print of all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Place {
    pub packets: u64,
    print: u64,
}

impl Place {
    #[inline]
    pub fn pass(&mut self, segment: &Segment<'_>) {
        let mut hasher = FxHasher::default();
        hasher.write_u64(self.print);
        hasher.write_i64(segment.time);
        (segment.from, segment.to).hash(&mut hasher);
        hasher.write_u64(u64::from(segment.seq) << 32 | u64::from(segment.ack));
        hasher.write_u64(u64::from(segment.len) << 32 | u64::from(segment.flags));
        hasher.write(segment.payload);
        self.print = hasher.finish();
        self.packets += 1;
    }
}
