//! Where the fields of a line end.

use memchr::memmem::Finder;
use memchr::{memchr, memchr2, memchr3};

use super::sheet::Sheet;
use super::{Field, Kind, Layout};
use crate::json::Parser;

/// A layout whose fields know where they end.
pub struct Ready<'p> {
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
    pub fn of(layout: &'p Layout) -> Self {
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
    pub fn read(&self, line: &[u8], sheet: &mut Sheet<'_>) -> bool {
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
