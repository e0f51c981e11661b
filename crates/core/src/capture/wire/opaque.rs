//! Any protocol, by change of direction: the bytes of the client and the following bytes of the
//! server are one exchange. Unreadable protocols (TLS, compression, unknown ones) thus still give
//! response times and queue lengths, as long as the client waits for its answer.
//! ```text
//! client  ██  █           ███
//! server         ███  █         ██
//!         └─ exchange ─┘  └ next ┘
//! ```

use super::{Chunk, Exchanges, Outcome, Protocol, Raw, Side};
use serde::{Deserialize, Serialize};

/// A connection read by change of direction. What the server sends before any request belongs to no
/// exchange.
#[derive(Debug, Default, Deserialize, Serialize)]
pub struct Opaque {
    asking: bool,
    answering: bool,
}

impl Opaque {
    pub fn new() -> Opaque {
        Opaque::default()
    }

    /// Continues where another protocol had to stop, in the middle of an exchange.
    pub fn after_request() -> Opaque {
        Opaque {
            asking: true,
            answering: false,
        }
    }

    /// Continues in a response whose outcome was reported.
    pub fn in_response() -> Opaque {
        Opaque {
            asking: false,
            answering: true,
        }
    }
}

impl Protocol for Opaque {
    fn saved(&self) -> super::Result<super::State> {
        super::state(super::Kind::Opaque, self)
    }

    fn data(&mut self, side: Side, chunk: Chunk<'_>, out: &mut dyn Exchanges) {
        match side {
            Side::Client => {
                if !self.asking {
                    out.request(chunk.time, Raw::Unknown, 0);
                    *self = Opaque::after_request();
                }
                out.request_bytes(chunk.time, chunk.len);
            }
            Side::Server if self.asking || self.answering => {
                out.response_bytes(chunk.time, chunk.len);
                if !self.answering {
                    // It may go on: the exchange ends at the last byte before the next request.
                    out.open_ended(Outcome::Ok);
                    *self = Opaque::in_response();
                }
            }
            Side::Server => {}
        }
    }

    fn gap(&mut self, side: Side, time: i64, len: u64, out: &mut dyn Exchanges) {
        // Of a hole of unknown length, only what it may hold of the server is known: the awaited answer.
        if len > 0 || (side == Side::Server && self.asking) {
            self.data(side, Chunk::hole(time, len), out);
        }
    }

    fn end(&mut self, _side: Side, _time: i64, _out: &mut dyn Exchanges) {}
}
