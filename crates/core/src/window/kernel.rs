//! The hot loop: column slices in, sums out.
//!
//! Rows come roughly sorted by departure, so almost every row touches one or two cells near the current time. Those live
//! in a dense block of (window, group) that slides forward; a row that does not lie inside the block (a request of
//! minutes, an unsorted file, the edges of [begin, end)) takes the slow way and is right there too.
//!
//! Inside the block moments are relative to its origin, so the area of a cell with end e needs no product per row:
//! Σ(e − a) − Σ(e − d) = e·(arrivals − departures) − Σa + Σd.

use super::divide::Divisor;
use super::partial::{Cell, Cells, Sums};
use super::{Plan, MOMENT_MAX};
use crate::error::Result;

/// Column slices of equal length. `table[keys[i]]` is the group of row i.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows<'a> {
    pub keys: &'a [i32],
    pub table: &'a [u32],
    pub sent: &'a [i64],
    pub arrival: &'a [i64],
    pub departure: &'a [i64],
    pub drops: &'a [u8],
    /// Rows the reader had to leave out of the slices.
    pub left_out: u64,
}

/// Whether two moments can be a visit; what is not is counted and left out.
#[inline(always)]
pub(crate) fn is_visit(arrival: i64, departure: i64) -> bool {
    -MOMENT_MAX <= arrival && arrival <= departure && departure <= MOMENT_MAX
}

/// What one thread has found: cells sorted by (window, group).
#[derive(Debug)]
pub(crate) struct KernelSums {
    pub cells: Vec<Cell>,
    pub opening: Vec<i64>,
    pub rows: u64,
    pub left_out: u64,
}

/// One cell of the block.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    /// Visits that arrived and departed in the window, and their time: at once area and response.
    inside: u32,
    /// Visits that only arrived, only departed.
    arrivals: u32,
    departures: u32,
    vlrt: u32,
    drops: u32,
    inside_ns: i64,
    /// Σ departures − Σ arrivals of the visits that only did the one, relative to the origin.
    level: i64,
    /// Σ response times of the visits that only departed.
    response: i64,
}

/// Cells of a block: 3 MB, of which a sorted file touches a few lines at a time.
const BLOCK_CELLS: usize = 1 << 16;
/// A block is never longer than this, nor filled by more rows, so that no sum of differences in it leaves 63 bits.
const BLOCK_SPAN_MAX: i64 = 1 << 40;
const BLOCK_ROWS_MAX: usize = 1 << 22;
/// A block keeps this share of itself for arrivals before the departure it was placed for.
const HISTORY: i64 = 4;

pub(crate) struct Kernel {
    window_ns: i64,
    by_window: Divisor,
    vlrt_ns: i64,
    /// First window wanted, end of the last.
    begin: i64,
    end: i64,
    block: Vec<Tally>,
    /// Groups a window of the block has room for.
    stride: usize,
    origin: i64,
    span: u64,
    rows_in_block: usize,
    cells: Cells,
    opening: Vec<i64>,
    rows: u64,
    left_out: u64,
}

impl Kernel {
    pub fn new(plan: &Plan) -> Self {
        let (begin, end) = plan.bounds();
        Kernel {
            window_ns: plan.window_ns,
            by_window: Divisor::new(plan.window_ns),
            vlrt_ns: plan.vlrt_ns,
            begin,
            end,
            block: Vec::new(),
            stride: 0,
            origin: begin,
            span: 0,
            rows_in_block: 0,
            cells: Cells::default(),
            opening: Vec::new(),
            rows: 0,
            left_out: 0,
        }
    }

    pub fn add(&mut self, rows: &Rows) -> Result<()> {
        self.make_room(rows.table)?;
        self.rows += rows.arrival.len() as u64 + rows.left_out;
        self.left_out += rows.left_out;
        let mut from = 0;
        while from < rows.arrival.len() {
            if self.rows_in_block >= BLOCK_ROWS_MAX {
                self.flush()?;
            }
            let to = rows
                .arrival
                .len()
                .min(from + BLOCK_ROWS_MAX - self.rows_in_block);
            let stopped = self.sweep(rows, from, to);
            self.rows_in_block += stopped - from;
            from = stopped;
            if from < to {
                self.step_aside(rows, from)?;
                self.rows_in_block += 1;
                from += 1;
            }
        }
        Ok(())
    }

    /// Add rows `from..to` to the block, up to the first that does not lie in it; returns its index.
    fn sweep(&mut self, rows: &Rows, from: usize, to: usize) -> usize {
        let (origin, span, vlrt_ns) = (self.origin, self.span, self.vlrt_ns);
        let (stride, by_window) = (self.stride, self.by_window);
        let block = self.block.as_mut_slice();
        let table = rows.table;
        // The window of the last departure: its start, its length (0 = none yet), and its first cell.
        let (mut low, mut length, mut cells) = (0i64, 0u64, 0usize);
        let columns = rows.keys[from..to]
            .iter()
            .zip(&rows.arrival[from..to])
            .zip(&rows.departure[from..to])
            .zip(&rows.sent[from..to])
            .zip(&rows.drops[from..to]);
        for (i, ((((&key, &arrival), &departure), &sent), &drops)) in columns.enumerate() {
            if departure.wrapping_sub(low) as u64 >= length {
                let d = departure.wrapping_sub(origin) as u64;
                if d >= span {
                    return from + i;
                }
                let window = by_window.divide(d);
                low = origin + window as i64 * self.window_ns;
                (length, cells) = (self.window_ns as u64, window as usize * stride);
            }
            let group = table[key as usize] as usize;
            let mut arrived = cells + group;
            // One test for: arrival before this window, departure before arrival.
            if arrival.wrapping_sub(low) as u64 <= departure.wrapping_sub(low) as u64 {
                let cell = &mut block[arrived];
                cell.inside += 1;
                cell.inside_ns += departure - arrival;
            } else {
                let a = arrival.wrapping_sub(origin) as u64;
                let d = departure.wrapping_sub(origin) as u64;
                if a > d {
                    return from + i;
                }
                let cell = &mut block[arrived];
                cell.departures += 1;
                cell.level += d as i64;
                cell.response += (d - a) as i64;
                arrived = by_window.divide(a) as usize * stride + group;
                let cell = &mut block[arrived];
                cell.arrivals += 1;
                cell.level -= a as i64;
            }
            let late = departure.wrapping_sub(sent) >= vlrt_ns;
            if late | (drops > 0) {
                let cell = &mut block[arrived];
                cell.vlrt += u32::from(late);
                cell.drops += u32::from(drops);
            }
        }
        to
    }

    /// A row outside the block: move the block to it when that pays, else count it on its own.
    fn step_aside(&mut self, rows: &Rows, row: usize) -> Result<()> {
        let (arrival, departure) = (rows.arrival[row], rows.departure[row]);
        if !is_visit(arrival, departure) {
            self.left_out += 1;
            return Ok(());
        }
        if departure < self.begin || arrival >= self.end {
            return Ok(());
        }
        let in_block = departure.wrapping_sub(self.origin) as u64 <= self.span.wrapping_sub(1)
            && self.span > 0;
        // A move costs a pass over the block; a sixteenth of its cells in rows keeps that below the cost of the rows.
        if !in_block
            && departure < self.end
            && (self.span == 0 || self.rows_in_block >= self.block.len() / 16)
        {
            self.flush()?;
            self.place(departure);
        }
        let group = rows.table[rows.keys[row] as usize];
        let late = departure.wrapping_sub(rows.sent[row]) >= self.vlrt_ns;
        if arrival < self.begin {
            self.opening[group as usize] += 1;
        } else {
            let window = self.window_of(arrival);
            let area_ns = i128::from(window + self.window_ns - arrival);
            let (vlrt, drops) = (i64::from(late), i64::from(rows.drops[row]));
            let sums = Sums {
                arrivals: 1,
                vlrt,
                drops,
                area_ns,
                ..Sums::default()
            };
            self.cells.push(Cell {
                window,
                group,
                sums,
            })?;
        }
        if departure < self.end {
            let window = self.window_of(departure);
            let area_ns = -i128::from(window + self.window_ns - departure);
            let response_ns = i128::from(departure) - i128::from(arrival);
            let sums = Sums {
                departures: 1,
                area_ns,
                response_ns,
                ..Sums::default()
            };
            self.cells.push(Cell {
                window,
                group,
                sums,
            })?;
        }
        Ok(())
    }

    fn window_of(&self, moment: i64) -> i64 {
        moment - moment.rem_euclid(self.window_ns)
    }

    fn place(&mut self, departure: i64) {
        let windows = (self.block.len() / self.stride.max(1)) as i64;
        let length = (windows * self.window_ns).min(BLOCK_SPAN_MAX);
        let length = length - length % self.window_ns;
        self.origin = self.window_of(departure - length / HISTORY).max(self.begin);
        self.span = self.end.saturating_sub(self.origin).clamp(0, length) as u64;
    }

    /// Grow the block so that every group of the table has a place in each window.
    fn make_room(&mut self, table: &[u32]) -> Result<()> {
        let groups = table.iter().max().map_or(0, |&group| group as usize + 1);
        if self.opening.len() < groups {
            self.opening.resize(groups, 0);
        }
        if groups <= self.stride {
            return Ok(());
        }
        self.flush()?;
        self.stride = groups.next_multiple_of(4);
        self.block =
            vec![Tally::default(); BLOCK_CELLS.max(self.stride * 4) / self.stride * self.stride];
        self.span = 0;
        Ok(())
    }

    /// Hand the sums of the block on and empty it.
    fn flush(&mut self) -> Result<()> {
        self.rows_in_block = 0;
        if self.span == 0 {
            return Ok(());
        }
        let windows = (self.span / self.window_ns as u64) as usize;
        for (at, tallies) in self
            .block
            .chunks_exact_mut(self.stride)
            .take(windows)
            .enumerate()
        {
            let end = (at as i64 + 1) * self.window_ns;
            for (group, tally) in tallies.iter_mut().enumerate() {
                if tally.inside == 0 && tally.arrivals == 0 && tally.departures == 0 {
                    continue;
                }
                let t = std::mem::take(tally);
                let (inside, inside_ns) = (i64::from(t.inside), i128::from(t.inside_ns));
                let (arrivals, departures) = (i64::from(t.arrivals), i64::from(t.departures));
                let more = i128::from(arrivals - departures) * i128::from(end);
                let sums = Sums {
                    arrivals: arrivals + inside,
                    departures: departures + inside,
                    vlrt: i64::from(t.vlrt),
                    drops: i64::from(t.drops),
                    area_ns: more + i128::from(t.level) + inside_ns,
                    response_ns: i128::from(t.response) + inside_ns,
                };
                self.cells.push(Cell {
                    window: self.origin + end - self.window_ns,
                    group: group as u32,
                    sums,
                })?;
            }
        }
        Ok(())
    }

    pub fn finish(mut self) -> Result<KernelSums> {
        self.flush()?;
        Ok(KernelSums {
            cells: self.cells.sorted(),
            opening: self.opening,
            rows: self.rows,
            left_out: self.left_out,
        })
    }
}
