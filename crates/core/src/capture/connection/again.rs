//! Bytes of the client that were lost on a connection in use: sent again, and then acknowledged at once.
//!
//! ```text
//!   request ─────✗
//!   request ─────✗              0.2 s later
//!   request ─────▶              0.4 s later
//!           ◀───── ACK          within a twentieth of the wait
//! ```
//! A server whose kernel stands still, such as a paused virtual machine, acknowledges nothing either, and its clients
//! repeat what arrived. When it goes on, it says that it has the bytes twice (D-SACK), or it answers the timestamp of
//! an earlier copy. If it answers the timestamp of the last copy, that one arrived first, and its acknowledgement may
//! wait for a response. Without timestamps, it must follow at once: the paused server goes on at a time that is
//! independent of the timers of its clients, so this holds by chance for one in twenty. Bytes that were acknowledged
//! before they were sent again were not lost.

use super::super::attempt::Loss;
use super::super::exchange::PROMPT;
use super::super::ledger::Ledger;
use super::super::stream::distance;
use super::super::Segment;
use super::Body;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// The part of the wait before the last repetition in which the acknowledgement must follow it: 10 ms of the shortest
/// retransmission timeout of Linux.
const AT_ONCE: i64 = 20;
/// Linux delays an acknowledgement for 200 ms at most (`TCP_DELACK_MAX`), and its timers have steps of up to 10 ms.
const DELAYED: i64 = 210_000_000;
/// A network loses a packet now and then. It loses two copies in a row where nothing passes.
const TWICE: usize = 2;
/// Losses of the same bytes that are remembered; no kernel repeats more often.
const REMEMBERED: usize = 32;

/// The newest bytes of the client, and their repetitions.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct Again {
    /// When they were last sent; 0 before there are any.
    sent: i64,
    /// Ends the bytes that were sent again.
    end: u32,
    /// The timestamp of the last repetition.
    stamp: Option<u32>,
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
        self.stamp = segment.ts_val;
    }

    /// The server acknowledges bytes: returns the losses that this shows. Repetitions that it does not show to be losses
    /// are `unheard`.
    #[inline]
    pub(super) fn acknowledged(&mut self, by: &Segment<'_>) -> (Vec<Loss>, Option<Loss>) {
        if self.losses.is_empty() || distance(by.ack, self.end) < 0 {
            return (Vec::new(), None);
        }
        let wait = self.losses.last().map_or(0, |last| last.end - last.begin);
        let within = match (self.stamp, by.ts_ecr) {
            (Some(last), Some(answered)) if answered == last => Some(DELAYED),
            (Some(_), Some(_)) => None, // an earlier copy arrived
            _ => Some(wait / AT_ONCE),
        };
        let after = by.time.saturating_sub(self.sent);
        if within.is_some_and(|within| after <= within) && !by.had_twice {
            return (std::mem::take(&mut self.losses), None);
        }
        let unheard = self.unheard();
        (Vec::new(), unheard.map(|it| Loss { end: by.time, ..it }))
    }

    /// The stretch in which bytes were sent again at least twice, and nothing acknowledged them.
    pub(super) fn unheard(&mut self) -> Option<Loss> {
        let losses = std::mem::take(&mut self.losses);
        let (first, last) = (losses.first()?, losses.last()?);
        (losses.len() >= TWICE).then_some(Loss {
            begin: first.begin,
            end: last.end,
        })
    }
}

impl Body {
    /// The connection is over for the client, or the recording is.
    pub(super) fn asks_no_more(
        &mut self,
        from: IpAddr,
        server: u32,
        time: i64,
        ledger: &mut Ledger,
    ) {
        ledger.unheard(from, server, self.again.unheard());
        if let Some(opening) = &mut self.queue.opening {
            opening.ask(server, time, ledger);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::tcp;
    use super::*;

    const MS: i64 = 1_000_000;

    /// How many losses an acknowledgement shows of bytes that were sent again after 200 ms.
    fn shown(after_ms: i64, answered: Option<u32>, had_twice: bool) -> usize {
        let mut again = Again::default();
        let packet = tcp("10.0.0.1:4000", "10.0.0.2:80").payload("again");
        let mut repeat = packet.segment();
        (repeat.time, repeat.ts_val) = (210 * MS, Some(7));
        again.sent(10 * MS);
        again.repeated(&repeat);
        let answer = tcp("10.0.0.2:80", "10.0.0.1:4000");
        let mut by = answer.segment();
        by.time = repeat.time + after_ms * MS;
        by.ack = repeat.seq.wrapping_add(repeat.len);
        (by.ts_ecr, by.had_twice) = (answered, had_twice);
        again.acknowledged(&by).0.len()
    }

    #[test]
    fn the_answered_timestamp_shows_which_copy_arrived_first() {
        assert_eq!(shown(40, Some(7), false), 1);
        assert_eq!(shown(1, Some(6), false), 0);
        assert_eq!(
            (shown(150, Some(7), false), shown(250, Some(7), false)),
            (1, 0)
        );
        assert_eq!((shown(9, None, false), shown(40, None, false)), (1, 0));
    }

    #[test]
    fn bytes_that_arrived_twice_were_not_lost() {
        assert_eq!(shown(1, Some(7), true), 0);
    }

    #[test]
    fn bytes_that_nothing_acknowledges_were_not_heard_until_the_acknowledgement() {
        let packet = tcp("10.0.0.1:4000", "10.0.0.2:80").payload("again");
        let sent = |times: &[i64]| {
            let mut again = Again::default();
            again.sent(10 * MS);
            for time in times {
                let mut repeat = packet.segment();
                (repeat.time, repeat.ts_val) = (time * MS, Some(7));
                again.repeated(&repeat);
            }
            again
        };
        let stretch = |end: i64| Loss {
            begin: 10 * MS,
            end: end * MS,
        };
        assert_eq!(sent(&[210, 620]).unheard(), Some(stretch(620)));
        assert_eq!(sent(&[210]).unheard(), None);
        let answer = tcp("10.0.0.2:80", "10.0.0.1:4000");
        let mut by = answer.segment();
        (by.time, by.ack, by.ts_ecr) = (900 * MS, packet.segment().seq + 5, Some(7));
        assert_eq!(
            sent(&[210, 620]).acknowledged(&by),
            (vec![], Some(stretch(900)))
        );
    }
}
