//! All spans, before they are linked: in memory while they are few, and else in a file, by their traces.
//!
//! ```text
//! spans of all files ─ few: one part
//!                    └ else by 8 bits of the key of their trace ─┐
//! the file   │ part 0 │ part 1 │ … part 255 ││ part 0 │ part 1 │ …   so many at a time as fit into memory
//! ```
//! All spans of a trace are in the same part, in the order of the files. No trace knows of another, so linking part by
//! part gives what linking all at once gives.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, UInt32Type, UInt64Type, UInt8Type};
use arrow_array::{Array, ArrowPrimitiveType, PrimitiveArray, RecordBatch};

use crate::error::{Error, Result};

/// A part for each value of eight bits.
const PARTS: usize = 1 << 8;
/// The columns that are numbers of texts.
pub const NAMED: [&str; 5] = ["service", "label", "outcome", "peer", "host"];

/// A span. What is a text is a number here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The key of its trace, and those by which spans name each other.
    pub trace: u64,
    pub key: u64,
    pub parent: Option<u64>,
    pub begin: i64,
    pub end: i64,
    /// Its place among all spans.
    pub number: i64,
    pub service: u32,
    pub interaction: u32,
    pub status: u32,
    pub peer: u32,
    pub host: u32,
    pub kind: u8,
    pub marks: u8,
}

/// The bytes of a span in the file.
const BYTES: usize = 71;

impl Span {
    fn write(&self, into: &mut Vec<u8>) {
        for key in [self.trace, self.key, self.parent.unwrap_or(0)] {
            into.extend(key.to_le_bytes());
        }
        for number in [self.begin, self.end, self.number] {
            into.extend(number.to_le_bytes());
        }
        let texts = [
            self.service,
            self.interaction,
            self.status,
            self.peer,
            self.host,
        ];
        for text in texts {
            into.extend(text.to_le_bytes());
        }
        into.extend([self.kind, self.marks, u8::from(self.parent.is_some())]);
    }

    fn read(bytes: &[u8]) -> Self {
        let mut fields = Fields(bytes);
        let (trace, key, parent) = (fields.u64(), fields.u64(), fields.u64());
        let (begin, end, number) = (fields.i64(), fields.i64(), fields.i64());
        let (service, interaction, status) = (fields.u32(), fields.u32(), fields.u32());
        let (peer, host) = (fields.u32(), fields.u32());
        let [kind, marks, has_parent] = fields.take();
        Span {
            trace,
            key,
            parent: (has_parent != 0).then_some(parent),
            begin,
            end,
            number,
            service,
            interaction,
            status,
            peer,
            host,
            kind,
            marks,
        }
    }
}

/// Numbers that were written one after the other. There are as many as are read.
pub struct Fields<'b>(pub &'b [u8]);

impl Fields<'_> {
    pub fn take<const N: usize>(&mut self) -> [u8; N] {
        let Some((taken, rest)) = self.0.split_first_chunk() else {
            return [0; N];
        };
        self.0 = rest;
        *taken
    }

    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    pub fn i64(&mut self) -> i64 {
        i64::from_le_bytes(self.take())
    }

    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }
}

/// A file that is written at its end and read anywhere.
pub struct Spill {
    path: PathBuf,
    file: File,
    pub length: u64,
}

impl Spill {
    pub fn new(path: &Path) -> Result<Self> {
        let mut options = File::options();
        let file = options.read(true).write(true).create_new(true).open(path);
        Ok(Spill {
            path: path.to_owned(),
            file: file.map_err(|source| io(path, source))?,
            length: 0,
        })
    }

    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let end = SeekFrom::Start(self.length);
        let written = self.file.seek(end).and_then(|_| self.file.write_all(bytes));
        written.map_err(|source| io(&self.path, source))?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Adds so many bytes from here on to `into`.
    pub fn read(&self, at: u64, length: usize, into: &mut Vec<u8>) -> Result<()> {
        let mut file = &self.file;
        let before = into.len();
        into.resize(before + length, 0);
        let read = file
            .seek(SeekFrom::Start(at))
            .and_then(|_| file.read_exact(&mut into[before..]));
        read.map_err(|source| io(&self.path, source))
    }
}

impl Drop for Spill {
    fn drop(&mut self) {
        // What cannot be removed here goes with the folder that it is in.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn io(path: &Path, source: std::io::Error) -> Error {
    Error::Io {
        path: path.to_owned(),
        source,
    }
}

/// What was added: spans that end before they begin, which are left out; and of the others the smallest and the largest
/// share of traces that a sampler kept.
#[derive(Debug, Default, PartialEq)]
pub struct Added {
    pub backwards: u64,
    pub kept: Option<(f64, f64)>,
}

pub struct Store {
    /// The bits that the part of a trace is, from this one on.
    shift: u32,
    held: Vec<Span>,
    count: i64,
    /// The hosts of all spans, while there is one.
    host: Option<u32>,
    many_hosts: bool,
    file: Option<Spill>,
    /// Where each part begins in what was written at a time.
    written: Vec<(u64, Box<[u32]>)>,
    /// The least and the largest trace of each part.
    traces: Vec<(u64, u64)>,
}

impl Store {
    pub fn new(shift: u32) -> Self {
        Store {
            shift,
            held: Vec::new(),
            count: 0,
            host: None,
            many_hosts: false,
            file: None,
            written: Vec::new(),
            traces: vec![(u64::MAX, 0); PARTS],
        }
    }

    /// Spans that are in memory.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Whether the clocks of several hosts gave the times.
    pub fn has_many_hosts(&self) -> bool {
        self.many_hosts
    }

    /// Adds what was cut out of a block (`sheet`). `codes` are the numbers that its texts have here, for each column of
    /// `NAMED`; those of a column without any stay what they are.
    pub fn add(&mut self, rows: &RecordBatch, codes: &[Vec<u32>]) -> Result<Added> {
        let texts = |at: usize| -> Result<(&PrimitiveArray<UInt32Type>, &[u32])> {
            let codes = codes.get(at).map_or(&[][..], Vec::as_slice);
            Ok((column(rows, NAMED[at])?, codes))
        };
        let columns: [&PrimitiveArray<UInt64Type>; 2] =
            [column(rows, "trace")?, column(rows, "key")?];
        let parent: &PrimitiveArray<UInt64Type> = column(rows, "parent")?;
        let times: [&PrimitiveArray<Int64Type>; 2] = [column(rows, "begin")?, column(rows, "end")?];
        let small: [&PrimitiveArray<UInt8Type>; 2] =
            [column(rows, "kind")?, column(rows, "marks")?];
        let named = [texts(0)?, texts(1)?, texts(2)?, texts(3)?, texts(4)?];
        let kept: &PrimitiveArray<Float64Type> = column(rows, "kept")?;
        let mut added = Added::default();
        self.held.reserve(rows.num_rows());
        for row in 0..rows.num_rows() {
            let [begin, end] = times.map(|column| column.value(row));
            if end < begin {
                added.backwards += 1;
                continue;
            }
            let [trace, key] = columns.map(|column| column.value(row));
            let [kind, marks] = small.map(|column| column.value(row));
            let [service, interaction, status, peer, host] = named.map(|(column, codes)| {
                let number = column.value(row);
                codes.get(number as usize).copied().unwrap_or(number)
            });
            self.held.push(Span {
                trace,
                key,
                parent: parent.is_valid(row).then(|| parent.value(row)),
                begin,
                end,
                number: self.count,
                service,
                interaction,
                status,
                peer,
                host,
                kind,
                marks,
            });
            self.count += 1;
            let clock = if host == 0 { service } else { host };
            self.many_hosts |= *self.host.get_or_insert(clock) != clock;
            if kept.is_valid(row) {
                let share = kept.value(row);
                let (least, most) = added.kept.unwrap_or((share, share));
                added.kept = Some((least.min(share), most.max(share)));
            }
        }
        Ok(added)
    }

    /// Adds spans that have their numbers.
    pub fn add_spans(&mut self, spans: &[Span]) {
        self.held.extend_from_slice(spans);
    }

    /// Puts what is in memory into a file, part by part; the first time it is made at `path`.
    pub fn distribute(&mut self, path: &Path) -> Result<()> {
        let part_of = |span: &Span| (span.trace >> self.shift) as usize % PARTS;
        let mut counts = vec![0_u32; PARTS + 1];
        for span in &self.held {
            let part = part_of(span);
            counts[part + 1] += 1;
            let (least, most) = &mut self.traces[part];
            (*least, *most) = ((*least).min(span.trace), (*most).max(span.trace));
        }
        for part in 0..PARTS {
            counts[part + 1] += counts[part];
        }
        let bounds = counts.clone().into_boxed_slice();
        let mut order = vec![0_u32; self.held.len()];
        for (row, span) in (0..).zip(&self.held) {
            let next = &mut counts[part_of(span)];
            order[*next as usize] = row;
            *next += 1;
        }
        let mut bytes = Vec::with_capacity(self.held.len() * BYTES);
        for row in order {
            self.held[row as usize].write(&mut bytes);
        }
        self.held = Vec::new();
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(Spill::new(path)?),
        };
        self.written.push((file.length, bounds));
        file.append(&bytes)
    }

    /// How many spans each part in the file has, and whether they are of one trace.
    pub fn parts(&self) -> Vec<(u64, bool)> {
        let count = |part: usize| {
            let written = self.written.iter();
            written
                .map(|(_, bounds)| u64::from(bounds[part + 1] - bounds[part]))
                .sum()
        };
        let traces = self.traces.iter().enumerate();
        traces
            .map(|(part, (least, most))| (count(part), least >= most))
            .collect()
    }

    /// Takes all spans that are in memory.
    pub fn take(&mut self) -> Vec<Span> {
        std::mem::take(&mut self.held)
    }

    /// Adds at most `most` spans of a part in the file to `into`, from its span `first` on.
    pub fn read(&self, part: usize, first: usize, most: usize, into: &mut Vec<Span>) -> Result<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let (mut skipped, mut left) = (first, most);
        let mut bytes = Vec::new();
        for (at, bounds) in &self.written {
            let Some(&[begin, end]) = bounds.get(part..part + 2) else {
                continue;
            };
            let (begin, end) = (begin as usize, end as usize);
            let from = end.min(begin + skipped);
            skipped -= from - begin;
            let rows = left.min(end - from);
            left -= rows;
            if rows > 0 {
                bytes.clear();
                file.read(at + (from * BYTES) as u64, rows * BYTES, &mut bytes)?;
                into.extend(bytes.chunks_exact(BYTES).map(Span::read));
            }
        }
        Ok(())
    }
}

fn column<'r, T: ArrowPrimitiveType>(
    rows: &'r RecordBatch,
    name: &str,
) -> Result<&'r PrimitiveArray<T>> {
    let column = rows.column_by_name(name);
    let column = column.and_then(|column| column.as_primitive_opt::<T>());
    column.ok_or_else(|| Error::Options(format!("the spans lack a column {name}")))
}
