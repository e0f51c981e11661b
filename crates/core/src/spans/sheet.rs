//! The columns of spans, a row for each.

use std::hash::Hasher;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, UInt32Array, UInt64Array, UInt8Array,
};
use arrow_schema::ArrowError;
use rustc_hash::{FxHashMap, FxHasher};

use super::attributes::{Attributes, Known, PROBABILITY};
use crate::json::Scalar;

/// Between the parts of a label.
const SEPARATOR: u8 = 0x1F;
/// A store moved the times of the span.
pub const MOVED: u8 = 1;
/// The trace was kept for what happened in it.
pub const CHOSEN: u8 = 2;
/// It is the wait for a worker.
pub const QUEUED: u8 = 4;
/// It is the wait for a connection of a pool.
pub const CONNECTION: u8 = 8;

/// The numbers that OTLP has for kinds; 0 is any other.
pub const SERVER: u8 = 2;
pub const CLIENT: u8 = 3;
pub const CONSUMER: u8 = 5;
const KINDS: [(&[u8], u8); 4] = [
    (b"server", SERVER),
    (b"client", CLIENT),
    (b"producer", 4),
    (b"consumer", CONSUMER),
];

/// A kind by its name, in letters of any case.
pub fn kind_of(name: &[u8]) -> u8 {
    let mut kinds = KINDS.iter();
    let found = kinds.find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map_or(0, |&(_, number)| number)
}

/// A trace by its id, and the keys by which its spans name each other.
#[derive(Clone)]
pub struct Trace(FxHasher);

impl Trace {
    pub fn of(id: &[u8]) -> Self {
        let mut hasher = FxHasher::default();
        hasher.write(id);
        Trace(hasher)
    }

    pub fn key(&self) -> u64 {
        self.0.finish()
    }

    pub fn key_of_span(&self, id: &[u8]) -> u64 {
        let mut hasher = self.0.clone();
        hasher.write_u8(SEPARATOR);
        hasher.write(id);
        hasher.finish()
    }
}

/// The id of a trace or a span. Protobuf has its bytes, and all others write these as hexadecimal digits.
pub enum Id<'t> {
    Text(Scalar<'t>),
    Bytes(&'t [u8]),
}

impl Default for Id<'_> {
    fn default() -> Self {
        Id::Bytes(&[])
    }
}

impl Id<'_> {
    fn write(&self, into: &mut Vec<u8>) {
        into.clear();
        match self {
            Id::Text(text) => into.extend_from_slice(text.text().unwrap_or_default()),
            Id::Bytes(bytes) => {
                into.resize(2 * bytes.len(), 0);
                for (digits, &byte) in into.chunks_exact_mut(2).zip(*bytes) {
                    digits.copy_from_slice(&DIGITS[usize::from(byte)]);
                }
            }
        }
    }
}

/// The two hexadecimal digits of each byte.
static DIGITS: [[u8; 2]; 256] = {
    let digits = *b"0123456789abcdef";
    let mut of_bytes = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        of_bytes[byte] = [digits[byte >> 4], digits[byte & 15]];
        byte += 1;
    }
    of_bytes
};

/// A span as it was found.
#[derive(Default)]
pub struct Draft<'t> {
    pub trace: Id<'t>,
    pub id: Id<'t>,
    pub parent: Id<'t>,
    pub kind: u8,
    pub begin: Option<i64>,
    pub end: Option<i64>,
    pub name: Scalar<'t>,
    pub state: Scalar<'t>,
    pub failed: bool,
    /// The share of traces that a sampler kept.
    pub kept: Option<f64>,
    pub moved: bool,
}

/// Different texts, by their number.
pub struct Texts {
    numbers: FxHashMap<Box<[u8]>, u32>,
    texts: Vec<Box<[u8]>>,
}

impl Default for Texts {
    /// No text has the number 0.
    fn default() -> Self {
        let nothing = Box::<[u8]>::default();
        Texts {
            numbers: FxHashMap::from_iter([(nothing.clone(), 0)]),
            texts: vec![nothing],
        }
    }
}

impl Texts {
    /// The number of a text, which is often the one with the number `last`.
    fn number_after(&mut self, last: Option<&u32>, text: Option<&[u8]>) -> u32 {
        let known = last.and_then(|&last| Some((last, self.texts.get(last as usize)?)));
        match known {
            Some((last, known)) if **known == *text.unwrap_or_default() => last,
            _ => self.number(text),
        }
    }

    /// The number of a text; 0 without one.
    pub fn number(&mut self, text: Option<&[u8]>) -> u32 {
        let text = text.unwrap_or_default();
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        // A block has fewer bytes than 32 bits count.
        let number = u32::try_from(self.texts.len()).unwrap_or(0);
        self.numbers.insert(text.into(), number);
        self.texts.push(text.into());
        number
    }
}

#[derive(Default)]
pub struct Sheet {
    pub texts: Texts,
    trace: Vec<u64>,
    key: Vec<u64>,
    parent: Vec<Option<u64>>,
    kind: Vec<u8>,
    begin: Vec<i64>,
    end: Vec<i64>,
    service: Vec<u32>,
    label: Vec<u32>,
    outcome: Vec<u32>,
    peer: Vec<u32>,
    host: Vec<u32>,
    kept: Vec<Option<f64>>,
    marks: Vec<u8>,
    /// Spans without an id, a time or a service.
    pub without: u32,
    joined: Vec<u8>,
    /// Of the trace, of the span and of its parent.
    ids: [Vec<u8>; 3],
}

/// As far as a sheet was filled.
#[derive(Clone, Copy)]
pub struct Mark {
    rows: usize,
    without: u32,
}

impl Sheet {
    pub fn rows(&self) -> usize {
        self.key.len()
    }

    pub fn mark(&self) -> Mark {
        Mark {
            rows: self.rows(),
            without: self.without,
        }
    }

    /// Forgets what came after the mark.
    pub fn back_to(&mut self, mark: Mark) {
        self.without = mark.without;
        self.trace.truncate(mark.rows);
        self.key.truncate(mark.rows);
        self.parent.truncate(mark.rows);
        self.kind.truncate(mark.rows);
        self.begin.truncate(mark.rows);
        self.end.truncate(mark.rows);
        for codes in [
            &mut self.service,
            &mut self.label,
            &mut self.outcome,
            &mut self.peer,
            &mut self.host,
        ] {
            codes.truncate(mark.rows);
        }
        self.kept.truncate(mark.rows);
        self.marks.truncate(mark.rows);
    }

    /// Adds a span of this service, or counts it as one without.
    pub fn add(&mut self, span: &Draft<'_>, service: u32, values: &Attributes<'_>, known: &Known) {
        let [trace, id, above] = &mut self.ids;
        span.trace.write(trace);
        span.id.write(id);
        span.parent.write(above);
        let (Some(begin), Some(end)) = (span.begin, span.end) else {
            self.without += 1;
            return;
        };
        if trace.is_empty() || id.is_empty() || service == 0 {
            self.without += 1;
            return;
        }
        let has_parent = above != id && above.iter().any(|&byte| byte != b'0');
        let of = Trace::of(trace);
        self.trace.push(of.key());
        self.key.push(of.key_of_span(id));
        self.parent.push(has_parent.then(|| of.key_of_span(above)));
        // Some drivers call a wait for a connection the span of a client, but nobody answers it.
        let name = span
            .name
            .text()
            .filter(|_| span.kind == 0 || span.kind == CLIENT);
        let connects = name.is_some_and(|name| known.is_connection(name));
        self.kind.push(if connects { 0 } else { span.kind });
        self.begin.push(begin);
        self.end.push(end);
        self.service.push(service);
        let label = self.label(span, values, known);
        self.label.push(label);
        let outcome = self.outcome(span.failed, values, known);
        self.outcome.push(outcome);
        for (slots, codes) in [(&known.peer, &mut self.peer), (&known.host, &mut self.host)] {
            let code = self.texts.number_after(codes.last(), values.first(slots));
            codes.push(code);
        }
        self.kept.push(kept(span, values));
        let chosen = values.has_any(known.chosen);
        let inner = span.name.text().filter(|_| span.kind == 0);
        let marks = [
            (span.moved, MOVED),
            (chosen, CHOSEN),
            (inner.is_some_and(|name| known.is_queued(name)), QUEUED),
            (connects, CONNECTION),
        ];
        let marks = marks.iter().filter(|(is, _)| *is);
        self.marks.push(marks.fold(0, |all, (_, mark)| all | mark));
    }

    /// The number of the alternative that fits, and its parts.
    fn label(&mut self, span: &Draft<'_>, values: &Attributes<'_>, known: &Known) -> u32 {
        let fits = |parts: &Vec<Vec<u8>>| parts.iter().all(|slots| values.first(slots).is_some());
        let fitting = known.labels.iter().position(fits);
        let parts = fitting.and_then(|number| known.labels.get(number));
        self.joined.clear();
        let number = fitting.unwrap_or(known.labels.len());
        self.joined.push(b'0' + u8::try_from(number).unwrap_or(0));
        for slots in parts.unwrap_or(&known.otherwise) {
            self.join(values.first(slots));
        }
        if parts.is_none() {
            self.join(span.name.text());
        }
        self.texts
            .number_after(self.label.last(), Some(&self.joined))
    }

    fn outcome(&mut self, failed: bool, values: &Attributes<'_>, known: &Known) -> u32 {
        self.joined.clear();
        self.joined.push(if failed { b'1' } else { b'0' });
        for slots in &known.outcome {
            self.join(values.first(slots));
        }
        self.texts
            .number_after(self.outcome.last(), Some(&self.joined))
    }

    fn join(&mut self, part: Option<&[u8]>) {
        self.joined.push(SEPARATOR);
        let part = part.unwrap_or_default();
        let before = self.joined.len();
        self.joined.extend_from_slice(part);
        if part.contains(&SEPARATOR) {
            for byte in &mut self.joined[before..] {
                *byte = if *byte == SEPARATOR { b' ' } else { *byte };
            }
        }
    }

    /// The columns, and the texts that their numbers mean.
    pub fn finish(self) -> Result<(RecordBatch, Vec<String>), ArrowError> {
        let codes = |column: Vec<u32>| -> ArrayRef { Arc::new(UInt32Array::from(column)) };
        let columns: [(&str, ArrayRef, bool); 13] = [
            ("trace", Arc::new(UInt64Array::from(self.trace)), false),
            ("key", Arc::new(UInt64Array::from(self.key)), false),
            ("parent", Arc::new(UInt64Array::from(self.parent)), true),
            ("kind", Arc::new(UInt8Array::from(self.kind)), false),
            ("begin", Arc::new(Int64Array::from(self.begin)), false),
            ("end", Arc::new(Int64Array::from(self.end)), false),
            ("service", codes(self.service), false),
            ("label", codes(self.label), false),
            ("outcome", codes(self.outcome), false),
            ("peer", codes(self.peer), false),
            ("host", codes(self.host), false),
            ("kept", Arc::new(Float64Array::from(self.kept)), true),
            ("marks", Arc::new(UInt8Array::from(self.marks)), false),
        ];
        let texts = self.texts.texts.iter();
        let texts = texts.map(|text| String::from_utf8_lossy(text).into_owned());
        let rows = RecordBatch::try_from_iter_with_nullable(columns)?;
        Ok((rows, texts.collect()))
    }
}

fn kept(span: &Draft<'_>, values: &Attributes<'_>) -> Option<f64> {
    let of_state = span.state.text().and_then(share_in_state);
    let of_values = || values.get(PROBABILITY).and_then(Scalar::number);
    span.kept.or(of_state).or_else(of_values)
}

/// The probability in a trace state, where OpenTelemetry writes the share of traces that were dropped, in 56 bits:
/// `ot=th:8` is a half. Older samplers wrote the exponent of a power of a half: `ot=p:2` is a quarter.
fn share_in_state(state: &[u8]) -> Option<f64> {
    let state = std::str::from_utf8(state).ok()?;
    let ours = state
        .split(',')
        .find_map(|part| part.trim_start().strip_prefix("ot="))?;
    let value = |key| {
        ours.split(';')
            .rev()
            .find_map(|part| part.strip_prefix(key))
    };
    value("th:").map_or_else(|| share_of_exponent(value("p:")?), share_of_threshold)
}

fn share_of_threshold(threshold: &str) -> Option<f64> {
    let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if !(1..=14).contains(&threshold.len()) || !threshold.bytes().all(digit) {
        return None;
    }
    let dropped = u64::from_str_radix(&format!("{threshold:0<14}"), 16).ok()?;
    Some(1.0 - dropped as f64 / (1_u64 << 56) as f64)
}

/// The share of an exponent of at most 62. 63 stands for a trace that represents no other, so it has no share.
fn share_of_exponent(exponent: &str) -> Option<f64> {
    let digits =
        (1..=2).contains(&exponent.len()) && exponent.bytes().all(|byte| byte.is_ascii_digit());
    let exponent = exponent
        .parse::<u8>()
        .ok()
        .filter(|&exponent| digits && exponent <= 62)?;
    Some(0.5_f64.powi(exponent.into()))
}

#[cfg(test)]
mod tests {
    use super::share_in_state;

    #[test]
    fn a_trace_state_has_the_share_as_a_threshold_or_as_an_exponent() {
        for (state, share) in [
            ("ot=th:c", Some(0.25)),
            ("a=1, ot=r:10;th:8", Some(0.5)),
            ("ot=p:8;th:c", Some(0.25)),
            ("a=1,ot=p:2;r:10", Some(0.25)),
            ("ot=r:10;p:0", Some(1.0)),
            ("ot=p:62", Some(1.0 / (1_u64 << 62) as f64)),
            ("ot=p:63", None),
            ("ot=p:x", None),
            ("ot=p:+2", None),
            ("ot=p:", None),
            ("ot=p:2;th:x", None),
            ("p:2", None),
            ("xot=p:2", None),
            ("", None),
        ] {
            assert_eq!(share_in_state(state.as_bytes()), share, "{state}");
        }
    }
}
