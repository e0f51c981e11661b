//! Results that need all events of a window together: the longest queue and the percentiles.
//!
//! Sums do not keep the order of events inside a window, so the rows are read a second time. The
//! sums give the number of events in each cell. Time is cut into slabs of bounded size. Each slab
//! reads only the row groups that overlap it, puts every event into the exact place reserved for
//! its cell (a counting sort), and sorts the cells.
//!
//! The queue of a server at t is the number of visits with arrival ≤ t < departure. So at an equal
//! nanosecond departures come before arrivals, and the queue counts once all events of that
//! nanosecond are done.

use std::ops::Range;

use super::divide::Divisor;
use super::histogram::{bucket, Histogram, QUANTILES};
use super::kernel::{is_visit, Rows};
use super::partial::{Cell, Partial};
use super::source::{self, Scratch, Source};
use super::Plan;
use crate::error::{Error, Result};

/// Results that depend on the order of events in a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Order {
    pub queue_max: i64,
    /// p50, p95, p99, p99.9 of the visits that departed; None without departures.
    pub response_ns: [Option<i64>; 4],
}

/// Events of a slab: 64 MB for each thread. Only a single window with more events is larger.
const SLAB_EVENTS: i64 = 8 << 20;
/// Places in a slab's table of (window, group): 4 MB. A silent gap ends a slab.
const SLAB_PLACES: i64 = 1 << 20;
/// Bits of an event below its moment: departure or arrival, and the bucket of the response time.
const BUCKET_BITS: u32 = 11;
const ARRIVAL: u64 = 1 << BUCKET_BITS;

struct Slab {
    cells: Range<usize>,
    begin: i64,
    end: i64,
}

/// For each cell of the partial, in its order.
pub(crate) fn order(source: &Source, partial: &Partial, plan: &Plan) -> Result<Vec<Order>> {
    let starts = queues_at_start(partial);
    let slabs = cut(&partial.cells, partial.groups.len(), plan.window_ns);
    let row_groups = source.row_groups(plan.bounds());
    let pieces = source::in_parallel(plan.threads(), slabs.len(), |next| {
        let mut scratch = Scratch::default();
        let mut pieces = Vec::new();
        while let Some(task) = next() {
            let slab = &slabs[task];
            let cells = &partial.cells[slab.cells.clone()];
            let mut desk = Desk::new(slab, cells, partial.groups.len(), plan.window_ns);
            for &row_group in row_groups
                .iter()
                .filter(|r| r.overlaps(slab.begin, slab.end))
            {
                source.read(row_group, &mut scratch, &mut |rows| desk.add(&rows))?;
            }
            pieces.push((
                slab.cells.start,
                desk.finish(&starts[slab.cells.clone()], plan)?,
            ));
        }
        Ok(pieces)
    })?;
    let mut all = vec![Order::default(); partial.cells.len()];
    for (at, piece) in pieces.into_iter().flatten() {
        all[at..at + piece.len()].copy_from_slice(&piece);
    }
    Ok(all)
}

/// The queue of each cell's group just before its window.
pub(crate) fn queues_at_start(partial: &Partial) -> Vec<i64> {
    let mut queues = partial.opening.clone();
    let cells = partial.cells.iter().map(|cell| {
        let queue = &mut queues[cell.group as usize];
        let start = *queue;
        *queue += cell.sums.arrivals - cell.sums.departures;
        start
    });
    cells.collect()
}

/// Cut cells, sorted by window, into slabs of whole windows.
fn cut(cells: &[Cell], groups: usize, window_ns: i64) -> Vec<Slab> {
    let windows_max = (SLAB_PLACES / groups.max(1) as i64).max(1);
    let mut slabs: Vec<Slab> = Vec::new();
    let mut events = 0;
    for (at, same_window) in cells
        .chunk_by(|a, b| a.window == b.window)
        .scan(0, |at, chunk| {
            let here = *at;
            *at += chunk.len();
            Some((here, chunk))
        })
    {
        let window = same_window[0].window;
        let more: i64 = same_window
            .iter()
            .map(|cell| cell.sums.arrivals + cell.sums.departures)
            .sum();
        match slabs.last_mut() {
            Some(slab)
                if events + more <= SLAB_EVENTS
                    && window.saturating_sub(slab.begin) / window_ns < windows_max =>
            {
                slab.cells.end = at + same_window.len();
                slab.end = window + window_ns;
                events += more;
            }
            _ => {
                slabs.push(Slab {
                    cells: at..at + same_window.len(),
                    begin: window,
                    end: window + window_ns,
                });
                events = more;
            }
        }
    }
    slabs
}

/// Where the events of one slab are sorted by cell.
struct Desk {
    begin: i64,
    span: u64,
    window_ns: u64,
    by_window: Divisor,
    groups: usize,
    /// (window, group) → cell, or NOWHERE.
    places: Vec<u32>,
    /// Per cell: where its next event goes, and where the next cell's begin.
    cursors: Vec<usize>,
    ends: Vec<usize>,
    /// Moment in the window, arrival or departure, bucket of the response time.
    events: Vec<u64>,
}

const NOWHERE: u32 = u32::MAX;

impl Desk {
    fn new(slab: &Slab, cells: &[Cell], groups: usize, window_ns: i64) -> Self {
        let windows = ((slab.end - slab.begin) / window_ns) as usize;
        let mut places = vec![NOWHERE; windows * groups];
        let (mut cursors, mut ends, mut total) = (
            Vec::with_capacity(cells.len()),
            Vec::with_capacity(cells.len()),
            0,
        );
        for (at, cell) in cells.iter().enumerate() {
            places[((cell.window - slab.begin) / window_ns) as usize * groups
                + cell.group as usize] = at as u32;
            cursors.push(total);
            total += (cell.sums.arrivals + cell.sums.departures) as usize;
            ends.push(total);
        }
        Desk {
            begin: slab.begin,
            span: (slab.end - slab.begin) as u64,
            window_ns: window_ns as u64,
            by_window: Divisor::new(window_ns),
            groups,
            places,
            cursors,
            ends,
            events: vec![0; total],
        }
    }

    fn add(&mut self, rows: &Rows) -> Result<()> {
        for (row, (&arrival, &departure)) in rows.arrival.iter().zip(rows.departure).enumerate() {
            let a = arrival.wrapping_sub(self.begin) as u64;
            let d = departure.wrapping_sub(self.begin) as u64;
            if (a >= self.span && d >= self.span) || !is_visit(arrival, departure) {
                continue;
            }
            let group = rows.table[rows.keys[row] as usize] as usize;
            if a < self.span {
                self.put(a, group, ARRIVAL)?;
            }
            if d < self.span {
                self.put(d, group, u64::from(bucket((departure - arrival) as u64)))?;
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn put(&mut self, moment: u64, group: usize, kind: u64) -> Result<()> {
        let window = self.by_window.divide(moment);
        let place = self
            .places
            .get(window as usize * self.groups + group)
            .map_or(NOWHERE, |&place| place);
        let (Some(cursor), Some(&end)) = (
            self.cursors.get_mut(place as usize),
            self.ends.get(place as usize),
        ) else {
            return Err(changed());
        };
        if *cursor == end {
            return Err(changed());
        }
        self.events[*cursor] = (moment - window * self.window_ns) << (BUCKET_BITS + 1) | kind;
        *cursor += 1;
        Ok(())
    }

    fn finish(mut self, starts: &[i64], plan: &Plan) -> Result<Vec<Order>> {
        if self.cursors != self.ends {
            return Err(changed());
        }
        let mut histogram = Histogram::default();
        let mut from = 0;
        let mut orders = Vec::with_capacity(starts.len());
        for (&end, &queue_start) in self.ends.iter().zip(starts) {
            let events = &mut self.events[from..end];
            let mut order = Order::default();
            if plan.percentiles {
                order.response_ns = percentiles(events, &mut histogram);
            }
            if plan.queue_max {
                events.sort_unstable();
                order.queue_max = queue_max(events, queue_start);
            }
            orders.push(order);
            from = end;
        }
        Ok(orders)
    }
}

fn percentiles(events: &[u64], histogram: &mut Histogram) -> [Option<i64>; 4] {
    histogram.clear();
    for event in events.iter().filter(|&event| event & ARRIVAL == 0) {
        histogram.add((event & (ARRIVAL - 1)) as u16);
    }
    QUANTILES.map(|q| {
        histogram
            .percentile(q)
            .and_then(|ns| i64::try_from(ns).ok())
    })
}

/// The longest queue over the instants of a window, given its events in order and the queue just before it.
fn queue_max(events: &[u64], queue_start: i64) -> i64 {
    let (mut queue, mut max, mut now) = (queue_start, i64::MIN, 0);
    for event in events {
        let moment = event >> (BUCKET_BITS + 1);
        if moment > now {
            max = max.max(queue);
            now = moment;
        }
        queue += if event & ARRIVAL == 0 { -1 } else { 1 };
    }
    max.max(queue)
}

fn changed() -> Error {
    Error::Options(
        "a visits file changed while it was read; run again when nothing writes to it".to_string(),
    )
}
