//! Spans of traces, cut out of files of others as columns, in blocks and bounded memory.
//!
//! ```text
//! blocks ─ elements, one after the other (this file) ─ otlp | jaeger | zipkin ─┐
//!        ─ messages with their length before them (frames) ─ protobuf | otlp ──┴─ sheet: a row for each span
//! rows of all files ─ store: in parts, a file of them if they are many
//! a part ─ linked, links: the span above each, the server around it ─ visits ─ runs: in the order in which they ended
//! ```
//!
//! A damaged element gives no rows and is counted, and reading goes on where the next one seems to begin.

mod attributes;
mod frames;
mod jaeger;
pub mod linked;
mod links;
mod otlp;
mod protobuf;
pub mod runs;
mod sheet;
pub mod store;
pub mod visits;
mod zipkin;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use regex::bytes::Regex;

use crate::bounds::{JSON_DAMAGED, JSON_ELEMENT, JSON_IN_VAIN};
use crate::json::{Fault, Parser, Scalar};
use attributes::Known;
pub use attributes::Plan;
use frames::Frames;
use sheet::Sheet;
pub use sheet::Trace;

const US: i64 = 1_000;
const BEGIN: &str = r"(?-u)\A(?:\s|\xEF\xBB\xBF)*";

/// Where a trace of Jaeger, or a span of Zipkin, may begin after a damaged one.
const JAEGER: &str = r#"(?-u)\{\s*"traceID"\s*:\s*"[^"]*"\s*,\s*"spans""#;
const ZIPKIN: &str = r#"(?-u)\{\s*"(?:traceId|id|parentId)"\s*:"#;

/// What a file contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Otlp,
    Jaeger,
    Zipkin,
    /// A list of traces of Jaeger, without what its API writes around it.
    JaegerList,
    /// A span of Zipkin in each line.
    ZipkinLines,
    /// Messages of OTLP, each with its length before it.
    Frames,
    /// One message of OTLP as protobuf.
    Message,
}

impl Form {
    pub fn of(name: &str) -> Option<Self> {
        Some(match name {
            "otlp" => Form::Otlp,
            "jaeger" => Form::Jaeger,
            "zipkin" => Form::Zipkin,
            "jaeger list" => Form::JaegerList,
            "zipkin lines" => Form::ZipkinLines,
            "frames" => Form::Frames,
            "message" => Form::Message,
            _ => return None,
        })
    }
}

/// What was found in a block.
pub struct Cut {
    pub rows: RecordBatch,
    /// What the numbers in the columns mean.
    pub texts: Vec<String>,
    /// Spans without an id, a time or a service.
    pub without: u32,
    pub damaged: u32,
    /// Why reading ended before the end of the file.
    pub stopped: Option<String>,
    /// There is more in what was given, and it is read with the next block, which may be empty.
    pub more: bool,
}

pub struct Cutter {
    known: Known,
    reader: Reader,
    /// What was given and is not read yet.
    buffer: Vec<u8>,
    stopped: bool,
}

enum Reader {
    Elements(Elements),
    Frames(Frames),
}

impl Cutter {
    /// `size` is that of the file, which may be packed. The sentence says why the plan cannot be followed.
    pub fn new(form: Form, plan: &Plan, size: u64) -> Result<Self, String> {
        let known = Known::of(plan).ok_or("the plan has too many keys")?;
        let reader = match form {
            Form::Frames | Form::Message => Reader::Frames(Frames::new(form == Form::Frames, size)),
            _ => Reader::Elements(Elements::new(form).map_err(|error| error.to_string())?),
        };
        Ok(Cutter {
            known,
            reader,
            buffer: Vec::new(),
            stopped: false,
        })
    }

    /// The spans of the next block of the file; `last` after the last one.
    pub fn feed(&mut self, block: &[u8], last: bool) -> Result<Cut, ArrowError> {
        let mut sheet = Sheet::default();
        let mut found = Ending::default();
        if !self.stopped {
            self.read(block, last, &mut sheet, &mut found);
            self.stopped = found.stopped.is_some();
        }
        let without = sheet.without;
        let (rows, texts) = sheet.finish()?;
        Ok(Cut {
            rows,
            texts,
            without,
            damaged: found.damaged,
            stopped: found.stopped,
            more: found.more,
        })
    }
}

impl Cutter {
    fn read(&mut self, block: &[u8], last: bool, sheet: &mut Sheet, found: &mut Ending) {
        let (known, buffer) = (&self.known, &mut self.buffer);
        let frames = match &mut self.reader {
            Reader::Frames(frames) if frames.framed => frames,
            Reader::Frames(frames) => {
                buffer.extend_from_slice(block);
                let read = frames.consume(buffer, last, known, sheet, found);
                buffer.drain(..read);
                return;
            }
            Reader::Elements(elements) => {
                buffer.extend_from_slice(block);
                let read = elements.consume(buffer, last, known, sheet, found);
                buffer.drain(..read);
                return;
            }
        };
        // A message that lies in two blocks is put together. The others are read where they are.
        let mut rest = block;
        while !buffer.is_empty() {
            let lacks = frames.missing(buffer).min(rest.len());
            let (more, further) = rest.split_at(lacks);
            buffer.extend_from_slice(more);
            rest = further;
            if frames.missing(buffer) > 0 && !rest.is_empty() {
                continue;
            }
            let read = frames.consume(buffer, last && rest.is_empty(), known, sheet, found);
            buffer.drain(..read);
            if found.more || found.stopped.is_some() || rest.is_empty() {
                buffer.extend_from_slice(rest);
                return;
            }
        }
        let read = frames.consume(rest, last, known, sheet, found);
        buffer.extend_from_slice(&rest[read..]);
    }
}

/// How the reading of a block ended.
#[derive(Default)]
struct Ending {
    damaged: u32,
    stopped: Option<String>,
    more: bool,
}

/// The elements of a JSON file. `opening` matches what stands before the first element of a list; without it, the file is a
/// sequence of values. `resume` matches where an element may begin after a damaged one.
struct Elements {
    form: Form,
    opening: Option<Regex>,
    resume: Regex,
    moved: Regex,
    inside: bool,
    seek: Option<Seek>,
    damaged: u32,
    /// Bytes of the file that are done with, and bytes of damaged elements: those inside each other count again.
    read: u64,
    in_vain: u64,
}

#[derive(Clone, Copy)]
enum Seek {
    Opening,
    Resume,
}

impl Elements {
    fn new(form: Form) -> Result<Self, regex::Error> {
        let (opening, resume) = match form {
            Form::Jaeger => (Some(r#"(?-u)"data"\s*:\s*\["#.to_owned()), JAEGER),
            Form::JaegerList => (Some(format!(r"{BEGIN}\[")), JAEGER),
            Form::Zipkin => (Some(format!(r"{BEGIN}\[")), ZIPKIN),
            Form::ZipkinLines => (None, ZIPKIN),
            _ => (None, r#"(?-u)\{\s*"(?:resourceSpans|batches)"\s*:"#),
        };
        Ok(Elements {
            form,
            inside: opening.is_none(),
            seek: opening.is_some().then_some(Seek::Opening),
            opening: opening.map(|pattern| Regex::new(&pattern)).transpose()?,
            resume: Regex::new(resume)?,
            moved: jaeger::moved()?,
            damaged: 0,
            read: 0,
            in_vain: 0,
        })
    }

    /// Reads the elements that are complete; returns how many bytes were read.
    fn consume(
        &mut self,
        buffer: &[u8],
        last: bool,
        known: &Known,
        sheet: &mut Sheet,
        found: &mut Ending,
    ) -> usize {
        let read = self.each(buffer, last, known, sheet, found);
        self.read += read as u64;
        read
    }

    fn each(
        &mut self,
        buffer: &[u8],
        last: bool,
        known: &Known,
        sheet: &mut Sheet,
        found: &mut Ending,
    ) -> usize {
        /// What `opening` and `resume` match may be cut by the end of a block.
        const KEPT: usize = 4096;
        let mut at = 0;
        loop {
            if let Some(seek) = self.seek {
                let pattern = match seek {
                    Seek::Opening => self.opening.as_ref().unwrap_or(&self.resume),
                    Seek::Resume => &self.resume,
                };
                let Some(hit) = pattern.find_at(buffer, at) else {
                    return at.max(buffer.len().saturating_sub(KEPT));
                };
                at = if self.inside { hit.start() } else { hit.end() };
                self.inside = true;
                self.seek = None;
            }
            at += between(&buffer[at..]);
            let Some(&first) = buffer.get(at) else {
                return at;
            };
            if first == b']' {
                self.inside = self.opening.is_none();
                self.seek = self.opening.is_some().then_some(Seek::Opening);
                at += 1;
                continue;
            }
            let mark = sheet.mark();
            let mut parser = Parser::new(&buffer[at..]);
            let outcome = self.element(&mut parser, known, sheet);
            let Err(fault) = outcome else {
                at += parser.position();
                continue;
            };
            sheet.back_to(mark);
            let may_go_on = fault == Fault::Short && buffer.len() - at < JSON_ELEMENT;
            if may_go_on && !last {
                return at;
            }
            found.damaged += 1;
            found.stopped = self.too_much_damage(match fault {
                Fault::Short => buffer.len() - at,
                Fault::Wrong => parser.position(),
            });
            if found.stopped.is_some() {
                return buffer.len();
            }
            self.seek = Some(Seek::Resume);
            at += 1;
        }
    }

    /// Counts an element that was damaged after so many bytes; returns why reading ends.
    fn too_much_damage(&mut self, bytes: usize) -> Option<String> {
        self.damaged += 1;
        self.in_vain += bytes as u64;
        let why = if self.damaged > JSON_DAMAGED {
            "it has more than 1,000 damaged elements"
        } else if self.in_vain > JSON_IN_VAIN + self.read {
            "its damaged elements lie inside each other"
        } else {
            return None;
        };
        Some(format!("{why}; reading stopped there"))
    }

    fn element<'t>(
        &self,
        parser: &mut Parser<'t>,
        known: &Known,
        sheet: &mut Sheet,
    ) -> crate::json::Result<()> {
        match self.form {
            Form::Jaeger | Form::JaegerList => jaeger::read(parser, known, &self.moved, sheet),
            Form::Zipkin | Form::ZipkinLines => zipkin::read(parser, known, sheet),
            _ => otlp::read(parser, known, sheet),
        }
    }
}

/// Spaces, commas and byte order marks between elements.
fn between(text: &[u8]) -> usize {
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        match byte {
            b' ' | b'\n' | b'\r' | b'\t' | b',' | 0x0B | 0x0C => at += 1,
            0xEF if text[at..].starts_with(b"\xEF\xBB\xBF") => at += 3,
            _ => break,
        }
    }
    at
}

/// Microseconds as nanoseconds.
fn microseconds(value: &Scalar<'_>) -> Option<i64> {
    let us = value.whole().filter(|us| *us < 100_000_000_000_000_000)?;
    us.checked_mul(US)
}

/// The end of what takes so many microseconds.
fn end_of(begin: Option<i64>, took: &Scalar<'_>) -> Option<i64> {
    let (begin, took) = begin.zip(microseconds(took))?;
    Some(begin.saturating_add(took))
}

#[cfg(test)]
mod tests;
