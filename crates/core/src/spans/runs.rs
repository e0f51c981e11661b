//! Visits in the order in which they ended, from runs that are sorted: a block of each run is in memory at a time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, UInt32Array, UInt64Array};
use arrow_schema::ArrowError;

use super::store::{Fields, Spill};
use super::visits::Visit;
use crate::error::Result;

/// A table, or why it cannot be made.
type Made = std::result::Result<RecordBatch, ArrowError>;

/// The bytes of a visit in the file.
const BYTES: usize = 73;
/// Visits of a block: 3 MB, which caches of processors hold.
const BLOCK: usize = 1 << 15;
/// Visits of a run that are read at a time, at least.
const LEAST: usize = 16;

impl Visit {
    fn key(&self) -> (i64, i64) {
        (self.departure, self.number)
    }

    fn write(&self, into: &mut Vec<u8>) {
        let numbers = [
            self.departure,
            self.number,
            self.parent,
            self.top,
            self.sent,
            self.arrival,
            self.start,
        ];
        for number in numbers {
            into.extend(number.to_le_bytes());
        }
        for text in [self.server, self.interaction, self.caller, self.status] {
            into.extend(text.to_le_bytes());
        }
        into.push(self.entry);
    }

    fn read(bytes: &[u8]) -> Self {
        let mut fields = Fields(bytes);
        let (departure, number, parent) = (fields.i64(), fields.i64(), fields.i64());
        let (top, sent, arrival, start) = (fields.i64(), fields.i64(), fields.i64(), fields.i64());
        let (server, interaction) = (fields.u32(), fields.u32());
        let (caller, status, [entry]) = (fields.u32(), fields.u32(), fields.take());
        Visit {
            departure,
            number,
            parent,
            top,
            sent,
            arrival,
            start,
            server,
            interaction,
            caller,
            status,
            entry,
        }
    }
}

/// Runs in memory while their visits are few, and else in a file.
#[derive(Default)]
pub struct Runs {
    held: Vec<Vec<Visit>>,
    file: Option<Spill>,
    /// Where each run in the file begins, and how many visits it has.
    written: Vec<(u64, usize)>,
    pub count: usize,
}

impl Runs {
    /// Adds visits as a run; they are sorted here.
    pub fn add(&mut self, mut visits: Vec<Visit>) {
        if visits.is_empty() {
            return;
        }
        visits.sort_by_key(Visit::key);
        self.count += visits.len();
        self.held.push(visits);
    }

    /// Visits that are in memory.
    pub fn held(&self) -> usize {
        self.held.iter().map(Vec::len).sum()
    }

    /// Puts the runs in memory into a file, which is made at `path` the first time.
    pub fn spill(&mut self, path: &Path) -> Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(Spill::new(path)?),
        };
        let mut bytes = Vec::new();
        for run in self.held.drain(..) {
            self.written.push((file.length, run.len()));
            for block in run.chunks(BLOCK) {
                bytes.clear();
                block.iter().for_each(|visit| visit.write(&mut bytes));
                file.append(&bytes)?;
            }
        }
        Ok(())
    }
}

/// One reading of all visits, in order.
pub struct Reading {
    heads: Vec<Head>,
    /// The next visit of each run by its key: the run, and its place in what is in memory of it.
    next: BinaryHeap<Reverse<((i64, i64), usize)>>,
    /// Visits of a run that are read at a time.
    size: usize,
    block: usize,
}

/// A run, as far as it was read.
struct Head {
    /// The run in memory, or where the rest of it is in the file, and how many visits that has.
    held: Option<usize>,
    at: u64,
    left: usize,
    visits: Vec<Visit>,
    place: usize,
}

impl Reading {
    /// At most some `most` visits are in memory at a time, besides those of the runs that are.
    pub fn of(runs: &Runs, most: usize) -> Result<Self> {
        let written = runs.written.iter().map(|&(at, left)| (None, at, left));
        let held = runs.held.iter().enumerate();
        let held = held.map(|(run, visits)| (Some(run), 0, visits.len()));
        let heads: Vec<Head> = written
            .chain(held)
            .map(|(held, at, left)| Head {
                held,
                at,
                left,
                visits: Vec::new(),
                place: 0,
            })
            .collect();
        let mut reading = Reading {
            size: (most / heads.len().max(1)).clamp(LEAST, BLOCK),
            block: most.clamp(1, BLOCK),
            next: BinaryHeap::with_capacity(heads.len()),
            heads,
        };
        for run in 0..reading.heads.len() {
            reading.push(runs, run)?;
        }
        Ok(reading)
    }

    fn push(&mut self, runs: &Runs, run: usize) -> Result<()> {
        let size = self.size;
        let head = &mut self.heads[run];
        let key = head.peek(runs, size)?.map(Visit::key);
        self.next.extend(key.map(|key| Reverse((key, run))));
        Ok(())
    }

    /// The next block of visits; none at the end.
    pub fn next(&mut self, runs: &Runs) -> Result<Vec<Visit>> {
        let mut block = Vec::with_capacity(self.block);
        while block.len() < self.block {
            let Some(Reverse((_, run))) = self.next.pop() else {
                break;
            };
            // What comes before the next visit of any other run.
            let until = self.next.peek().map(|Reverse((key, _))| *key);
            let head = &mut self.heads[run];
            let mut is_first = true;
            while let Some(visit) = head.peek(runs, self.size)? {
                let is_next = until.is_none_or(|until| visit.key() < until);
                if !is_first && (!is_next || block.len() == self.block) {
                    break;
                }
                block.push(*visit);
                head.place += 1;
                is_first = false;
            }
            self.push(runs, run)?;
        }
        Ok(block)
    }
}

/// The columns of the table of visits that are in the rows; of `entry`, at least this makes a visit a request. Texts
/// are numbers.
pub fn visits(block: &[Visit], least_entry: u8) -> Made {
    let known = |of: fn(&Visit) -> i64| -> ArrayRef {
        let each = block.iter().map(of);
        let known = each.map(|number| u64::try_from(number).ok());
        Arc::new(UInt64Array::from_iter(known))
    };
    let starts = block.iter().map(|visit| visit.start);
    let starts: ArrayRef = Arc::new(Int64Array::from_iter(
        starts.map(|start| (start >= 0).then_some(start)),
    ));
    let entered = |visit: &Visit| visit.entry >= least_entry;
    let requests = block.iter().map(|visit| {
        let top = Some(visit.top).filter(|_| entered(visit));
        top.and_then(|top| u64::try_from(top).ok())
    });
    table([
        ("visit", numbers(block, |visit| visit.number)),
        ("server", codes(block, |visit| visit.server)),
        ("interaction", codes(block, |visit| visit.interaction)),
        ("caller", codes(block, |visit| visit.caller)),
        ("status", codes(block, |visit| visit.status)),
        ("sent", times(block, |visit| visit.sent)),
        ("arrival", times(block, |visit| visit.arrival)),
        ("start", starts),
        ("departure", times(block, |visit| visit.departure)),
        ("parent", known(|visit| visit.parent)),
        ("request", Arc::new(UInt64Array::from_iter(requests))),
    ])
}

/// The same of the table of requests, and how long each was on its way (ns).
pub fn requests(block: &[Visit], least_entry: u8) -> Made {
    let is_request = |visit: &&Visit| visit.number == visit.top && visit.entry >= least_entry;
    let block: Vec<Visit> = block.iter().filter(is_request).copied().collect();
    let block = &block[..];
    table([
        ("request", numbers(block, |visit| visit.number)),
        ("server", codes(block, |visit| visit.server)),
        ("interaction", codes(block, |visit| visit.interaction)),
        ("status", codes(block, |visit| visit.status)),
        ("sent", times(block, |visit| visit.sent)),
        ("end", times(block, |visit| visit.departure)),
        ("wait", times(block, |visit| visit.arrival - visit.sent)),
    ])
}

fn table<const N: usize>(columns: [(&str, ArrayRef); N]) -> Made {
    let nullable = |name: &str| matches!(name, "start" | "parent" | "request");
    let columns = columns.map(|(name, column)| (name, column, nullable(name)));
    RecordBatch::try_from_iter_with_nullable(columns)
}

/// Numbers of spans, which count from 0.
fn numbers(block: &[Visit], of: fn(&Visit) -> i64) -> ArrayRef {
    let each = block.iter().map(of);
    Arc::new(UInt64Array::from_iter_values(
        each.map(|number| u64::try_from(number).unwrap_or(0)),
    ))
}

fn times(block: &[Visit], of: fn(&Visit) -> i64) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(block.iter().map(of)))
}

fn codes(block: &[Visit], of: fn(&Visit) -> u32) -> ArrayRef {
    Arc::new(UInt32Array::from_iter_values(block.iter().map(of)))
}

impl Head {
    /// The next visit of the run.
    fn peek<'a>(&'a mut self, runs: &'a Runs, size: usize) -> Result<Option<&'a Visit>> {
        if let Some(run) = self.held {
            return Ok(runs.held.get(run).and_then(|run| run.get(self.place)));
        }
        if self.place == self.visits.len() && self.left > 0 {
            let count = self.left.min(size);
            let mut bytes = Vec::new();
            if let Some(file) = &runs.file {
                file.read(self.at, count * BYTES, &mut bytes)?;
            }
            self.visits.clear();
            self.visits
                .extend(bytes.chunks_exact(BYTES).map(Visit::read));
            self.at += (count * BYTES) as u64;
            self.left -= count;
            self.place = 0;
        }
        Ok(self.visits.get(self.place))
    }
}
