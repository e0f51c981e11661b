//! Column slices in, sums out.
//!
//! Almost every row lies in the [`Block`] near the current time. Other rows (a request of minutes,
//! an unsorted file, the edges of [begin, end)) take a slower path with the same result.

use super::block::Block;
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
    /// Rows that the reader left out of the slices.
    pub left_out: u64,
}

impl<'a> Rows<'a> {
    pub fn slice(&self, from: usize, to: usize) -> Rows<'a> {
        Rows {
            keys: &self.keys[from..to],
            sent: &self.sent[from..to],
            arrival: &self.arrival[from..to],
            departure: &self.departure[from..to],
            drops: &self.drops[from..to],
            ..*self
        }
    }
}

/// Whether two moments can be a visit; others are counted and left out.
#[inline(always)]
pub(crate) fn is_visit(arrival: i64, departure: i64) -> bool {
    -MOMENT_MAX <= arrival && arrival <= departure && departure <= MOMENT_MAX
}

/// The sums of one thread: cells sorted by (window, group).
#[derive(Debug)]
pub(crate) struct KernelSums {
    pub cells: Vec<Cell>,
    pub opening: Vec<i64>,
    pub rows: u64,
    pub left_out: u64,
}

pub(crate) struct Kernel {
    window_ns: i64,
    vlrt_ns: i64,
    /// First window wanted, end of the last.
    begin: i64,
    end: i64,
    block: Block,
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
            vlrt_ns: plan.vlrt_ns,
            begin,
            end,
            block: Block::new(plan.window_ns, plan.vlrt_ns),
            cells: Cells::default(),
            opening: Vec::new(),
            rows: 0,
            left_out: 0,
        }
    }

    pub fn add(&mut self, rows: &Rows) -> Result<()> {
        let groups = rows
            .table
            .iter()
            .max()
            .map_or(0, |&group| group as usize + 1);
        if self.opening.len() < groups {
            self.opening.resize(groups, 0);
        }
        if !self.block.has_room_for(groups) {
            self.flush()?;
            self.block.make_room_for(groups);
        }
        self.rows += rows.arrival.len() as u64 + rows.left_out;
        self.left_out += rows.left_out;
        let mut from = 0;
        while from < rows.arrival.len() {
            if self.block.rows_left() == 0 {
                self.flush()?;
            }
            let to = rows.arrival.len().min(from + self.block.rows_left());
            from += self.block.sweep(&rows.slice(from, to));
            if from < to && !self.follow(rows.arrival[from], rows.departure[from])? {
                self.step_aside(rows, from)?;
                self.block.miss();
                from += 1;
            }
        }
        Ok(())
    }

    /// Move the block to a row outside of it, if that pays.
    fn follow(&mut self, arrival: i64, departure: i64) -> Result<bool> {
        let wanted =
            is_visit(arrival, departure) && self.begin <= departure && departure < self.end;
        let moves = wanted && self.block.should_move_to(departure);
        if moves {
            self.flush()?;
            self.block.place(departure, self.begin, self.end);
        }
        Ok(moves)
    }

    /// Count a row outside of the block.
    fn step_aside(&mut self, rows: &Rows, row: usize) -> Result<()> {
        let (arrival, departure) = (rows.arrival[row], rows.departure[row]);
        if !is_visit(arrival, departure) {
            self.left_out += 1;
            return Ok(());
        }
        if departure < self.begin || arrival >= self.end {
            return Ok(());
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

    /// Pass on the sums of the block and clear it.
    fn flush(&mut self) -> Result<()> {
        self.cells.push_run(self.block.drain())
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
