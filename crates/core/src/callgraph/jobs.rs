//! Commands of Redis by which a worker waits for its next job. Nobody waits for their answers, unless a visit made the
//! call: a page may wait for its result so.

use crate::record::{Names, Visit};

const WAITS: [&str; 8] = [
    "BLMOVE",
    "BLMPOP",
    "BLPOP",
    "BRPOP",
    "BRPOPLPUSH",
    "BZMPOP",
    "BZPOPMAX",
    "BZPOPMIN",
];

/// Whether a command waits until another client adds something, such as a job for a worker.
pub fn waits_for_a_job(name: &str) -> bool {
    WAITS.contains(&name)
}

/// Whether a visit is such a command.
pub fn is_wait(visit: &Visit, names: &Names) -> bool {
    let name = names.interactions.get(visit.interaction as usize);
    name.is_some_and(|name| waits_for_a_job(name))
}
