//! One connection from its SYN to its end: handshake, bytes in order, exchanges.
//!
//! ```text
//!            SYN-ACK        ACK, or anything of the client        RST, or both FINs
//!   Asking ──────────▶ Answered ──────────▶ Open ──────────▶ Closed (kept for a while: copies still come)
//!   a connection that was open before the recording starts here ─┘
//! ```
//! A server and a host get their names when a connection is established, or when an attempt fails: a flood of SYNs must
//! not take up the room for them.

macro_rules! scribe {
    ($self:ident, $body:ident, $ledger:ident) => {
        Scribe {
            queue: &mut $body.queue,
            ledger: &mut *$ledger,
            parties: $self.parties,
            data_repeats: $self
                .attempt
                .as_ref()
                .map_or(0, |attempt| attempt.data_repeats),
            answer_repeats: $self
                .attempt
                .as_ref()
                .map_or(0, |attempt| attempt.answer_repeats),
            opaque: None,
            refused: Vec::new(),
            in_hole: false,
        }
    };
}

mod again;
mod early;
pub mod failed;
mod handshake;
mod held;
mod proxied;
mod roles;
mod sealed;

use self::again::Again;
use self::early::Early;
use self::held::{Held, HELD};
use self::proxied::behind_header;
use self::sealed::Sealed;
use super::attempt::{Attempt, Syn};
use super::exchange::{Parties, Queue, Scribe};
use super::ledger::Ledger;
use super::reader::{index, other, Reader};
use super::servers::Evidence;
use super::stream::{Place, Ready, Stream, Verdict, PATIENCE};
use super::tls::Keys;
use super::wire::{Chunk, Side};
use super::{Endpoint, Segment, ACK, FIN, RST, SYN};
use crate::record::{NO_NAME, NO_TIME};
use serde::{Deserialize, Serialize};

/// How long a closed connection is remembered, so that late copies and retransmissions do not look
/// like a new one.
const LINGER: i64 = 2_000_000_000;
/// After this silence an exchange of an opaque connection is over, because its end cannot be read.
/// It is longer than the stalls that Tailrace looks for, which would cut a response in two.
const OPAQUE_IDLE: i64 = 5_000_000_000;
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
enum Phase {
    Asking,
    Answered,
    Open,
    Closed,
}

/// The evidence for which end is the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Roles {
    Unknown,
    Guessed,
    Certain,
}

/// What the table must do with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Keep,
    /// Something is pending: check again in a second.
    Watch,
    Remove,
}

/// Data that only a connection with bytes needs.
#[derive(Deserialize, Serialize)]
struct Body {
    streams: [Stream; 2],
    ended: [bool; 2],
    reader: Reader,
    /// Its content, if the client began TLS.
    sealed: Option<Box<Sealed>>,
    queue: Queue,
    held: Vec<Held>,
    again: Again,
    /// The side that closed first; not a client that closed its direction with its request, and waits for the answer.
    left: Option<Side>,
}

#[derive(Deserialize, Serialize)]
pub struct Connection {
    /// Client, server.
    ends: [Endpoint; 2],
    roles: Roles,
    parties: Parties,
    phase: Phase,
    /// Nothing has gone both ways yet: handshake rules apply.
    opening: bool,
    /// Its attempt is among the failed ones, or was until there was another sign of it.
    told: bool,
    was_told: bool,
    attempt: Option<Attempt>,
    /// The data of the SYN, until the server answers it.
    early: Option<Early>,
    body: Option<Box<Body>>,
    pub last: i64,
    closed: i64,
}

impl Connection {
    /// Starts with this segment, if it can begin a connection.
    pub fn start(segment: &Segment<'_>, ledger: &mut Ledger) -> Option<Connection> {
        let from_server = segment.flags & (SYN | ACK) == SYN | ACK;
        let syn = segment.flags & SYN != 0;
        // Bare acknowledgements, resets and keep-alive probes (one old byte) begin nothing.
        if segment.flags & RST != 0
            || (!syn && (segment.len == 0 || (segment.len == 1 && segment.flags == ACK)))
        {
            return None;
        }
        let ends = if from_server {
            [segment.to, segment.from]
        } else {
            [segment.from, segment.to]
        };
        let parties = Parties {
            server: NO_NAME,
            caller: NO_NAME,
            connection: ledger.next_connection(),
        };
        let mut connection = Connection {
            ends,
            roles: if syn { Roles::Certain } else { Roles::Unknown },
            parties,
            phase: Phase::Open,
            opening: syn,
            told: false,
            was_told: false,
            attempt: None,
            early: Early::of(segment),
            body: None,
            last: segment.time,
            closed: NO_TIME,
        };
        ledger.counts.connections += 1;
        if from_server {
            connection.attempt = Some(Attempt::from_answer(segment));
            connection.phase = Phase::Answered;
            connection.enlist(Evidence::Syn, ledger);
        } else if syn {
            connection.attempt = Some(Attempt::new(segment));
            connection.phase = Phase::Asking;
        } else {
            ledger.counts.connections_midstream += 1;
            ledger.servers.count_peers(ends);
            connection.embody();
        }
        Some(connection)
    }

    pub fn revive(&mut self, keys: &Keys) {
        let sealed = self.body.as_mut().and_then(|body| body.sealed.as_mut());
        if let Some(sealed) = sealed {
            sealed.revive(keys);
        }
    }

    fn serve(&mut self, server: u32, ledger: &mut Ledger) {
        self.parties.server = server;
        self.parties.caller = ledger.servers.call(self.ends[0].ip, &mut ledger.names);
    }

    fn embody(&mut self) {
        self.body.get_or_insert_with(|| {
            let streams = [Stream::new(), Stream::new()];
            Box::new(Body {
                streams,
                ended: [false; 2],
                reader: Reader::new(),
                sealed: None,
                queue: Queue::default(),
                held: Vec::new(),
                again: Again::default(),
                left: None,
            })
        });
    }

    pub fn client(&self) -> Endpoint {
        self.ends[0]
    }

    pub fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    pub fn open_exchanges(&self) -> usize {
        self.body.as_ref().map_or(0, |body| body.queue.len())
    }

    /// Whether this segment opens another connection on the same ports.
    pub fn is_over_for(&mut self, segment: &Segment<'_>) -> bool {
        if segment.flags & (SYN | ACK) != SYN || segment.flags & RST != 0 {
            return false;
        }
        if segment.from != self.ends[0] {
            // The server opens a connection to its client, or the roles were guessed wrongly.
            return true;
        }
        match &self.attempt {
            None => true,
            Some(attempt) => match attempt.clone().syn(segment) {
                Syn::Other => true,
                Syn::Copy => false,
                Syn::Repeat | Syn::AfterAnswer => self.is_closed(),
            },
        }
    }

    pub fn roles_guessed(&self) -> bool {
        self.roles == Roles::Guessed
    }

    /// Processes a segment; its first one only if that was not a SYN.
    pub fn segment(&mut self, segment: &Segment<'_>, ledger: &mut Ledger) -> Next {
        let side = if segment.from == self.ends[0] {
            Side::Client
        } else {
            Side::Server
        };
        self.last = segment.time;
        if self.is_closed() {
            return Next::Keep;
        }
        if self.strays(segment, side, ledger) {
            return self.next();
        }
        if self.opening || segment.flags & (SYN | RST) != 0 {
            if segment.flags & SYN != 0 {
                self.syn(segment, side, ledger);
            } else if segment.flags & RST != 0 {
                self.reset(segment, side, ledger);
            } else {
                self.handshake(segment, side, ledger);
            }
        }
        if segment.flags & (SYN | RST) == 0 && self.phase == Phase::Open {
            let holding = self.body.as_ref().is_some_and(|body| !body.held.is_empty());
            if holding {
                self.settle_held(segment.time, ledger);
            }
            self.stream(segment, side, ledger);
            if holding {
                self.settle_held(segment.time, ledger);
            }
        }
        self.next()
    }

    /// Whether the segment's numbers are of another connection, or damaged. Behind a hole that is larger than any window
    /// the second segment is believed.
    fn strays(&mut self, segment: &Segment<'_>, side: Side, ledger: &mut Ledger) -> bool {
        let Some(body) = &mut self.body else {
            return false;
        };
        let (mine, theirs) = (index(side), index(other(side)));
        let seq = match segment.flags & SYN {
            0 => body.streams[mine].judge(segment.seq),
            _ => Verdict::Fits,
        };
        let ack = match segment.flags & ACK {
            0 => Verdict::Fits,
            _ => body.streams[theirs].judge(segment.ack),
        };
        if seq == Verdict::Strays || ack == Verdict::Strays {
            ledger.counts.strays += 1;
            return true;
        }
        for (verdict, number, whose) in [(seq, segment.seq, side), (ack, segment.ack, other(side))]
        {
            if verdict == Verdict::Jumps {
                if let Some(body) = &mut self.body {
                    body.streams[index(whose)].jump_to(number);
                }
                self.gap(whose, segment.time, 0, ledger);
            }
        }
        false
    }

    pub fn next(&self) -> Next {
        let pending = match self.phase {
            Phase::Closed | Phase::Asking => true,
            _ => self.body.as_ref().is_some_and(|body| {
                !body.held.is_empty()
                    || body.streams.iter().any(Stream::waits)
                    || (body.reader.is_opaque() && body.queue.answered_since().is_some())
            }),
        };
        if pending {
            Next::Watch
        } else {
            Next::Keep
        }
    }

    /// Processes acknowledgement, payload and FIN of a segment of an open connection.
    fn stream(&mut self, segment: &Segment<'_>, side: Side, ledger: &mut Ledger) {
        let Some(body) = &mut self.body else { return };
        let (mine, theirs) = (index(side), index(other(side)));
        if segment.flags & ACK != 0 {
            if segment.len > 0 || segment.flags & FIN != 0 {
                let unseen = body.streams[theirs].missing_before(segment.ack);
                if unseen > 0 && body.held.len() < HELD {
                    body.held.push(Held::of(segment, side));
                    return;
                }
            }
            body.streams[theirs].acknowledge(segment.ack);
            if side == Side::Server {
                let (losses, unheard) = body.again.acknowledged(segment);
                body.queue.lost(losses, self.parties.server, ledger);
                ledger.unheard(self.ends[0].ip, self.parties.server, unheard);
            }
        }
        body.streams[mine].finish_at(segment);
        if segment.len > 0 {
            match body.streams[mine].place(segment) {
                Place::InOrder { skip } => {
                    match side {
                        Side::Client => body.again.sent(segment.time),
                        Side::Server => body.queue.speak(segment.time),
                    }
                    let bytes = segment.payload.get(skip as usize..).unwrap_or(&[]);
                    self.read(side, segment.time, bytes, segment.len - skip, ledger);
                }
                Place::Ahead => {}
                Place::Copy => ledger.counts.copies += 1,
                // One old byte is a keep-alive.
                Place::Old if segment.len > 1 => {
                    ledger.counts.retransmissions += 1;
                    if side == Side::Client && !self.opening && body.streams[mine].is_open(segment)
                    {
                        body.again.repeated(segment);
                    }
                    if side == Side::Server {
                        let server = self.parties.server;
                        body.queue.answered_again(server, segment.time, ledger);
                    }
                }
                Place::Old => {}
            }
        }
        self.drain(segment.time, ledger);
    }

    #[inline]
    fn read(&mut self, side: Side, time: i64, bytes: &[u8], len: u32, ledger: &mut Ledger) {
        let Some(body) = &mut self.body else { return };
        match &mut body.queue.opening {
            Some(opening) if opening.refuses(side, bytes) => {}
            Some(opening) if side == Side::Server && !opening.asked => {
                if !opening.greeted {
                    ledger
                        .servers
                        .tally(self.parties.server, |tally| tally.greeted += 1);
                }
                (opening.ready, opening.greeted) = (opening.ready.max(time), true);
            }
            Some(opening) => opening.ask(self.parties.server, time, ledger),
            None => {}
        }
        let mut out = scribe!(self, body, ledger);
        let mut chunk = Chunk {
            time,
            bytes,
            len: u64::from(len),
        };
        if side == Side::Client && out.queue.requests == 0 && body.reader.begins() {
            chunk = behind_header(chunk);
            if chunk.len == 0 {
                return;
            }
        }
        if side == Side::Client && self.roles == Roles::Certain && body.sealed.is_none() {
            body.sealed = Sealed::begin(&mut body.reader, &chunk, &mut out);
        }
        match &mut body.sealed {
            Some(sealed) => sealed.data(side, chunk, &mut body.reader, &mut out),
            None => body.reader.data(side, chunk, &mut out),
        }
        if matches!(body.reader, Reader::Listening(_)) {
            self.settle_reader(false, ledger);
        }
    }

    /// Reads the bytes behind holes that are now readable, and reports the ends that have been
    /// reached.
    fn drain(&mut self, now: i64, ledger: &mut Ledger) {
        for side in [Side::Client, Side::Server] {
            self.read_ahead(side, now, ledger);
            self.end(side, self.last, ledger);
        }
        if self
            .body
            .as_ref()
            .is_some_and(|body| body.ended == [true; 2])
        {
            let by_client = self.left() != Some(Side::Server);
            self.end_all(self.last, by_client, ledger);
        }
    }

    /// The side that closed first.
    fn left(&self) -> Option<Side> {
        self.body.as_ref().and_then(|body| body.left)
    }

    fn read_ahead(&mut self, side: Side, now: i64, ledger: &mut Ledger) {
        while let Some(ready) = self
            .body
            .as_mut()
            .and_then(|body| body.streams[index(side)].ready(now))
        {
            match ready {
                Ready::Gap { time, len } => self.gap(side, time, len, ledger),
                Ready::Bytes {
                    time,
                    len,
                    bytes,
                    skip,
                } if skip < len => {
                    self.read(
                        side,
                        time,
                        bytes.get(skip as usize..).unwrap_or(&[]),
                        len - skip,
                        ledger,
                    );
                }
                Ready::Bytes { .. } => {}
            }
        }
    }

    fn gap(&mut self, side: Side, time: i64, len: u32, ledger: &mut Ledger) {
        let Some(body) = &mut self.body else { return };
        ledger.counts.gaps += 1;
        ledger.counts.gap_bytes += u64::from(len);
        let mut out = scribe!(self, body, ledger);
        match &mut body.sealed {
            Some(sealed) => sealed.gap(side, time, u64::from(len), &mut body.reader, &mut out),
            None => body.reader.gap(side, time, u64::from(len), &mut out),
        }
    }

    #[inline]
    fn end(&mut self, side: Side, time: i64, ledger: &mut Ledger) {
        let Some(body) = &mut self.body else { return };
        if !body.ended[index(side)] && body.streams[index(side)].finished() {
            body.ended[index(side)] = true;
            if let (Side::Client, Some(opening)) = (side, &mut body.queue.opening) {
                opening.ask(self.parties.server, time, ledger);
            }
            let begun = self.attempt.as_ref().map_or(NO_TIME, |it| it.first_syn);
            if side == Side::Server || body.again.is_quiet(begun, time) {
                body.left = body.left.or(Some(side));
            }
            self.settle_reader(true, ledger);
            let Some(body) = &mut self.body else { return };
            let kept = body.ended != [true; 2];
            let mut out = scribe!(self, body, ledger);
            if kept {
                out.resume(time);
            }
            body.reader.end(side, time, &mut out);
            if kept && body.left == Some(Side::Client) {
                out.give_up(time);
            }
        }
    }

    /// The connection is over.
    fn end_all(&mut self, time: i64, by_client: bool, ledger: &mut Ledger) {
        self.settle_held(i64::MAX, ledger);
        self.settle_reader(true, ledger);
        if let Some(body) = &mut self.body {
            body.asks_no_more(self.ends[0].ip, self.parties.server, time, ledger);
            let kept = body.ended == [false; 2];
            let mut out = scribe!(self, body, ledger);
            if kept {
                out.resume(time);
            }
            for side in [Side::Client, Side::Server] {
                if !body.ended[index(side)] {
                    body.reader.end(side, time, &mut out);
                }
            }
            out.close_all(time, by_client);
        }
        self.close(time, ledger);
    }

    fn close(&mut self, time: i64, ledger: &mut Ledger) {
        if self.phase == Phase::Open {
            ledger
                .servers
                .tally(self.parties.server, |tally| tally.part());
        }
        (self.phase, self.closed, self.body) = (Phase::Closed, time, None);
        self.early = None;
    }

    /// A second or more has passed since something was pending.
    pub fn tick(&mut self, now: i64, ledger: &mut Ledger) -> Next {
        match self.phase {
            Phase::Closed if now.saturating_sub(self.closed) >= LINGER => return Next::Remove,
            Phase::Closed => return Next::Watch,
            Phase::Asking => return self.tick_attempt(now, ledger),
            Phase::Answered | Phase::Open => {}
        }
        self.settle_held(now, ledger);
        self.drain(now, ledger);
        let Some(body) = &mut self.body else {
            return if self.is_closed() {
                Next::Watch
            } else {
                Next::Keep
            };
        };
        let mut watch = !body.held.is_empty() || body.streams.iter().any(Stream::waits);
        if let Some(since) = body
            .queue
            .answered_since()
            .filter(|_| body.reader.is_opaque())
        {
            if now.saturating_sub(since) >= OPAQUE_IDLE {
                scribe!(self, body, ledger).close_answered();
            } else {
                watch = true;
            }
        }
        if watch {
            Next::Watch
        } else {
            Next::Keep
        }
    }

    /// Another connection uses these ports, so the end of this one is missing in the capture.
    pub fn replace(&mut self, time: i64, ledger: &mut Ledger) {
        self.settle_reader(true, ledger);
        if let Some(body) = &mut self.body {
            body.queue.server_gap();
        }
        self.supersede(time, ledger);
    }

    /// This connection was silent for too long, or is over: everything open ends here.
    pub fn supersede(&mut self, time: i64, ledger: &mut Ledger) {
        match self.phase {
            Phase::Asking | Phase::Answered => self.expire(time, ledger),
            Phase::Open => self.end_all(self.last, true, ledger),
            Phase::Closed => {}
        }
    }

    /// The recording ends: open exchanges are counted, not failed. For attempts, see
    /// [`Self::attempt_ends`].
    pub fn recording_ends(&mut self, now: i64, ledger: &mut Ledger) {
        if self.phase != Phase::Open {
            return;
        }
        self.settle_held(i64::MAX, ledger);
        self.drain(now.saturating_add(PATIENCE), ledger);
        self.settle_reader(true, ledger);
        ledger.counts.connections_open += u64::from(!self.is_closed());
        if let Some(body) = &mut self.body {
            body.asks_no_more(self.ends[0].ip, self.parties.server, now, ledger);
            scribe!(self, body, ledger).close_recording();
        }
    }
}
