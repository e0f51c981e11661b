//! The hot loop: a dense table of (window, group) that moves forward with time.
//!
//! Rows come roughly sorted by departure, so almost every row touches one or two cells near the
//! current time. Moments are relative to the origin of the block. The area of a cell with end e
//! needs neither a product for each row nor a look at most arrivals:
//! ```text
//! Σ over arrivals (e − a) − Σ over departures (e − d) = Σ over departures (d − a) + e·shift − level
//!     shift   visits that arrived here and departed later − visits that arrived earlier and departed here
//!     level   Σ a of the former − Σ a of the latter
//! ```

use super::divide::Divisor;
use super::kernel::Rows;
use super::partial::{Cell, Sums};

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    departures: u32,
    /// Arrivals − departures.
    shift: i32,
    vlrt: u32,
    drops: u32,
    /// Σ (departure − arrival) over departures.
    response: i64,
    level: i64,
}

/// Cells of a block: 2 MB, of which a sorted file touches a few lines at a time.
const CELLS: usize = 1 << 16;
/// The longest block and the most rows in it, so that no sum of differences exceeds 63 bits.
const SPAN_MAX: i64 = 1 << 40;
const ROWS_MAX: usize = 1 << 22;
/// The share of a block for arrivals before the departure for which it was placed.
const HISTORY: i64 = 4;
/// Rows processed together: few enough that most runs depart in one window. Tests make runs of
/// their few rows.
const RUN: usize = if cfg!(test) { 4 } else { 128 };
/// Rows of a chunk: few enough that most chunks contain no VLRT and no drop.
const MARKS: usize = RUN.div_ceil(8);

pub(crate) struct Block {
    window_ns: i64,
    by_window: Divisor,
    vlrt_ns: i64,
    tallies: Vec<Tally>,
    /// Groups a window has room for.
    stride: usize,
    origin: i64,
    span: u64,
    rows: usize,
    /// The window of the last departure: its first moment, its last, its first cell.
    first: i64,
    last: i64,
    cells: usize,
}

impl Block {
    pub fn new(window_ns: i64, vlrt_ns: i64) -> Self {
        Block {
            window_ns,
            by_window: Divisor::new(window_ns),
            vlrt_ns,
            tallies: Vec::new(),
            stride: 0,
            origin: 0,
            span: 0,
            rows: 0,
            first: 0,
            last: -1,
            cells: 0,
        }
    }

    pub fn has_room_for(&self, groups: usize) -> bool {
        groups <= self.stride
    }

    /// Grow so that every group has a place in each window. The block must be empty, and must then
    /// be placed again.
    pub fn make_room_for(&mut self, groups: usize) {
        self.stride = groups.next_multiple_of(4);
        let windows = CELLS.max(self.stride * 4) / self.stride;
        self.tallies = vec![Tally::default(); windows * self.stride];
        self.span = 0;
        (self.first, self.last) = (0, -1);
    }

    pub fn rows_left(&self) -> usize {
        ROWS_MAX.saturating_sub(self.rows)
    }

    /// A row was counted elsewhere.
    pub fn miss(&mut self) {
        self.rows += 1;
    }

    /// Whether a row that departs here lies outside and justifies a move. A move costs a pass over
    /// the block; requiring a sixteenth of its cells in rows keeps that below the cost of the rows.
    pub fn should_move_to(&self, departure: i64) -> bool {
        let outside = departure.wrapping_sub(self.origin) as u64 >= self.span;
        outside && (self.span == 0 || self.rows >= self.tallies.len() / 16)
    }

    /// Move the empty block to this departure and what follows it, within [begin, end).
    pub fn place(&mut self, departure: i64, begin: i64, end: i64) {
        let windows = (self.tallies.len() / self.stride.max(1)) as i64;
        let length = (windows * self.window_ns).min(SPAN_MAX);
        let length = length - length % self.window_ns;
        let origin = departure - length / HISTORY;
        self.origin = (origin - origin.rem_euclid(self.window_ns)).max(begin);
        self.span = end.saturating_sub(self.origin).clamp(0, length) as u64;
        (self.first, self.last) = (0, -1);
    }

    /// Count rows up to the first outside of the block; returns how many.
    pub fn sweep(&mut self, rows: &Rows) -> usize {
        let mut counted = 0;
        while counted < rows.keys.len() {
            let run = rows.slice(counted, rows.keys.len().min(counted + RUN));
            if self.is_plain(&run) {
                self.count_together(&run);
                counted += run.keys.len();
                continue;
            }
            let some = self.count_singly(&run);
            counted += some;
            if some < run.keys.len() {
                break;
            }
        }
        self.rows += counted;
        counted
    }

    /// Whether all depart in the window of the last departure, and arrive inside the block and not
    /// later. The sign of a difference shows it without a branch, so that several rows are
    /// processed at a time.
    fn is_plain(&self, rows: &Rows) -> bool {
        let (origin, first, last) = (self.origin, self.first, self.last);
        let moments = rows.arrival.iter().zip(rows.departure);
        let signs = moments.fold(0, |signs, (&arrival, &departure)| {
            let arrived = arrival.wrapping_sub(origin) | departure.wrapping_sub(arrival);
            let departed = departure.wrapping_sub(first) | last.wrapping_sub(departure);
            signs | arrived | departed
        });
        signs >= 0
    }

    /// Whether a row may be VLRT or have drops; see [`Block::is_plain`].
    fn may_be_marked(&self, rows: &Rows) -> bool {
        let times = rows.departure.iter().zip(rows.sent);
        let signs = times.fold(-1, |signs, (&departure, &sent)| {
            signs & departure.wrapping_sub(sent).wrapping_sub(self.vlrt_ns)
        });
        let drops = rows.drops.iter().fold(0, |all, drops| all | drops);
        signs >= 0 || self.vlrt_ns < 0 || drops > 0
    }

    /// Count plain rows. Those that arrived in an earlier window are noted without a branch,
    /// because no processor could predict it, and processed again.
    fn count_together(&mut self, rows: &Rows) {
        let mut earlier = [0; RUN];
        let window = &mut self.tallies[self.cells..][..self.stride];
        let noted = count_departures(window, rows, self.first, &mut earlier);
        for &row in &earlier[..noted] {
            let row = usize::from(row);
            let group = rows.table[rows.keys[row] as usize] as usize;
            self.shift(rows.arrival[row], self.cells + group, group);
        }
        if !self.may_be_marked(rows) {
            return;
        }
        for from in (0..rows.keys.len()).step_by(MARKS) {
            let some = rows.slice(from, rows.keys.len().min(from + MARKS));
            if self.may_be_marked(&some) {
                (0..some.keys.len()).for_each(|row| self.mark(&some, row));
            }
        }
    }

    /// Count rows up to the first outside of the block; returns how many.
    fn count_singly(&mut self, rows: &Rows) -> usize {
        for (row, (&arrival, &departure)) in rows.arrival.iter().zip(rows.departure).enumerate() {
            let d = departure.wrapping_sub(self.origin) as u64;
            // One test for both: arrival before the block, departure before arrival.
            if d >= self.span || arrival.wrapping_sub(self.origin) as u64 > d {
                return row;
            }
            let window = self.by_window.divide(d) as usize;
            self.cells = window * self.stride;
            self.first = self.origin + window as i64 * self.window_ns;
            self.last = (self.first + self.window_ns).min(self.origin + self.span as i64) - 1;
            let group = rows.table[rows.keys[row] as usize] as usize;
            let cell = &mut self.tallies[self.cells + group];
            cell.departures += 1;
            cell.response += departure - arrival;
            if arrival < self.first {
                self.shift(arrival, self.cells + group, group);
            }
            self.mark(rows, row);
        }
        rows.keys.len()
    }

    fn cell_of(&self, arrival: i64, group: usize) -> usize {
        self.by_window.divide((arrival - self.origin) as u64) as usize * self.stride + group
    }

    /// An arrival that belongs to an earlier window than its departure.
    fn shift(&mut self, arrival: i64, departed: usize, group: usize) {
        let arrived = self.cell_of(arrival, group);
        let level = arrival - self.origin;
        for (cell, by) in [(departed, -1), (arrived, 1)] {
            let cell = &mut self.tallies[cell];
            cell.shift += by;
            cell.level += level * i64::from(by);
        }
    }

    /// Count VLRT and drops in the window of the arrival.
    fn mark(&mut self, rows: &Rows, row: usize) {
        let late = rows.departure[row].wrapping_sub(rows.sent[row]) >= self.vlrt_ns;
        let drops = rows.drops[row];
        if late || drops > 0 {
            let group = rows.table[rows.keys[row] as usize] as usize;
            let arrived = self.cell_of(rows.arrival[row], group);
            let cell = &mut self.tallies[arrived];
            cell.vlrt += u32::from(late);
            cell.drops += u32::from(drops);
        }
    }

    /// Return the cells with an event, sorted, and clear them.
    pub fn drain(&mut self) -> impl Iterator<Item = Cell> + '_ {
        self.rows = 0;
        let (origin, window_ns, stride) = (self.origin, self.window_ns, self.stride.max(1));
        let cells = self.span.div_ceil(window_ns as u64) as usize * stride;
        let tallies = self.tallies.iter_mut().take(cells).enumerate();
        let with_event = tallies.filter(|(_, tally)| tally.departures > 0 || tally.shift > 0);
        with_event.map(move |(at, tally)| {
            let begin = (at / stride) as i64 * window_ns;
            Cell {
                window: origin + begin,
                group: (at % stride) as u32,
                sums: std::mem::take(tally).sums(begin + window_ns),
            }
        })
    }
}

/// Count the departures of one window, and note the rows that arrived before it; returns how many.
/// It is a function of its own so that all its values fit into the processor's registers.
#[inline(never)]
fn count_departures(
    window: &mut [Tally],
    rows: &Rows,
    first: i64,
    earlier: &mut [u8; RUN],
) -> usize {
    let mut noted = 0;
    let columns = rows.keys.iter().zip(rows.arrival).zip(rows.departure);
    for (row, ((&key, &arrival), &departure)) in columns.enumerate() {
        let cell = &mut window[rows.table[key as usize] as usize];
        cell.departures += 1;
        cell.response += departure - arrival;
        earlier[noted % RUN] = row as u8;
        noted += usize::from(arrival < first);
    }
    noted
}

impl Tally {
    /// Of the window that ends at `end`, relative to the origin.
    fn sums(self, end: i64) -> Sums {
        let (departures, shift) = (i64::from(self.departures), i64::from(self.shift));
        let response_ns = i128::from(self.response);
        Sums {
            arrivals: departures + shift,
            departures,
            vlrt: i64::from(self.vlrt),
            drops: i64::from(self.drops),
            area_ns: response_ns + i128::from(shift) * i128::from(end) - i128::from(self.level),
            response_ns,
        }
    }
}
