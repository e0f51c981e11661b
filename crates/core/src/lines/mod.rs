//! Lines of text that have one of a few layouts, cut into columns.
//!
//! ```text
//! 10.0.0.9 - - [20/Nov/2026:16:49:00 +0000] "GET /x HTTP/1.1" 200 512 rt=1.203
//! skip         [clock                     ] "request        " integer … rt=decimal
//! ```
//!
//! A layout alternates literals and fields; a field ends before the first of its stop bytes. A line that differs from
//! all layouts in anything is left out. The caller reads it in another, slower way, so a layout may be strict.

mod values;

use std::sync::Arc;

use arrow_array::builder::{Int64Builder, StringDictionaryBuilder};
use arrow_array::types::UInt32Type;
use arrow_array::{ArrayRef, RecordBatch, UInt32Array};
use arrow_schema::{ArrowError, Field as Column, Schema};
use memchr::memmem::Finder;
use memchr::{memchr, memchr2, memchr3};
use serde::Deserialize;

use crate::json::Parser;
use values::Clock;

/// Longer lines are left out.
const LINE_MAX: usize = 1 << 16;

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Anything; it has no column.
    Skip,
    /// Anything that does not begin with a digit; it has no column.
    Word,
    /// `20/Nov/2026:16:49:00 +0000`, in ns since the Unix epoch.
    Clock,
    /// `20/Nov/2026:16:49:00.123` in UTC, in ns since the Unix epoch.
    ClockMs,
    /// `1.203`, times 10⁹; `-` is null.
    Decimal,
    /// `1.203` with three to six decimals, times 10⁹.
    Seconds,
    /// `-1`; `-` is null.
    Integer,
    Text,
    /// `GET /x?y HTTP/1.1` as the text `GET /x`.
    Request,
    /// Anything up to the literal after it; without `=`, and with a space at the end. It has no column.
    Until,
    /// A value of JSON; it has no column.
    Value,
    /// A number of JSON, as a double that is printed with as few digits as name it, times 10⁹.
    Double,
}

impl Kind {
    fn is_text(self) -> bool {
        matches!(self, Kind::Text | Kind::Request)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Field {
    /// The literal before it.
    before: String,
    kind: Kind,
    /// Where its value goes.
    column: Option<usize>,
    /// It ends before the first of these bytes, or at the end of the line. With a space among them, it also ends before
    /// a byte that is no printable ASCII.
    stop: String,
    /// It ends after so many bytes at the latest.
    #[serde(default = "any")]
    most: usize,
}

fn any() -> usize {
    usize::MAX
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layout {
    fields: Vec<Field>,
    /// The literal after the last field.
    after: String,
    /// The line ends there.
    whole: bool,
}

/// What the lines of a text may look like; a line has the first layout that fits.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The names of the columns, and whether their values are text.
    columns: Vec<(String, bool)>,
    layouts: Vec<Layout>,
}

impl Plan {
    /// Why the plan cannot be followed.
    pub fn fault(&self) -> Option<&'static str> {
        let fields = || self.layouts.iter().flat_map(|layout| &layout.fields);
        let fits = |field: &Field| match field.column {
            Some(column) => {
                let known = self.columns.get(column);
                known.is_some_and(|&(_, text)| text == field.kind.is_text())
            }
            None => true,
        };
        if !fields().all(fits) {
            return Some("a field has a column that is missing or of another kind");
        }
        let stopless = |field: &Field| !field.stop.is_ascii();
        fields().any(stopless).then_some("a stop byte is not ASCII")
    }
}

/// The rows of the lines that have a layout: `line`, counted from 0, and the columns of the plan.
pub fn cut(block: &[u8], plan: &Plan) -> Result<RecordBatch, ArrowError> {
    let layouts: Vec<_> = plan.layouts.iter().map(Ready::of).collect();
    let mut sheet = Sheet::of(plan);
    for (number, line) in (0..).zip(lines_of(block)) {
        let end = line.iter().rposition(|&byte| byte != b'\r');
        let line = &line[..end.map_or(0, |last| last + 1)];
        if line.is_empty() || line.len() > LINE_MAX {
            continue;
        }
        if layouts.iter().any(|layout| layout.read(line, &mut sheet)) {
            sheet.keep(number);
        }
    }
    sheet.into_batch(plan)
}

fn lines_of(block: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(block);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = memchr(b'\n', text);
        rest = end.map(|at| &text[at + 1..]);
        Some(&text[..end.unwrap_or(text.len())])
    })
}

/// A layout whose fields know where they end.
struct Ready<'p> {
    fields: Vec<(&'p Field, End<'p>)>,
    after: &'p [u8],
    whole: bool,
}

/// Where a field ends.
enum End<'p> {
    /// Before one of these bytes.
    One(u8),
    Two(u8, u8),
    Three(u8, u8, u8),
    Any(Box<[bool; 256]>),
    /// Before this literal.
    Literal(Box<Finder<'p>>),
    /// After a value of JSON.
    Value,
}

impl<'p> End<'p> {
    fn of(field: &Field, next: &'p [u8]) -> Self {
        match (field.kind, field.stop.as_bytes()) {
            (Kind::Until, _) => End::Literal(Box::new(Finder::new(next))),
            (Kind::Value, _) => End::Value,
            (_, stops) if stops.contains(&b' ') => End::Any(Box::new(table(&field.stop))),
            (_, &[one]) => End::One(one),
            (_, &[one, two]) => End::Two(one, two),
            (_, &[one, two, three]) => End::Three(one, two, three),
            _ => End::Any(Box::new(table(&field.stop))),
        }
    }

    /// The length of the field at the begin of this text; None: it is none.
    fn length(&self, text: &[u8]) -> Option<usize> {
        let found = match self {
            End::One(one) => memchr(*one, text),
            End::Two(one, two) => memchr2(*one, *two, text),
            End::Three(one, two, three) => memchr3(*one, *two, *three, text),
            End::Any(stops) => text.iter().position(|&byte| stops[usize::from(byte)]),
            End::Literal(literal) => {
                let gap = &text[..literal.find(text)?];
                let fits = gap.ends_with(b" ") && memchr(b'=', gap).is_none();
                return fits.then_some(gap.len());
            }
            End::Value => {
                let mut parser = Parser::new(text);
                parser.skip().ok()?;
                Some(parser.position())
            }
        };
        Some(found.unwrap_or(text.len()))
    }
}

impl<'p> Ready<'p> {
    fn of(layout: &'p Layout) -> Self {
        let after = layout.after.as_bytes();
        let next = layout.fields.iter().skip(1);
        let next = next.map(|field| field.before.as_bytes()).chain([after]);
        let fields = layout.fields.iter().zip(next);
        Ready {
            fields: fields
                .map(|(field, next)| (field, End::of(field, next)))
                .collect(),
            after,
            whole: layout.whole,
        }
    }

    /// Puts the values of the line into the row that is open; false: the line has another layout.
    fn read(&self, line: &[u8], sheet: &mut Sheet) -> bool {
        sheet.clear();
        let mut rest = line;
        for (field, end) in &self.fields {
            let Some(tail) = rest.strip_prefix(field.before.as_bytes()) else {
                return false;
            };
            let Some(len) = end.length(tail) else {
                return false;
            };
            let (text, left) = tail.split_at(len.min(field.most));
            if !sheet.put(field, text) {
                return false;
            }
            rest = left;
        }
        match rest.strip_prefix(self.after) {
            Some(left) => left.is_empty() || !self.whole,
            None => false,
        }
    }
}

fn table(text: &str) -> [bool; 256] {
    let mut stops = [false; 256];
    if text.contains(' ') {
        for byte in 0..=u8::MAX {
            stops[usize::from(byte)] = !byte.is_ascii_graphic();
        }
    }
    for byte in text.bytes() {
        stops[usize::from(byte)] = true;
    }
    stops
}

/// The columns, and the values of the line that is being read.
struct Sheet {
    numbers: Vec<Option<i64>>,
    texts: Vec<Option<(usize, usize)>>,
    /// What `texts` point into.
    held: String,
    clock: Clock,
    lines: Vec<u32>,
    columns: Vec<Values>,
}

enum Values {
    Numbers(Int64Builder),
    Texts(StringDictionaryBuilder<UInt32Type>),
}

impl Sheet {
    fn of(plan: &Plan) -> Self {
        let columns = plan.columns.iter().map(|&(_, text)| {
            if text {
                Values::Texts(StringDictionaryBuilder::new())
            } else {
                Values::Numbers(Int64Builder::new())
            }
        });
        Sheet {
            numbers: vec![None; plan.columns.len()],
            texts: vec![None; plan.columns.len()],
            held: String::new(),
            clock: Clock::default(),
            lines: Vec::new(),
            columns: columns.collect(),
        }
    }

    fn clear(&mut self) {
        self.numbers.fill(None);
        self.texts.fill(None);
        self.held.clear();
    }

    /// Takes the value of a field; false: it has none.
    fn put(&mut self, field: &Field, text: &[u8]) -> bool {
        let number = match field.kind {
            Kind::Skip | Kind::Until | Kind::Value => return true,
            Kind::Word => return !text.first().is_some_and(u8::is_ascii_digit),
            Kind::Text => return self.hold(field, &[text]),
            Kind::Request => {
                return match values::request(text) {
                    Some((method, path)) => self.hold(field, &[method, b" ", path]),
                    None => false,
                };
            }
            Kind::Clock => self.clock.read(text, values::zoned).map(Some),
            Kind::ClockMs => self.clock.read(text, values::with_ms).map(Some),
            Kind::Decimal => values::decimal(text),
            Kind::Double => values::double(text),
            Kind::Seconds => values::seconds(text),
            Kind::Integer => values::integer(text),
        };
        let Some(number) = number else {
            return false;
        };
        if let Some(place) = field.column.and_then(|column| self.numbers.get_mut(column)) {
            *place = number;
        }
        true
    }

    fn hold(&mut self, field: &Field, parts: &[&[u8]]) -> bool {
        let begin = self.held.len();
        for part in parts {
            let Ok(part) = std::str::from_utf8(part) else {
                return false;
            };
            self.held.push_str(part);
        }
        if let Some(place) = field.column.and_then(|column| self.texts.get_mut(column)) {
            *place = Some((begin, self.held.len()));
        }
        true
    }

    /// Appends the open row.
    fn keep(&mut self, line: u32) {
        self.lines.push(line);
        for (i, column) in self.columns.iter_mut().enumerate() {
            match column {
                Values::Numbers(numbers) => numbers.append_option(self.numbers[i]),
                Values::Texts(texts) => {
                    let text = self.texts[i].and_then(|(begin, end)| self.held.get(begin..end));
                    texts.append_option(text);
                }
            }
        }
    }

    fn into_batch(self, plan: &Plan) -> Result<RecordBatch, ArrowError> {
        let lines: ArrayRef = Arc::new(UInt32Array::from(self.lines));
        let columns = self.columns.into_iter().map(|column| -> ArrayRef {
            match column {
                Values::Numbers(mut numbers) => Arc::new(numbers.finish()),
                Values::Texts(mut texts) => Arc::new(texts.finish()),
            }
        });
        let arrays: Vec<_> = std::iter::once(lines).chain(columns).collect();
        let names = std::iter::once("line").chain(plan.columns.iter().map(|(name, _)| &**name));
        let fields = names.zip(&arrays);
        let fields: Vec<_> = fields
            .map(|(name, array)| Column::new(name, array.data_type().clone(), true))
            .collect();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
    }
}

#[cfg(test)]
mod tests;
