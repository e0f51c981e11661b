//! Data in the SYN (TCP fast open, RFC 7413). They wait until the server's acknowledgement shows
//! how much was accepted; the client sends the rest again after the handshake.
//! ```text
//!   client                    server
//!   SYN, cookie, "GET …" ───▶          the application may read it at once
//!       ◀─── SYN-ACK of all of it      taken: the request came with the SYN
//!       ◀─── SYN-ACK of the SYN        refused: the client sends the same bytes again
//! ```

use super::super::ledger::Ledger;
use super::super::stream::distance;
use super::super::wire::Side;
use super::super::{Segment, ACK, SYN};
use super::Connection;
use serde::{Deserialize, Serialize};

/// Captured bytes kept of a SYN: what fits into one Ethernet frame. Bytes beyond that count as cut by the snap length,
/// so that a flood of SYNs with data fills no memory.
const KEPT: usize = 1460;

#[derive(Deserialize, Serialize)]
pub(super) struct Early {
    len: u32,
    bytes: Box<[u8]>,
}

impl Early {
    pub(super) fn of(segment: &Segment<'_>) -> Option<Early> {
        let carries = segment.flags & (SYN | ACK) == SYN && segment.len > 0;
        carries.then(|| Early {
            len: segment.len,
            bytes: Box::from(&segment.payload[..segment.payload.len().min(KEPT)]),
        })
    }
}

impl Connection {
    /// Whether this SYN-ACK acknowledges data: the server then has a request, and can answer
    /// without waiting.
    pub(super) fn takes_early(&self, answer: &Segment<'_>) -> bool {
        let attempt = self.attempt.as_ref();
        self.early.is_some()
            && attempt.is_some_and(|attempt| distance(answer.ack, attempt.first_byte()) > 0)
    }

    /// `segment` establishes the connection: the accepted part of the SYN's data is read, at the
    /// time at which the SYN was accepted. If no SYN-ACK was captured, the first segment after it
    /// shows how much that is.
    pub(super) fn read_early(&mut self, segment: &Segment<'_>, side: Side, ledger: &mut Ledger) {
        let (Some(early), Some(attempt)) = (self.early.take(), &self.attempt) else {
            return;
        };
        let first = attempt.first_byte();
        let taken = match side {
            Side::Server => distance(segment.ack, first),
            Side::Client if attempt.answer_seen() => 0,
            Side::Client => distance(segment.seq, first),
        };
        let len = u32::try_from(taken).unwrap_or(0).min(early.len);
        if len == 0 {
            return;
        }
        let [from, to] = self.ends;
        let data = Segment {
            time: attempt.accepted,
            from,
            to,
            seq: first,
            flags: 0,
            len,
            payload: &early.bytes[..early.bytes.len().min(len as usize)],
            ..*segment
        };
        self.stream(&data, Side::Client, ledger);
    }

    /// What a SYN-ACK carries besides the acknowledgement.
    pub(super) fn answer_data(&mut self, answer: &Segment<'_>, ledger: &mut Ledger) {
        if answer.len > 0 {
            let data = Segment {
                seq: answer.seq.wrapping_add(1),
                flags: answer.flags & !SYN,
                ..*answer
            };
            self.stream(&data, Side::Server, ledger);
        }
    }
}
