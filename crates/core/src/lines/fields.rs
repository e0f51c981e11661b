//! Where the fields of a line end.

use memchr::memmem::Finder;
use memchr::{memchr, memchr2, memchr3};

use super::sheet::Sheet;
use super::{values, Field, Kind, Layout};
use crate::json::Parser;

/// A layout whose fields know where they begin and end.
pub struct Ready<'p> {
    fields: Vec<Place<'p>>,
    after: Literal<'p>,
    whole: bool,
}

struct Place<'p> {
    field: &'p Field,
    before: Literal<'p>,
    /// Of a number: the bytes before which it ends. It is read without looking for its end first.
    number: Option<Box<[bool; 256]>>,
    end: End<'p>,
}

/// A literal, of which eight bytes are compared at once.
struct Literal<'p> {
    text: &'p [u8],
    word: u64,
    mask: u64,
}

impl<'p> Literal<'p> {
    fn of(text: &'p [u8]) -> Self {
        let mut first = [0; 8];
        let len = text.len().min(8);
        first[..len].copy_from_slice(&text[..len]);
        let unused = 8 * (8 - len as u32);
        Literal {
            text,
            word: u64::from_le_bytes(first),
            mask: u64::MAX.checked_shr(unused).unwrap_or(0),
        }
    }

    /// What follows it at the begin of a text.
    #[inline]
    fn strip<'t>(&self, text: &'t [u8]) -> Option<&'t [u8]> {
        if self.text.len() <= 8 {
            if let Some(first) = text.first_chunk() {
                let fits = u64::from_le_bytes(*first) & self.mask == self.word;
                return fits.then(|| &text[self.text.len()..]);
            }
        }
        text.strip_prefix(self.text)
    }
}

impl<'p> Place<'p> {
    fn of(field: &'p Field, next: &'p [u8]) -> Self {
        let is_number = matches!(field.kind, Kind::Integer | Kind::Decimal | Kind::Seconds);
        let stops = table(&field.stop);
        let apart = (b'0'..=b'9')
            .chain([b'.'])
            .all(|byte| !stops[usize::from(byte)]);
        Place {
            field,
            before: Literal::of(field.before.as_bytes()),
            number: (is_number && apart && field.most == usize::MAX).then(|| Box::new(stops)),
            end: End::of(field, next),
        }
    }

    /// A number in its usual form, and its length.
    #[inline]
    fn number(&self, text: &[u8]) -> Option<(i64, usize)> {
        let stops = self.number.as_deref()?;
        let (number, len) = match self.field.kind {
            Kind::Integer => values::leading_integer(text)?,
            kind => {
                let (number, len, decimals) = values::leading_decimal(text)?;
                if kind == Kind::Seconds && !(3..=6).contains(&decimals) {
                    return None;
                }
                (number, len)
            }
        };
        let ends = text.get(len).is_none_or(|&byte| stops[usize::from(byte)]);
        ends.then_some((number, len))
    }
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
            fields: fields.map(|(field, next)| Place::of(field, next)).collect(),
            after: Literal::of(after),
            whole: layout.whole,
        }
    }

    /// Puts the values of the line into the row that is open; false: the line has another layout.
    pub fn read(&self, line: &[u8], sheet: &mut Sheet<'_>) -> bool {
        sheet.clear();
        let mut rest = line;
        for place in &self.fields {
            let Some(tail) = place.before.strip(rest) else {
                return false;
            };
            if let Some((number, len)) = place.number(tail) {
                sheet.put_number(place.field.column, number);
                rest = &tail[len..];
                continue;
            }
            let Some(len) = place.end.length(tail) else {
                return false;
            };
            let (text, left) = tail.split_at(len.min(place.field.most));
            if !sheet.put(place.field, text, line.len() - tail.len()) {
                return false;
            }
            rest = left;
        }
        match self.after.strip(rest) {
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
