//! The exact reduction of visits to windows.
//!
//! A window w = [s, s + D) is named by its start, a multiple of D since the epoch. For each
//! (server, window) only integer sums are kept, so any split of the rows over files, threads or
//! machines gives the same answer to the last bit.
//! ```text
//! source    visits.parquet → column slices, row group by row group
//! kernel    column slices → sums of one thread           (block: the hot loop)
//! partial   sums of many threads, files or machines → one table of sums
//! slab      rows of a span of time, together → queue_max and percentiles
//! grid      the windows of the result: all, except the middle of long silent stretches
//! finish    sums → windows: queues, means
//! ```
//!
//! Memory depends on the number of (server, window) cells and never on the number of rows.

mod block;
mod divide;
mod finish;
mod grid;
mod groups;
pub mod histogram;
mod kernel;
mod partial;
mod slab;
mod source;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use arrow_array::RecordBatch;

use crate::bounds::MOMENT_MAX;
use crate::error::{Error, Result};

pub use groups::Group;
pub use partial::{Cell, Partial, Sums};
pub use source::Source;

/// Shortest window: below it a window of a busy server holds less than one visit and has no
/// meaning.
pub const WINDOW_NS_MIN: i64 = 1_000_000;
/// Longest window: above it, averaging hides the bottlenecks that this tool looks for.
pub const WINDOW_NS_MAX: i64 = 10_000_000_000;
/// Most rows of the result (about 1 GB of columns).
pub const DENSE_ROWS_MAX: usize = 10_000_000;

/// What to reduce to.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub window_ns: i64,
    pub by_interaction: bool,
    /// Only windows that overlap [begin, end).
    pub begin: Option<i64>,
    pub end: Option<i64>,
    /// A visit is VLRT when `departure - sent` is at least this.
    pub vlrt_ns: i64,
    pub queue_max: bool,
    pub percentiles: bool,
    /// For a stretch without any event, the number of windows kept at either end; None keeps all.
    pub idle_windows: Option<u32>,
    /// 0 takes every core.
    pub threads: usize,
}

impl Default for Plan {
    fn default() -> Self {
        Plan {
            window_ns: 50_000_000,
            by_interaction: false,
            begin: None,
            end: None,
            vlrt_ns: 1_000_000_000,
            queue_max: true,
            percentiles: true,
            idle_windows: None,
            threads: 0,
        }
    }
}

impl Plan {
    fn check(&self) -> Result<()> {
        if !(WINDOW_NS_MIN..=WINDOW_NS_MAX).contains(&self.window_ns) {
            return Err(Error::Options(format!(
                "window must be from 1 ms to 10 s, got {} ns",
                self.window_ns
            )));
        }
        if let (Some(begin), Some(end)) = (self.begin, self.end) {
            if begin >= end {
                return Err(Error::Options(format!(
                    "begin must be before end, got {begin} and {end}"
                )));
            }
        }
        Ok(())
    }

    /// The first window wanted, and the end of the last.
    fn bounds(&self) -> (i64, i64) {
        let floor = |t: i64| t - t.rem_euclid(self.window_ns);
        let moment = |t: i64| t.clamp(-MOMENT_MAX + self.window_ns, MOMENT_MAX - self.window_ns);
        (
            self.begin.map_or(-MOMENT_MAX, |t| floor(moment(t))),
            self.end
                .map_or(MOMENT_MAX, |t| floor(moment(t) + self.window_ns - 1)),
        )
    }

    fn threads(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            n => n,
        }
    }
}

/// The windows, and what was read to make them.
#[derive(Debug)]
pub struct Reduction {
    pub windows: RecordBatch,
    /// Rows read. Row groups outside [begin, end) are not.
    pub rows: u64,
    /// Invalid rows: a moment or the server missing, or a departure before its arrival.
    pub left_out: u64,
}

/// Reduce visits.parquet files to windows.
pub fn reduce(paths: &[PathBuf], plan: &Plan) -> Result<Reduction> {
    plan.check()?;
    let source = Source::open(paths, plan.by_interaction)?;
    let partial = partial(&source, plan)?;
    let order = if plan.queue_max || plan.percentiles {
        slab::order(&source, &partial, plan)?
    } else {
        Vec::new()
    };
    Ok(Reduction {
        windows: finish::finish(&partial, &order, plan)?,
        rows: partial.rows,
        left_out: partial.left_out,
    })
}

/// The other half: windows of the sums of partials of one plan, in any order. Results that need the
/// events themselves (the longest queue, percentiles) are not among them.
pub fn finish(parts: impl IntoIterator<Item = Result<Partial>>, plan: &Plan) -> Result<Reduction> {
    let plan = Plan {
        queue_max: false,
        percentiles: false,
        ..plan.clone()
    };
    plan.check()?;
    let mut all = Partial::default();
    for part in parts {
        all.merge(&part?)?;
    }
    Ok(Reduction {
        windows: finish::finish(&all, &[], &plan)?,
        rows: all.rows,
        left_out: all.left_out,
    })
}

/// The mergeable half of the reduction: integer sums of every cell with an event.
pub fn partial(source: &Source, plan: &Plan) -> Result<Partial> {
    plan.check()?;
    let tasks = source.row_groups(plan.bounds());
    let kernels = source::in_parallel(plan.threads(), tasks.len(), |next| {
        let mut kernel = kernel::Kernel::new(plan);
        let mut scratch = source::Scratch::default();
        while let Some(task) = next() {
            source.read(tasks[task], &mut scratch, &mut |rows| kernel.add(&rows))?;
        }
        kernel.finish()
    })?;
    Partial::of_kernels(source.groups(), kernels)
}
