//! Segments that answer bytes that were not seen yet: they wait a moment, in case the capture only
//! stored them out of order.

use super::super::ledger::Ledger;
use super::super::reader::{index, other};
use super::super::stream::REORDER;
use super::super::wire::Side;
use super::super::{Endpoint, Segment};
use super::Connection;
use serde::{Deserialize, Serialize};

/// Segments held because they answer bytes that were not seen yet.
pub(super) const HELD: usize = 64;

/// A segment that answers bytes that may still come.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Held {
    pub(super) side: Side,
    time: i64,
    seq: u32,
    ack: u32,
    flags: u8,
    len: u32,
    ts_val: Option<u32>,
    ts_ecr: Option<u32>,
    had_twice: bool,
    ip_id: Option<u16>,
    bytes: Box<[u8]>,
}

impl Connection {
    /// Releases segments whose bytes have come, or will not come any more.
    pub(super) fn settle_held(&mut self, now: i64, ledger: &mut Ledger) {
        loop {
            let Some(body) = &mut self.body else { return };
            let Some(first) = body.held.first() else {
                return;
            };
            let theirs = other(first.side);
            if body.streams[index(theirs)].missing_before(first.ack) > 0 {
                if now.saturating_sub(first.time) < REORDER && body.held.len() < HELD {
                    return;
                }
                let (time, ack) = (first.time, first.ack);
                let (time, len) = body.streams[index(theirs)].skip_to(ack, time);
                self.gap(theirs, time, len, ledger);
                self.read_ahead(theirs, now, ledger);
                continue;
            }
            let held = body.held.remove(0);
            let rest = std::mem::take(&mut body.held);
            self.stream(&held.segment(&self.ends), held.side, ledger);
            if let Some(body) = &mut self.body {
                body.held = rest;
            }
        }
    }
}

impl Held {
    pub(super) fn of(segment: &Segment<'_>, side: Side) -> Held {
        Held {
            side,
            time: segment.time,
            seq: segment.seq,
            ack: segment.ack,
            flags: segment.flags,
            len: segment.len,
            ts_val: segment.ts_val,
            ts_ecr: segment.ts_ecr,
            had_twice: segment.had_twice,
            ip_id: segment.ip_id,
            bytes: Box::from(segment.payload),
        }
    }

    pub(super) fn segment(&self, ends: &[Endpoint; 2]) -> Segment<'_> {
        let from = index(self.side);
        Segment {
            time: self.time,
            from: ends[from],
            to: ends[1 - from],
            seq: self.seq,
            ack: self.ack,
            flags: self.flags,
            window: 0,
            ts_val: self.ts_val,
            ts_ecr: self.ts_ecr,
            had_twice: self.had_twice,
            ip_id: self.ip_id,
            len: self.len,
            payload: &self.bytes,
            file: 0,
            interface: 0,
            datagram: false,
        }
    }
}
