//! Visits from the columns of nginx's lines, and from those of all logs that have the same fields: a line is a visit of
//! the server, and has at most one call to a server behind it.
//!
//! ```text
//! begin = sent ─────────────────────────── stamp      stamp − duration = begin
//!     └ connect ┴──── took ────┘                      the call
//! ```
//! Whatever is unusual is left to the caller, and then nothing is added.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::RecordBatch;
use rustc_hash::FxHashMap;

use super::sheet::NONE;
use crate::error::Result;
use crate::stays::{Row, Store};

/// A number of the caller's is not known yet …
const UNASKED: u32 = u32::MAX;
/// … or lines that have it are unusual.
pub const UNUSUAL: u32 = u32::MAX - 1;
const SECOND: i64 = 1_000_000_000;
const MILLISECOND: i64 = 1_000_000;

/// What the numbers in a column mean to the caller.
#[derive(Debug, Default)]
struct Meanings(Vec<u32>);

impl Meanings {
    fn of(&self, number: i64) -> u32 {
        let known = usize::try_from(number).ok().and_then(|at| self.0.get(at));
        known.copied().unwrap_or(UNASKED)
    }

    fn set(&mut self, number: u32, meaning: u32) {
        let at = number as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, UNASKED);
        }
        self.0[at] = meaning;
    }
}

/// Columns whose numbers have a meaning: names of requests, servers behind, statuses, statuses of the servers behind,
/// and methods (1: it is one; 0: it is none).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Meant {
    Name,
    Address,
    Status,
    Answer,
    Method,
}

const MEANT: [(Meant, &str); 5] = [
    (Meant::Name, "asked"),
    (Meant::Address, "address"),
    (Meant::Status, "status"),
    (Meant::Answer, "address_status"),
    (Meant::Method, "method"),
];

/// Nanoseconds per unit of columns, and bounds in ns.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub stamp: i64,
    pub duration: i64,
    /// A line is stamped when its request has ended.
    pub at_end: bool,
    pub earliest: i64,
    pub latest: i64,
    /// Longer durations are unusual.
    pub longest: i64,
    /// Of a visit.
    pub longest_visit: i64,
}

/// What was added.
#[derive(Debug, Default)]
pub struct Taken {
    pub visits: u64,
    /// Lines without a duration.
    pub untimed: u64,
    /// Whether all stamps are whole seconds, or whole milliseconds.
    pub whole: bool,
    pub fine: bool,
    /// How many calls each server behind got.
    pub calls: Vec<(u32, u64)>,
}

pub enum Outcome {
    Taken(Taken),
    /// What the numbers in these columns mean is not known.
    Unknown(Vec<(&'static str, u32)>),
    Unusual,
}

pub struct Visits {
    /// The number of the server's own name.
    server: u32,
    times: Times,
    meanings: [Meanings; 5],
    /// Statuses after which a connection had no request.
    unasked: Vec<u32>,
}

/// A line that is usual.
struct Line {
    begin: i64,
    duration: i64,
    stamp: i64,
    took: i64,
    wait: i64,
    bytes_out: i64,
    interaction: u32,
    status: u32,
    address: u32,
    answer: u32,
}

impl Visits {
    pub fn new(times: Times) -> Visits {
        Visits {
            server: 0,
            times,
            meanings: Default::default(),
            unasked: Vec::new(),
        }
    }

    pub fn serve(&mut self, server: u32) {
        self.server = server;
    }

    pub fn without_request(&mut self, status: u32) {
        self.unasked.push(status);
    }

    /// A number in this column has this meaning from now on; false: there is no such column.
    pub fn mean(&mut self, column: &str, number: u32, meaning: u32) -> bool {
        let found = MEANT.iter().position(|&(_, name)| name == column);
        if let Some(at) = found {
            self.meanings[at].set(number, meaning);
        }
        found.is_some()
    }

    fn meaning(&self, meant: Meant, number: i64) -> u32 {
        self.meanings[meant as usize].of(number)
    }

    /// Adds the visits of rows of a table that [`super::Cutter`] made, with numbers from `number` on.
    pub fn take(
        &self,
        table: &RecordBatch,
        rows: std::ops::Range<usize>,
        number: i64,
        store: &mut Store,
    ) -> Result<Outcome> {
        let Some(columns) = Columns::of(table, &rows) else {
            return Ok(Outcome::Unusual);
        };
        let mut lines = Vec::with_capacity(columns.len);
        for at in 0..columns.len {
            if columns.duration.at(at) < 0 {
                continue;
            }
            match self.line(&columns, at) {
                Some(line) => lines.push(line),
                None => {
                    let unknown = self.unknown(&columns);
                    return Ok(match unknown.is_empty() {
                        true => Outcome::Unusual,
                        false => Outcome::Unknown(unknown),
                    });
                }
            }
        }
        let mut taken = Taken {
            untimed: (columns.len - lines.len()) as u64,
            whole: true,
            ..Taken::default()
        };
        let mut calls = FxHashMap::default();
        for line in &lines {
            let own = number + taken.visits as i64;
            store.add(self.visit(line, own))?;
            taken.visits += 1;
            if line.took >= 0 {
                store.add(self.call(line, own))?;
                taken.visits += 1;
                *calls.entry(line.address).or_insert(0) += 1;
            }
            taken.whole &= line.stamp % SECOND == 0;
            taken.fine |= line.stamp % MILLISECOND != 0;
        }
        taken.calls = calls.into_iter().collect();
        taken.calls.sort_unstable();
        Ok(Outcome::Taken(taken))
    }

    /// The numbers that have no meaning yet.
    fn unknown(&self, columns: &Columns<'_>) -> Vec<(&'static str, u32)> {
        let mut found = Vec::new();
        for (meant, name) in MEANT {
            let column = columns.meant(meant);
            for at in 0..columns.len {
                let number = column.at(at);
                if columns.duration.at(at) < 0
                    || (meant == Meant::Address && columns.took.at(at) < 0)
                    || (meant == Meant::Method && column.values.is_none())
                {
                    continue;
                }
                if self.meaning(meant, number) == UNASKED {
                    if let Ok(number) = u32::try_from(number) {
                        found.push((name, number));
                    }
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    fn line(&self, columns: &Columns<'_>, at: usize) -> Option<Line> {
        let times = &self.times;
        let duration = columns.duration.at(at).checked_mul(times.duration)?;
        let mut stamp = columns.stamp.at(at);
        stamp = if stamp < 0 {
            [columns.iso, columns.clock]
                .map(|one| one.at(at))
                .into_iter()
                .find(|&at| at >= 0)?
        } else {
            stamp.checked_mul(times.stamp)?
        };
        let begin = stamp.checked_sub(if times.at_end { duration } else { 0 })?;
        let end = begin.checked_add(duration)?;
        let (took, connect) = (columns.took.at(at), columns.connect.at(at));
        let within = begin >= times.earliest
            && end <= times.latest
            && duration <= times.longest_visit
            && took <= times.longest_visit
            && begin.saturating_add(took) <= times.latest;
        if !within
            || [duration, took, connect]
                .iter()
                .any(|&one| one >= times.longest)
        {
            return None;
        }
        let name = columns.name.at(at);
        let interaction = if name < 0 {
            0
        } else {
            self.meaning(Meant::Name, name)
        };
        let status = self.meaning(Meant::Status, columns.status.at(at));
        let asked = match columns.method.values {
            Some(_) => self.meaning(Meant::Method, columns.method.at(at)) == 1,
            None => name >= 0,
        };
        let address = if took >= 0 {
            self.meaning(Meant::Address, columns.address.at(at))
        } else {
            0
        };
        let answer = self.meaning(Meant::Answer, columns.answer.at(at));
        let usual = ![interaction, status, address, answer]
            .iter()
            .any(|&one| one >= UNUSUAL);
        (usual && (asked || !self.unasked.contains(&status))).then_some(Line {
            begin,
            duration,
            stamp,
            took,
            wait: connect.clamp(0, took.max(0)),
            bytes_out: columns.bytes.at(at),
            interaction,
            status,
            address,
            answer,
        })
    }

    fn visit(&self, line: &Line, number: i64) -> Row {
        Row {
            departure: line.begin + line.duration,
            number,
            sent: line.begin,
            arrival: line.begin,
            wait: 0,
            parent: NONE,
            request: number,
            bytes_out: line.bytes_out,
            downstream: if line.took > 0 { line.took } else { NONE },
            server: self.server,
            interaction: line.interaction,
            caller: 0,
            status: line.status,
            entry: true,
        }
    }

    /// The call of the visit with the number before its own.
    fn call(&self, line: &Line, above: i64) -> Row {
        Row {
            departure: line.begin + line.took,
            number: above + 1,
            sent: line.begin,
            arrival: line.begin,
            wait: line.wait,
            parent: above,
            request: above,
            bytes_out: NONE,
            downstream: NONE,
            server: line.address,
            interaction: line.interaction,
            caller: self.server,
            status: line.answer,
            entry: false,
        }
    }
}

/// A column, which a log may not have.
#[derive(Clone, Copy)]
struct Column<'t> {
    values: Option<&'t [i64]>,
    nothing: i64,
}

impl Column<'_> {
    #[inline]
    fn at(&self, row: usize) -> i64 {
        let value = self.values.and_then(|values| values.get(row));
        value.copied().unwrap_or(self.nothing)
    }
}

struct Columns<'t> {
    len: usize,
    stamp: Column<'t>,
    iso: Column<'t>,
    clock: Column<'t>,
    duration: Column<'t>,
    took: Column<'t>,
    connect: Column<'t>,
    bytes: Column<'t>,
    name: Column<'t>,
    address: Column<'t>,
    status: Column<'t>,
    answer: Column<'t>,
    method: Column<'t>,
}

impl<'t> Columns<'t> {
    /// None: the table has columns that mean more, or too few rows.
    fn of(table: &'t RecordBatch, rows: &std::ops::Range<usize>) -> Option<Columns<'t>> {
        if rows.start > rows.end
            || rows.end > table.num_rows()
            || table.column_by_name("day").is_some()
        {
            return None;
        }
        let column = |name: &str, nothing: i64| Column {
            values: table
                .column_by_name(name)
                .and_then(|column| column.as_primitive_opt::<Int64Type>())
                .and_then(|column| column.values().get(rows.clone())),
            nothing,
        };
        Some(Columns {
            len: rows.len(),
            stamp: column("stamp", NONE),
            iso: column("iso", NONE),
            clock: column("clock", NONE),
            duration: column("duration", NONE),
            took: column("took", NONE),
            connect: column("connect", NONE),
            bytes: column("bytes", NONE),
            name: column("asked", NONE),
            address: column("address", 0),
            status: column("status", NONE),
            answer: column("address_status", 0),
            method: column("method", 0),
        })
    }

    fn meant(&self, meant: Meant) -> Column<'t> {
        match meant {
            Meant::Name => self.name,
            Meant::Address => self.address,
            Meant::Status => self.status,
            Meant::Answer => self.answer,
            Meant::Method => self.method,
        }
    }
}

#[cfg(test)]
mod tests;
