//! memcached: lines of text, or messages with a header of 24 bytes. The first byte of the client tells them apart.
//!
//! A miss is an answer like any other. Sources: `doc/protocol.txt` and the wiki's `BinaryProtocolRevamped` of memcached.

mod binary;
#[cfg(test)]
mod tests;
mod text;

use super::detect::Sign;
use super::paired::Paired;
use super::{Chunk, Exchanges, Protocol, Side};
use binary::Binary;
use serde::{Deserialize, Serialize};
use text::Text;

/// A connection in one of the two forms; until a byte shows which, what is lost belongs to neither.
#[derive(Default, Deserialize, Serialize)]
pub struct Memcached {
    form: Option<Form>,
    holes: Vec<Hole>,
}

#[derive(Deserialize, Serialize)]
enum Form {
    Text(Box<Text>),
    Binary(Box<Paired<Binary>>),
}

impl Form {
    fn protocol(&mut self) -> &mut dyn Protocol {
        match self {
            Form::Text(text) => &mut **text,
            Form::Binary(binary) => &mut **binary,
        }
    }
}

/// What is missing of one side before the first byte: the beginning of the connection (no bytes), or all the bytes that
/// were lost there.
#[derive(Deserialize, Serialize)]
struct Hole {
    side: Side,
    ended: i64,
    len: u64,
}

impl Protocol for Memcached {
    fn saved(&self) -> super::Result<super::State> {
        super::state(super::Kind::Memcached, self)
    }

    fn revive(&mut self) {
        if let Some(form) = &mut self.form {
            form.protocol().revive();
        }
    }

    fn data(&mut self, side: Side, chunk: Chunk<'_>, out: &mut dyn Exchanges) {
        let form = match (&mut self.form, chunk.bytes.first()) {
            (Some(form), _) => form,
            (none, first) => {
                let form = match first {
                    Some(&(binary::REQUEST | binary::RESPONSE)) => Form::Binary(Box::default()),
                    _ => Form::Text(Box::default()),
                };
                let form = none.insert(form);
                for hole in self.holes.drain(..) {
                    form.protocol().gap(hole.side, hole.ended, hole.len, out);
                }
                form
            }
        };
        form.protocol().data(side, chunk, out);
    }

    fn gap(&mut self, side: Side, time: i64, len: u64, out: &mut dyn Exchanges) {
        if let Some(form) = &mut self.form {
            return form.protocol().gap(side, time, len, out);
        }
        let like = |hole: &&mut Hole| hole.side == side && (hole.len == 0) == (len == 0);
        match self.holes.iter_mut().find(like) {
            Some(hole) => (hole.ended, hole.len) = (time, hole.len.saturating_add(len)),
            None => self.holes.push(Hole {
                side,
                ended: time,
                len,
            }),
        }
    }

    fn end(&mut self, side: Side, time: i64, out: &mut dyn Exchanges) {
        if let Some(form) = &mut self.form {
            form.protocol().end(side, time, out);
        }
    }
}

pub(super) fn client_sign(first: &[u8]) -> Sign {
    match binary::request_here(first) {
        true => Sign::Likely,
        false => text::client_sign(first),
    }
}

pub(super) fn server_sign(first: &[u8]) -> Sign {
    match binary::response_here(first) || text::reply_here(first) {
        true => Sign::Likely,
        false => Sign::None,
    }
}
