//! Visits from the columns of nginx's lines, and from those of all logs that have the same fields: a line is a visit of
//! the server, and has at most one call to a server behind it.
//!
//! ```text
//! begin = sent ─────────────────────────── stamp      stamp − duration = begin
//!     └ connect ┴──── took ────┘                      the call
//! ```
//! Where an address names the call, the call takes no longer than its request, and ends as the request did, or as flags of
//! the line say (Envoy).
//!
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
/// methods (1: it is one; 0: it is none), and what became of a call without a response (0: nothing is said).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Meant {
    Name,
    Address,
    Status,
    Answer,
    Method,
    Ended,
}

/// Their names, and the number of lines of a log without such a column.
const MEANT: [(Meant, &str, i64); 6] = [
    (Meant::Name, "asked", NONE),
    (Meant::Address, "address", 0),
    (Meant::Status, "status", NONE),
    (Meant::Answer, "address_status", 0),
    (Meant::Method, "method", 0),
    (Meant::Ended, "flags", 0),
];

/// Nanoseconds per unit of columns, and bounds in ns.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub stamp: i64,
    pub duration: i64,
    /// Durations have so many units more than those; a remainder is unusual.
    pub parts: i64,
    /// A line is stamped when its request has ended.
    pub at_end: bool,
    /// Calls are named by addresses (0: there is none), and this is the unit of their times; None: calls are those with
    /// a time, in ns.
    pub named: Option<i64>,
    /// Stamps are of a local clock, so the caller wants to see the ends in their order.
    pub local: bool,
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
    /// How many lines have each text of flags.
    pub flags: Vec<(u32, u64)>,
    /// Of a local clock, the ends of the requests and the numbers of their visits, in the order of the lines.
    pub ends: Vec<(i64, i64)>,
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
    meanings: [Meanings; MEANT.len()],
    /// Statuses after which a connection had no request.
    unasked: Vec<u32>,
    /// Columns that usual lines have.
    needed: Vec<String>,
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
    flags: i64,
}

impl Visits {
    pub fn new(times: Times, needed: Vec<String>) -> Visits {
        Visits {
            server: 0,
            times,
            needed,
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
        let found = MEANT.iter().position(|&(_, name, _)| name == column);
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
        let mut needed = self
            .needed
            .iter()
            .map(|name| Column::of(table, &rows, name, NONE));
        if needed.any(|column| (0..columns.len).any(|at| column.at(at) < 0)) {
            return Ok(Outcome::Unusual);
        }
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
        let (mut calls, mut flags) = (FxHashMap::default(), FxHashMap::default());
        for line in &lines {
            let own = number + taken.visits as i64;
            if self.times.local {
                taken.ends.push((line.begin + line.duration, own));
            }
            store.add(self.visit(line, own))?;
            taken.visits += 1;
            if line.took >= 0 {
                store.add(self.call(line, own))?;
                taken.visits += 1;
                *calls.entry(line.address).or_insert(0) += 1;
            }
            if let Ok(number @ 1..) = u32::try_from(line.flags) {
                *flags.entry(number).or_insert(0) += 1;
            }
            taken.whole &= line.stamp % SECOND == 0;
            taken.fine |= line.stamp % MILLISECOND != 0;
        }
        taken.calls = sorted(calls);
        taken.flags = sorted(flags);
        Ok(Outcome::Taken(taken))
    }

    /// The numbers that have no meaning yet.
    fn unknown(&self, columns: &Columns<'_>) -> Vec<(&'static str, u32)> {
        let mut found = Vec::new();
        for (meant, name, _) in MEANT {
            let column = columns.meant(meant);
            for at in 0..columns.len {
                let number = column.at(at);
                if columns.duration.at(at) < 0
                    || (meant == Meant::Address
                        && self.times.named.is_none()
                        && columns.took.at(at) < 0)
                    || (matches!(meant, Meant::Method | Meant::Ended) && column.values.is_none())
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
        let duration = columns.duration.at(at);
        if duration % times.parts != 0 {
            return None;
        }
        let duration = (duration / times.parts).checked_mul(times.duration)?;
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
        let [name, _, status, _, method, flags] = columns.meant.map(|column| column.at(at));
        let interaction = if name < 0 {
            0
        } else {
            self.meaning(Meant::Name, name)
        };
        let method = match columns.meant(Meant::Method).values {
            Some(_) => self.meaning(Meant::Method, method),
            None => u32::from(name >= 0),
        };
        let ended = self.ended(columns, flags);
        let status = match self.meaning(Meant::Status, status) {
            _ if status == 0 && ended > 0 => ended,
            status => status,
        };
        let (address, took, answer) = self.called(columns, at, duration)?;
        let answer = match self.times.named {
            Some(_) if ended > 0 => ended,
            Some(_) => status,
            None => answer,
        };
        let usual = ![interaction, status, address, answer, method, ended]
            .iter()
            .any(|&one| one >= UNUSUAL);
        (usual && (method == 1 || !self.unasked.contains(&status))).then_some(Line {
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
            flags,
        })
    }

    /// What flags say became of a call; 0: nothing, or the log has none.
    fn ended(&self, columns: &Columns<'_>, flags: i64) -> u32 {
        match columns.meant(Meant::Ended).values {
            Some(_) => self.meaning(Meant::Ended, flags),
            None => 0,
        }
    }

    /// The server that a line calls, the time of the call (none: it calls nobody), and the status of the answer.
    fn called(&self, columns: &Columns<'_>, at: usize, duration: i64) -> Option<(u32, i64, u32)> {
        let took = columns.took.at(at);
        let address = columns.meant(Meant::Address).at(at);
        let answer = self.meaning(Meant::Answer, columns.meant(Meant::Answer).at(at));
        let Some(unit) = self.times.named else {
            let address = match took {
                0.. => self.meaning(Meant::Address, address),
                _ => 0,
            };
            return Some((address, took, answer));
        };
        let took = match took {
            0.. => took.checked_mul(unit)?.min(duration),
            _ => duration,
        };
        let address = self.meaning(Meant::Address, address);
        Some((address, if address == 0 { NONE } else { took }, 0))
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

fn sorted(counts: FxHashMap<u32, u64>) -> Vec<(u32, u64)> {
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_unstable();
    counts
}

/// A column, which a log may not have.
#[derive(Clone, Copy)]
struct Column<'t> {
    values: Option<&'t [i64]>,
    nothing: i64,
}

impl<'t> Column<'t> {
    fn of(
        table: &'t RecordBatch,
        rows: &std::ops::Range<usize>,
        name: &str,
        nothing: i64,
    ) -> Column<'t> {
        let column = table.column_by_name(name);
        Column {
            values: column
                .and_then(|column| column.as_primitive_opt::<Int64Type>())
                .and_then(|column| column.values().get(rows.clone())),
            nothing,
        }
    }

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
    /// Those of [`MEANT`], in its order.
    meant: [Column<'t>; MEANT.len()],
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
        let column = |name: &str| Column::of(table, rows, name, NONE);
        Some(Columns {
            len: rows.len(),
            stamp: column("stamp"),
            iso: column("iso"),
            clock: column("clock"),
            duration: column("duration"),
            took: column("took"),
            connect: column("connect"),
            bytes: column("bytes"),
            meant: MEANT.map(|(_, name, nothing)| Column::of(table, rows, name, nothing)),
        })
    }

    fn meant(&self, meant: Meant) -> Column<'t> {
        self.meant[meant as usize]
    }
}

#[cfg(test)]
mod tests;
