//! Bytes of the client that were lost on a connection in use: sent again, and then acknowledged at once.
//!
//! ```text
//!   request ─────✗
//!   request ─────✗              0.2 s later
//!   request ─────▶              0.4 s later
//!           ◀───── ACK          within a twentieth of the wait
//! ```
//! A server whose kernel stands still, such as a paused virtual machine, acknowledges nothing either, and its clients
//! repeat what arrived. But it goes on at a time that is independent of their timers, and then the rule holds by
//! chance for one in twenty. Bytes that were acknowledged before they were sent again were not lost.

use super::super::attempt::Loss;
use super::super::exchange::PROMPT;
use super::super::stream::distance;
use super::super::Segment;
use serde::{Deserialize, Serialize};

/// The part of the wait before the last repetition in which the acknowledgement must follow it: 10 ms of the shortest
/// retransmission timeout of Linux.
const AT_ONCE: i64 = 20;
/// Losses of the same bytes that are remembered; no kernel repeats more often.
const REMEMBERED: usize = 32;

/// The newest bytes of the client, and their repetitions.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct Again {
    /// When they were last sent; 0 before there are any.
    sent: i64,
    /// Ends the bytes that were sent again.
    end: u32,
    losses: Vec<Loss>,
}

impl Again {
    /// New bytes.
    #[inline]
    pub(super) fn sent(&mut self, time: i64) {
        self.sent = time;
        self.losses.clear();
    }

    /// Whether nothing was sent for so long that what follows does not belong to it, on a connection that began then.
    pub(super) fn is_quiet(&self, begun: i64, time: i64) -> bool {
        time.saturating_sub(self.sent.max(begun)) > PROMPT
    }

    /// Bytes that were not acknowledged are sent again.
    pub(super) fn repeated(&mut self, segment: &Segment<'_>) {
        if self.sent != 0 && self.losses.len() < REMEMBERED {
            self.losses.push(Loss {
                begin: self.sent,
                end: segment.time,
            });
        }
        self.sent = segment.time;
        self.end = segment.seq.wrapping_add(segment.len);
    }

    /// The server has all bytes before `ack`: returns the losses that this shows.
    #[inline]
    pub(super) fn acknowledged(&mut self, ack: u32, time: i64) -> Vec<Loss> {
        if self.losses.is_empty() || distance(ack, self.end) < 0 {
            return Vec::new();
        }
        let losses = std::mem::take(&mut self.losses);
        let wait = losses.last().map_or(0, |last| last.end - last.begin);
        if time.saturating_sub(self.sent) > wait / AT_ONCE {
            return Vec::new();
        }
        losses
    }
}
