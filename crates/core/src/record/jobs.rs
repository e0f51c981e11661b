//! Commands of Redis by which a worker waits for its next job. No client waits for their answers.

const POPS: [&str; 10] = [
    "BLMOVE",
    "BLMPOP",
    "BLPOP",
    "BRPOP",
    "BRPOPLPUSH",
    "BZMPOP",
    "BZPOPMAX",
    "BZPOPMIN",
    "XREAD",
    "XREADGROUP",
];

/// Whether a command waits until another client adds something, such as a job for a worker.
pub fn waits(name: &str) -> bool {
    POPS.contains(&name)
}
