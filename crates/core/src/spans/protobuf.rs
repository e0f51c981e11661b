//! Spans of OTLP as protobuf, read where they lie.
//!
//! ```text
//! TracesData 1: ResourceSpans { 1: Resource { 1: attributes }, 2: ScopeSpans { 2: Span } }
//! ```
//! The numbers are those of opentelemetry/proto/trace/v1/trace.proto and common/v1/common.proto.

use std::borrow::Cow;

use super::attributes::{Attributes, Known, SERVICE};
use super::sheet::{Draft, Id, Sheet};
use crate::json::Scalar;

/// The bytes are no message.
#[derive(Debug, PartialEq, Eq)]
pub struct Damaged;

type Result<T> = std::result::Result<T, Damaged>;

enum Value<'m> {
    Number(u64),
    Bytes(&'m [u8]),
}

impl<'m> Value<'m> {
    fn bytes(&self) -> Result<&'m [u8]> {
        match self {
            Value::Bytes(bytes) => Ok(bytes),
            Value::Number(_) => Err(Damaged),
        }
    }

    fn number(&self) -> Result<u64> {
        match self {
            Value::Number(number) => Ok(*number),
            Value::Bytes(_) => Err(Damaged),
        }
    }
}

/// The fields of a message, in their order.
struct Fields<'m>(&'m [u8]);

impl<'m> Iterator for Fields<'m> {
    type Item = Result<(u64, Value<'m>)>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        (!self.0.is_empty()).then(|| self.field())
    }
}

impl<'m> Fields<'m> {
    #[inline(always)]
    fn field(&mut self) -> Result<(u64, Value<'m>)> {
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Value::Number(self.varint()?),
            1 => Value::Number(u64::from_le_bytes(self.fixed()?)),
            2 => {
                let len = usize::try_from(self.varint()?).map_err(|_| Damaged)?;
                Value::Bytes(self.take(len)?)
            }
            5 => Value::Number(u32::from_le_bytes(self.fixed()?).into()),
            _ => return Err(Damaged),
        };
        match tag >> 3 {
            0 => Err(Damaged),
            number => Ok((number, value)),
        }
    }

    #[inline(always)]
    fn varint(&mut self) -> Result<u64> {
        match self.0 {
            [byte @ 0..0x80, rest @ ..] => {
                self.0 = rest;
                Ok(u64::from(*byte))
            }
            [low, high @ 0..0x80, rest @ ..] => {
                self.0 = rest;
                Ok(u64::from(*high) << 7 | u64::from(low & 0x7F))
            }
            _ => self.long_varint(),
        }
    }

    #[inline(never)]
    fn long_varint(&mut self) -> Result<u64> {
        let mut number = 0;
        for (i, &byte) in self.0.iter().take(10).enumerate() {
            number |= u64::from(byte & 0x7F) << (7 * i);
            if byte < 0x80 {
                self.0 = &self.0[i + 1..];
                return Ok(number);
            }
        }
        Err(Damaged)
    }

    #[inline(always)]
    fn take(&mut self, len: usize) -> Result<&'m [u8]> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Damaged)?;
        self.0 = rest;
        Ok(taken)
    }

    #[inline(always)]
    fn fixed<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.take(N)?.try_into().map_err(|_| Damaged)
    }
}

pub fn read(message: &[u8], known: &Known, sheet: &mut Sheet) -> Result<()> {
    for field in Fields(message) {
        if let (1, value) = field? {
            resource(value.bytes()?, known, sheet)?;
        }
    }
    Ok(())
}

fn resource(message: &[u8], known: &Known, sheet: &mut Sheet) -> Result<()> {
    let mut about = Attributes::default();
    for field in Fields(message) {
        if let (1, value) = field? {
            for field in Fields(value.bytes()?) {
                if let (1, value) = field? {
                    attribute(value.bytes()?, known, &mut about)?;
                }
            }
        }
    }
    let service = sheet.texts.number(about.first(&[SERVICE]));
    let mut values = Attributes::default();
    for field in Fields(message) {
        let (2, value) = field? else { continue };
        for field in Fields(value.bytes()?) {
            let (2, value) = field? else { continue };
            values.clear();
            let span = span(value.bytes()?, known, &mut values)?;
            values.take(&about, &known.host);
            sheet.add(&span, service, &values, known);
        }
    }
    Ok(())
}

fn span<'m>(message: &'m [u8], known: &Known, values: &mut Attributes<'m>) -> Result<Draft<'m>> {
    let mut span = Draft::default();
    let text = |value: &Value<'m>| {
        value
            .bytes()
            .map(|bytes| Scalar::Text(Cow::Borrowed(bytes)))
    };
    for field in Fields(message) {
        let (number, value) = field?;
        match number {
            1 => span.trace = Id::Bytes(value.bytes()?),
            2 => span.id = Id::Bytes(value.bytes()?),
            3 => span.state = text(&value)?,
            4 => span.parent = Id::Bytes(value.bytes()?),
            5 => span.name = text(&value)?,
            6 => span.kind = kind(value.number()?),
            7 => span.begin = moment(value.number()?),
            8 => span.end = moment(value.number()?),
            9 => attribute(value.bytes()?, known, values)?,
            15 => {
                for field in Fields(value.bytes()?) {
                    if let (3, code) = field? {
                        span.failed = code.number()? == 2;
                    }
                }
            }
            _ => {}
        }
    }
    Ok(span)
}

fn kind(number: u64) -> u8 {
    match number {
        2..=5 => u8::try_from(number).unwrap_or(0),
        _ => 0,
    }
}

/// At most what 63 bits hold; 0 is unknown.
fn moment(ns: u64) -> Option<i64> {
    (ns != 0).then(|| i64::try_from(ns).unwrap_or(i64::MAX))
}

/// A key, and a value that is no list and no table.
fn attribute<'m>(message: &'m [u8], known: &Known, into: &mut Attributes<'m>) -> Result<()> {
    let (mut slot, mut value) = (None, None);
    for field in Fields(message) {
        match field? {
            (1, key) => slot = known.slot(key.bytes()?),
            (2, any) => value = Some(any.bytes()?),
            _ => {}
        }
    }
    let Some((slot, value)) = slot.zip(value) else {
        return Ok(());
    };
    for field in Fields(value) {
        let (number, value) = field?;
        let scalar = match number {
            1 => Scalar::Text(Cow::Borrowed(value.bytes()?)),
            2 => Scalar::Bool(value.number()? != 0),
            3 => whole(i64::from_ne_bytes(value.number()?.to_ne_bytes())),
            4 => written(f64::from_bits(value.number()?)),
            _ => continue,
        };
        into.set(slot, scalar);
    }
    Ok(())
}

/// The digits of numbers below 1,000, such as the codes of HTTP.
static DIGITS: [[u8; 3]; 1000] = {
    let mut digits = [[0; 3]; 1000];
    let mut number = 0;
    while number < 1000 {
        let (a, b, c) = (number / 100, number / 10 % 10, number % 10);
        digits[number] = [b'0' + a as u8, b'0' + b as u8, b'0' + c as u8];
        number += 1;
    }
    digits
};

fn whole<'m>(number: i64) -> Scalar<'m> {
    let place = usize::try_from(number).ok();
    match place.and_then(|number| DIGITS.get(number)) {
        Some(digits) if number >= 100 => Scalar::Text(Cow::Borrowed(digits)),
        _ => written(number),
    }
}

fn written<'m>(number: impl ToString) -> Scalar<'m> {
    Scalar::Text(Cow::Owned(number.to_string().into_bytes()))
}
