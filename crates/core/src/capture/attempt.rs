//! One connection attempt: which SYNs were lost, which was accepted, and what was lost right after.
//! ```text
//!   client              server
//!   SYN ───────────✗                accept queue full: the SYN is dropped                    drops
//!   SYN ───────────▶                1, 2, 3, 4, 5, 7, 11 s later (kernel ≥ 6.5), 3, 9 s (old ones): never assumed
//!       ◀─────────── SYN-ACK        accepted = the last SYN before it
//!   ACK ───────────✗                second mode: the queue filled up meanwhile, the final ACK is ignored,
//!   data ──────────✗                so is the data                                           data_drops
//!   data ──────────▶                0.2, 0.4, 0.8, 1.6 s later
//!       ◀─────────── SYN-ACK        repeated after 1, 2, 4 s                                 data_drops
//! ```
//!
//! A retransmission counts as the second mode only for the first bytes of the client, and only
//! while the server has been silent since its SYN-ACK: a later loss is an ordinary one
//! (`connection/again.rs`). A SYN-ACK repeated to a client that had completed the handshake and then
//! sent its first bytes *after* the repetition is a server waiting for data (TCP_DEFER_ACCEPT), and
//! no loss.
//!
//! Losses are reported when the client completes the handshake or gives up: only then is it known
//! that there was a client. A SYN that was repeated need not be a loss, either: copies of packets
//! may come late ([`super::copies`]), which the numbers of the client's next packet show.

use super::copies::Print;
use super::stream::{distance, is_near};
use super::{Segment, ACK};
use crate::record::NO_TIME;
use serde::{Deserialize, Serialize};

/// The shortest wait of a kernel before it repeats a SYN: 1 s (RFC 6298) or 3 s (RFC 2988), in
/// steps of its timers.
const FIRST_WAIT: std::ops::RangeInclusive<i64> = 950_000_000..=3_400_000_000;
/// An answer that comes so long after its SYN is a repeated one: a kernel answers at once, and repeats its answer after
/// 1 s or 3 s, in steps of its timers.
const LATE_ANSWER: [std::ops::RangeInclusive<i64>; 2] =
    [950_000_000..=1_125_000_000, 2_850_000_000..=3_400_000_000];
/// SYNs of one attempt that are remembered; no kernel sends more.
const REMEMBERED: usize = 32;
/// The most that an answer to a SYN can acknowledge. A SYN can carry data (TCP fast open), but at most
/// one packet of it.
const FAST_OPEN: i32 = 1 << 16;

/// A loss: sent at `begin` in vain, sent again at `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Loss {
    pub begin: i64,
    pub end: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syn {
    Copy,
    /// The previous SYN was lost.
    Repeat,
    /// Sent again although the server had answered: the answer was lost, not the SYN.
    AfterAnswer,
    /// Another connection on the same addresses and ports.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    First,
    Copy,
    /// Sent again; with the loss, if it is already known to be one.
    Repeat(Option<Loss>),
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Attempt {
    isn: u32,
    pub first_syn: i64,
    /// The newest SYN, and those before it, which were lost.
    syn: Print,
    lost: Vec<Print>,
    /// Time between the newest two SYNs; 0 when there was one.
    syn_gap: i64,
    pub drops: u8,
    /// It is repeated at a kernel's times: a client waits for the connection.
    steady: bool,
    /// SYNs that were repeated although they were answered.
    unheard: u8,
    /// SYN-ACKs that were repeated before it is known whether there is a client.
    answers_lost: Vec<Loss>,
    /// The SYN that was answered.
    pub accepted: i64,
    answer: Print,
    /// The SYN-ACK that reached the client (the newest before its ACK).
    pub connected: i64,
    /// When the client's side of the handshake was complete.
    pub completed: i64,
    first_data: Print,
    server_heard: bool,
    /// Repetitions of the client's first bytes and of the SYN-ACK that were losses.
    pub data_repeats: u8,
    pub answer_repeats: u8,
    /// SYN-ACK repeats that may or may not be losses.
    undecided: u8,
}

impl Attempt {
    pub fn new(syn: &Segment<'_>) -> Attempt {
        Attempt {
            isn: syn.seq,
            first_syn: syn.time,
            syn: Print::of(syn),
            lost: Vec::new(),
            syn_gap: 0,
            drops: 0,
            steady: false,
            unheard: 0,
            answers_lost: Vec::new(),
            accepted: NO_TIME,
            answer: Print::NONE,
            connected: NO_TIME,
            completed: NO_TIME,
            first_data: Print::NONE,
            server_heard: false,
            data_repeats: 0,
            answer_repeats: 0,
            undecided: 0,
        }
    }

    /// The SYN was not captured, but its answer was. The answer's time stands for the SYN's: later
    /// by one round trip.
    pub fn from_answer(answer: &Segment<'_>) -> Attempt {
        let mut attempt = Attempt::new(answer);
        attempt.isn = answer.ack.wrapping_sub(1);
        attempt.syn = Print::NONE;
        attempt.answered(answer);
        attempt
    }

    pub fn last_syn(&self) -> i64 {
        self.syn.time.max(self.first_syn)
    }

    /// The sequence number of the client's first byte.
    pub fn first_byte(&self) -> u32 {
        self.isn.wrapping_add(1)
    }

    pub fn is_answered(&self) -> bool {
        self.accepted != NO_TIME
    }

    /// Whether a SYN-ACK was captured.
    pub fn answer_seen(&self) -> bool {
        self.answer.time != NO_TIME
    }

    pub fn syn(&mut self, segment: &Segment<'_>) -> Syn {
        if segment.seq != self.isn {
            return Syn::Other;
        }
        // Once the connection is established, the client does not repeat the SYN: a SYN was only
        // late.
        let late = self.completed != NO_TIME;
        if late || self.syn.time == NO_TIME || self.syn.is_copy(segment) {
            return Syn::Copy;
        }
        let before = std::mem::replace(&mut self.syn, Print::of(segment));
        let gap = segment.time.saturating_sub(before.time);
        let usual = match self.syn_gap {
            0 => FIRST_WAIT.contains(&gap),
            // The wait is as long as the last one or twice as long, and an eighth for the steps of
            // timers.
            last => self.steady && (last - last / 8..=2 * last + last / 4).contains(&gap),
        };
        (self.steady, self.syn_gap) = (usual, gap);
        if self.is_answered() {
            self.unheard = self.unheard.saturating_add(1);
            return Syn::AfterAnswer;
        }
        if self.lost.len() < REMEMBERED {
            self.lost.push(before);
        }
        self.drops = self.drops.saturating_add(1);
        Syn::Repeat
    }

    /// A client waits for the connection: its SYN was repeated at the times at which a kernel does
    /// that.
    pub fn is_steady(&self) -> bool {
        self.steady
    }

    /// How often the client repeated its SYN although it was answered: the answers did not reach
    /// it.
    pub fn unheard(&self) -> u8 {
        self.unheard
    }

    /// Whether its SYN was captured, and not only later packets.
    pub fn is_asked(&self) -> bool {
        self.syn.time != NO_TIME
    }

    /// The lost SYNs, each reported once.
    pub fn take_lost(&mut self) -> Vec<Loss> {
        let mut lost = Vec::with_capacity(self.lost.len());
        let mut end = self.accepted.max(self.syn.time);
        for print in self.lost.drain(..).rev() {
            lost.push(Loss {
                begin: print.time,
                end,
            });
            end = print.time;
        }
        lost.reverse();
        lost
    }

    /// SYN-ACKs repeated before the client had completed the handshake, each reported once.
    pub fn take_answers_lost(&mut self) -> Vec<Loss> {
        std::mem::take(&mut self.answers_lost)
    }

    /// A third packet, such as the one that completes the handshake (with number `ip_id`), shows
    /// whether two packets with one number are one packet: a host that numbers its packets gives it
    /// another number. Then SYNs with one number count once.
    pub fn count_once(&mut self, ip_id: Option<u16>) {
        let (id, ip_id) = (self.syn.ip_id, ip_id.unwrap_or(0));
        if self.lost.is_empty() || id == 0 {
            return;
        }
        let mut numbered = ip_id != 0 && ip_id != id;
        numbered |= self.lost.iter().any(|print| print.ip_id != id);
        if !numbered {
            return;
        }
        let remembered = self.lost.len() + 1;
        let mut syns: Vec<Print> = Vec::with_capacity(remembered);
        for print in self.lost.drain(..).chain([self.syn]) {
            if !syns.iter().any(|known| known.ip_id == print.ip_id) {
                syns.push(print);
            }
        }
        let copies = remembered - syns.len();
        self.drops = self.drops.saturating_sub(copies as u8);
        let sent = |print: &&Print| print.time <= self.accepted;
        if let Some(accepted) = syns.iter().filter(sent).map(|print| print.time).max() {
            self.accepted = accepted;
        }
        self.syn = syns.pop().unwrap_or(self.syn);
        self.lost = syns;
    }

    /// Whether this SYN-ACK or RST speaks about this attempt and not an earlier connection on the same ports. A client
    /// that has heard nothing yet believes no RST without an acknowledgement (RFC 9293, 3.10.7.3).
    pub fn concerns(&self, segment: &Segment<'_>) -> bool {
        segment.flags & ACK != 0 && (1..=FAST_OPEN).contains(&distance(segment.ack, self.isn))
    }

    /// Whether this segment follows the SYN, and the answer if that was captured.
    pub fn goes_on(&self, segment: &Segment<'_>, by_server: bool) -> bool {
        let (of_client, of_server) = match by_server {
            true => (segment.ack, segment.seq),
            false => (segment.seq, segment.ack),
        };
        is_near(of_client, self.first_byte())
            && (!self.answer_seen() || is_near(of_server, self.answer.seq))
    }

    /// Whether this RST is of this attempt, which was answered: its number follows that of the SYN or the SYN-ACK.
    pub fn is_reset(&self, segment: &Segment<'_>, by_server: bool) -> bool {
        let due = match by_server {
            true if !self.answer_seen() => return true,
            true => self.answer.seq.wrapping_add(1),
            false => self.first_byte(),
        };
        (0..FAST_OPEN).contains(&distance(segment.seq, due))
    }

    pub fn answered(&mut self, segment: &Segment<'_>) -> Answer {
        if !self.is_answered() {
            (self.accepted, self.connected) = (self.last_syn(), segment.time);
            self.answer = Print::of(segment);
            self.first_answer_lost();
            // The server accepted data with the SYN.
            self.server_heard = distance(segment.ack, self.first_byte()) > 0;
            return Answer::First;
        }
        if self.answer.is_copy(segment) || self.answer.time == NO_TIME {
            return Answer::Copy;
        }
        let loss = Loss {
            begin: self.answer.time,
            end: segment.time,
        };
        self.answer = Print::of(segment);
        if self.completed == NO_TIME {
            self.connected = segment.time;
            self.answer_repeats = self.answer_repeats.saturating_add(1);
            if self.answers_lost.len() < REMEMBERED {
                self.answers_lost.push(loss);
            }
            return Answer::Repeat(None);
        } else if self.first_data.time == NO_TIME {
            self.undecided = self.undecided.saturating_add(1);
            return Answer::Repeat(None);
        }
        self.answer_repeats = self.answer_repeats.saturating_add(1);
        Answer::Repeat(Some(loss))
    }

    /// The first answer was lost before it was captured if the first captured one is late.
    fn first_answer_lost(&mut self) {
        let wait = self.connected.saturating_sub(self.accepted);
        if self.is_asked() && LATE_ANSWER.iter().any(|late| late.contains(&wait)) {
            self.answer_repeats = self.answer_repeats.saturating_add(1);
            self.answers_lost.push(Loss {
                begin: self.accepted,
                end: self.connected,
            });
        }
    }

    /// A segment of the client that is not a SYN: it completes the handshake. True the first time.
    pub fn complete(&mut self, segment: &Segment<'_>) -> bool {
        if !self.is_answered() {
            (self.accepted, self.connected) = (self.last_syn(), segment.time);
        }
        let first = self.completed == NO_TIME;
        if first {
            self.completed = segment.time;
        }
        first
    }

    /// Payload of the client. Returns the loss when it repeats the first bytes to a server that has been silent.
    pub fn client_data(&mut self, segment: &Segment<'_>) -> Option<Loss> {
        if segment.seq != self.first_byte() || self.server_heard {
            return None;
        }
        if self.first_data.time == NO_TIME {
            self.first_data = Print::of(segment);
            self.undecided = 0;
            return None;
        }
        // A repetition may carry more or fewer bytes than the first try, so only time and identity
        // count.
        let numbered = self.first_data.ip_id != self.syn.ip_id && self.first_data.ip_id != 0;
        let same_number = numbered && segment.ip_id == Some(self.first_data.ip_id);
        if same_number || self.first_data.is_copy(segment) {
            return None;
        }
        let loss = Loss {
            begin: self.first_data.time,
            end: segment.time,
        };
        self.first_data = Print::of(segment);
        if self.answer.time == NO_TIME {
            return None;
        }
        self.data_repeats = self.data_repeats.saturating_add(1);
        Some(loss)
    }

    /// A segment of the server after its SYN-ACK. Returns how many repeated SYN-ACKs were losses:
    /// the server was to speak first, and did not until the client's ACK arrived.
    pub fn server_segment(&mut self, segment: &Segment<'_>) -> u8 {
        if segment.len > 0 || distance(segment.ack, self.first_byte()) > 0 {
            self.server_heard = true;
        }
        if segment.len == 0 || self.undecided == 0 {
            return 0;
        }
        let losses = std::mem::take(&mut self.undecided);
        self.answer_repeats = self.answer_repeats.saturating_add(losses);
        losses
    }

    pub fn server_heard(&self) -> bool {
        self.server_heard
    }

    /// When the next SYN would have been due: the client gave up before that. A first repetition
    /// comes after at most 3 s (RFC 2988), a later one after at most twice the previous wait.
    pub fn given_up_by(&self) -> i64 {
        let wait = if self.syn_gap == 0 {
            3_000_000_000
        } else {
            self.syn_gap.saturating_mul(2)
        };
        // Timers are rounded up to the kernel's slots: 1/8 of their length at most.
        self.last_syn()
            .saturating_add(wait)
            .saturating_add(wait / 8)
    }
}
