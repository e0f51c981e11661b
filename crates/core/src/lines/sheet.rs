//! The columns, and the values of the line that is being read.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, UInt32Array};
use arrow_schema::{ArrowError, Field as Column, Schema};

use super::moments::{self, Clock};
use super::{values, Field, Kind, Plan, Texts, Values};
use crate::capture::names::Namer;
use crate::capture::wire::Raw;

/// No number, where numbers are not negative.
pub const NONE: i64 = -1;
/// No number, where they may be.
pub const UNKNOWN: i64 = i64::MIN;

pub struct Sheet<'c> {
    /// The columns of the plan that have values here.
    used: Vec<usize>,
    /// Of each column of the plan: its value of the open row, and what stands for none.
    row: Vec<i64>,
    nothing: Vec<i64>,
    is_signed: Vec<bool>,
    columns: Vec<Vec<i64>>,
    lines: Vec<u32>,
    clock: Clock,
    texts: &'c mut [Texts],
    namer: &'c mut Namer,
    names: &'c mut Vec<String>,
    /// The column of the names of requests.
    name: Option<usize>,
    /// The request of the open row: where in its line the method and the path are.
    method: Range<usize>,
    path: Range<usize>,
    /// Both are ASCII.
    is_plain: bool,
}

impl<'c> Sheet<'c> {
    pub fn of(
        plan: &Plan,
        texts: &'c mut [Texts],
        namer: &'c mut Namer,
        names: &'c mut Vec<String>,
    ) -> Self {
        let fields = || plan.layouts.iter().flat_map(|layout| &layout.fields);
        let mut used: Vec<_> = fields().filter_map(|field| field.column).collect();
        let named = plan
            .columns
            .iter()
            .position(|&(_, values)| values == Values::Names);
        let name = named.filter(|_| fields().any(|field| field.kind.names()));
        used.extend(name);
        used.sort_unstable();
        used.dedup();
        let nothing = |&(_, values): &(String, Values)| match values {
            Values::Signed => UNKNOWN,
            Values::Texts => 0,
            Values::Numbers | Values::Names => NONE,
        };
        let nothing: Vec<_> = plan.columns.iter().map(nothing).collect();
        let signed = plan.columns.iter().map(|&(_, v)| v == Values::Signed);
        Sheet {
            row: nothing.clone(),
            is_signed: signed.collect(),
            columns: used.iter().map(|_| Vec::new()).collect(),
            used,
            nothing,
            lines: Vec::new(),
            clock: Clock::default(),
            texts,
            namer,
            names,
            name,
            method: 0..0,
            path: 0..0,
            is_plain: true,
        }
    }

    pub fn clear(&mut self) {
        self.row.copy_from_slice(&self.nothing);
        self.method = 0..0;
        self.path = 0..0;
        self.is_plain = true;
    }

    /// Has room for so many rows.
    pub fn reserve(&mut self, rows: usize) {
        self.lines.reserve(rows);
        for column in &mut self.columns {
            column.reserve(rows);
        }
    }

    /// Takes a number that is not negative, as the value of a field.
    #[inline]
    pub fn put_number(&mut self, column: Option<usize>, number: i64) {
        if let Some(place) = column.and_then(|column| self.row.get_mut(column)) {
            *place = number;
        }
    }

    /// Takes the value of a field, which begins at this place of its line; false: it has none.
    pub fn put(&mut self, field: &Field, text: &[u8], at: usize) -> bool {
        let number = match field.kind {
            Kind::Skip | Kind::Until | Kind::Value => return true,
            Kind::Word => return !text.first().is_some_and(u8::is_ascii_digit),
            Kind::Text => return self.hold(field, text),
            Kind::Method => {
                self.method = at..at + text.len();
                self.is_plain = false;
                return !text.contains(&b' ') && self.hold(field, text);
            }
            Kind::Request => {
                let Some((method, path)) = values::request(text) else {
                    return false;
                };
                if self.method.is_empty() {
                    self.method = at..at + method.len();
                }
                if self.path.is_empty() {
                    let begin = at + method.len() + 1;
                    self.path = begin..begin + path.len();
                }
                return true;
            }
            Kind::Target | Kind::Path => {
                let Some(path) = values::target(text) else {
                    return false;
                };
                if field.kind == Kind::Path && (path.is_empty() || path.len() < text.len()) {
                    return false;
                }
                self.path = at..at + path.len();
                self.is_plain = false;
                return true;
            }
            Kind::Clock => self.clock.read(text, moments::zoned).map(Some),
            Kind::ClockMs => self.clock.read(text, moments::with_ms).map(Some),
            Kind::ClockC => self.clock.read(text, moments::of_c).map(Some),
            Kind::Iso => moments::iso(text).map(Some),
            Kind::IsoUtc => moments::iso_utc(text).map(Some),
            Kind::IsoLocal => moments::iso_local(text).map(Some),
            Kind::Decimal => values::decimal(text),
            Kind::Double => values::double(text),
            Kind::Seconds => values::seconds(text),
            Kind::Integer => values::integer(text),
        };
        let Some(number) = number else {
            return false;
        };
        let (Some(column), Some(number)) = (field.column, number) else {
            return true;
        };
        let (Some(place), Some(&signed)) = (self.row.get_mut(column), self.is_signed.get(column))
        else {
            return false;
        };
        *place = number;
        number >= 0 || signed
    }

    fn hold(&mut self, field: &Field, text: &[u8]) -> bool {
        let Some(column) = field.column else {
            return true;
        };
        let (Some(place), Some(texts)) = (self.row.get_mut(column), self.texts.get_mut(column))
        else {
            return false;
        };
        match texts.number(text) {
            Some(number) => {
                *place = i64::from(number);
                true
            }
            None => false,
        }
    }

    /// Appends the open row, which is that of this line; false: its request has no text.
    pub fn keep(&mut self, line: &[u8]) -> bool {
        if let Some(column) = self.name {
            if !self.method.is_empty() {
                let method = &line[self.method.clone()];
                let target = &line[self.path.clone()];
                let is_text = |part| self.is_plain || std::str::from_utf8(part).is_ok();
                if !is_text(method) || !is_text(target) {
                    return false;
                }
                let raw = Raw::Http { method, target };
                self.row[column] = i64::from(self.namer.name(raw, self.names));
            }
        }
        for (values, &column) in self.columns.iter_mut().zip(&self.used) {
            values.push(self.row[column]);
        }
        true
    }

    /// The row that was appended is that of this line.
    pub fn count(&mut self, line: u32) {
        self.lines.push(line);
    }

    pub fn into_batch(self, plan: &Plan) -> Result<RecordBatch, ArrowError> {
        let lines: ArrayRef = Arc::new(UInt32Array::from(self.lines));
        let values = self.columns.into_iter();
        let columns = values.map(|values| Arc::new(Int64Array::from(values)) as ArrayRef);
        let arrays: Vec<_> = std::iter::once(lines).chain(columns).collect();
        let used = self.used.iter().filter_map(|&at| plan.columns.get(at));
        let names = std::iter::once("line").chain(used.map(|(name, _)| &**name));
        let fields: Vec<_> = names
            .zip(&arrays)
            .map(|(name, array)| Column::new(name, array.data_type().clone(), false))
            .collect();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
    }
}
