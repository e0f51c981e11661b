//! The streams of one connection: each that a client opens for both directions is a visit.
//! ```text
//! client  HEADERS DATA … end                          begin: its first byte
//! server                      HEADERS DATA … end      first_byte, departure
//! ```

use std::collections::{BTreeSet, VecDeque};

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::super::attempt::Loss;
use super::super::exchange::{PROMPT, TRACED};
use super::super::ledger::{Ledger, Status, Traced};
use super::super::opening::Opening;
use super::super::reader::index;
use super::super::wire::http2::codes;
use super::super::wire::http2::fields::Fields;
use super::super::wire::software::Software;
use super::super::wire::trace::Trace;
use super::super::wire::{path_key, Outcome, Raw, Side};
use super::http3::{table_size, Frame, Frames, Way};
use super::order::{Order, Piece, Ranges};
use super::qpack::Table;
use crate::record::{Visit, NO_ID, NO_TIME};

/// Streams that are open at once on a connection.
const OPEN_MAX: usize = 1024;
/// Bytes that wait for earlier ones of their stream.
const ROOM: usize = 256 << 10;
/// Bytes that all streams of a connection hold together: those that wait, and those of frames without their end.
const HELD_MAX: usize = 4 << 20;
/// Streams with sections that wait for entries of a table, and sections of one of them: a head, its trailers, and what may
/// come before.
const BLOCKED_MAX: usize = 64;
const SECTIONS_MAX: usize = 8;
/// Repeats of a request's first bytes that are kept.
const TRIES_MAX: usize = 16;

/// Bytes of a stream, as a frame carries them.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    pub id: u64,
    pub offset: u64,
    pub bytes: &'a [u8],
    pub ends: bool,
    pub time: i64,
    /// The number of its packet.
    pub number: u64,
}

#[derive(Default, Deserialize, Serialize)]
struct Half {
    order: Order,
    frames: Frames,
    bytes: u64,
    /// Sections in their order. The first refers to entries that are still to come.
    blocked: VecDeque<Vec<u8>>,
}

impl Half {
    fn held(&self) -> usize {
        let blocked: usize = self.blocked.iter().map(Vec::len).sum();
        self.order.held() + self.frames.held() + blocked
    }
}

/// What the head of a request says. Its text is not kept: a few bytes may refer to a long one in the table.
#[derive(Clone, Copy, Deserialize, Serialize)]
struct Asked {
    interaction: u32,
    key: u64,
    connects: bool,
    trace: Trace,
}

#[derive(Deserialize, Serialize)]
struct Exchange {
    halves: [Half; 2],
    asked: Option<Asked>,
    /// When its first bytes were sent, and in which packet: again and again.
    tries: Vec<(i64, u64)>,
    opening: Option<Opening>,
    first_byte: i64,
    last_byte: i64,
    outcome: Outcome,
    grpc: bool,
    answered: bool,
    /// The answer is a stream of events.
    events: bool,
    software: Software,
}

/// Who takes part, and where the requests go.
pub struct Desk<'a> {
    pub ledger: &'a mut Ledger,
    pub server: u32,
    pub caller: u32,
    pub connection: u32,
    /// Packets of the client that the server has acknowledged.
    pub acked: &'a Ranges,
}

#[derive(Default, Deserialize, Serialize)]
pub struct Requests {
    /// Frames of HTTP/3 are inside.
    pub http3: bool,
    pub opening: Option<Opening>,
    tables: [Table; 2],
    ways: FxHashMap<u64, (Order, Way)>,
    open: FxHashMap<u64, Exchange>,
    /// Streams that are over, by their ordinal number.
    closed: Ranges,
    /// Streams with sections of a side that wait.
    waiting: [BTreeSet<u64>; 2],
    held: usize,
    pub count: u64,
}

impl Requests {
    /// Bytes that its streams hold.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Bytes that may wait in one stream.
    fn room(&self) -> usize {
        ROOM.min(HELD_MAX.saturating_sub(self.held))
    }

    /// Bytes of a stream. False: all of them had come before.
    pub fn part(&mut self, side: Side, part: Part<'_>, desk: &mut Desk<'_>) -> bool {
        match part.id & 3 {
            0 => self.exchange(side, part, desk),
            2 | 3 => self.way(side, part, desk),
            _ => true,
        }
    }

    /// A stream of one direction, of which those with settings and with the entries of tables are read.
    fn way(&mut self, side: Side, part: Part<'_>, desk: &mut Desk<'_>) -> bool {
        let of = if part.id & 1 == 0 {
            Side::Client
        } else {
            Side::Server
        };
        if of != side
            || !self.http3
            || self.ways.len() >= OPEN_MAX && !self.ways.contains_key(&part.id)
        {
            return true;
        }
        let room = self.room();
        let (order, way) = self.ways.entry(part.id).or_default();
        let before = order.held() + way.held();
        let tables = &mut self.tables;
        let (mine, others) = (index(side), 1 - index(side));
        let new = order.put(part.offset, part.bytes, room, &mut |piece| {
            let piece = match (&way, piece) {
                (Way::New, Piece::Bytes(bytes)) => {
                    let Some((&kind, rest)) = bytes.split_first() else {
                        return;
                    };
                    *way = Way::of(kind);
                    Piece::Bytes(rest)
                }
                (_, piece) => piece,
            };
            match (&mut *way, piece) {
                (Way::New, Piece::Lost(_)) => *way = Way::Other,
                (Way::Control(frames), piece) => frames.take(piece, &mut |frame| {
                    if let Frame::Settings(settings) = frame {
                        tables[others].entries_max = Some(table_size(&settings) / 32);
                    }
                }),
                (Way::Encoder, Piece::Bytes(bytes)) => tables[mine].instructions(bytes),
                (Way::Encoder, Piece::Lost(_)) => tables[mine].lose(),
                _ => {}
            }
        });
        self.held = self.held.saturating_sub(before) + order.held() + way.held();
        if matches!(way, Way::Encoder) {
            self.unblock(side, desk);
        }
        new
    }

    /// Reads the sections whose entries have come.
    fn unblock(&mut self, side: Side, desk: &mut Desk<'_>) {
        let waiting: Vec<u64> = self.waiting[index(side)].iter().copied().collect();
        for id in waiting {
            let Some(exchange) = self.open.get_mut(&id) else {
                self.waiting[index(side)].remove(&id);
                continue;
            };
            let before = exchange.held();
            exchange.read_blocked(side, &self.tables[index(side)], false, desk.ledger);
            self.held = self.held.saturating_sub(before) + exchange.held();
            if exchange.halves[index(side)].blocked.is_empty() {
                self.waiting[index(side)].remove(&id);
                self.close_if_over(id, desk);
            }
        }
    }

    fn exchange(&mut self, side: Side, part: Part<'_>, desk: &mut Desk<'_>) -> bool {
        // The set of those that are closed forgets old gaps, in which others may still be open.
        if !self.open.contains_key(&part.id) {
            if self.closed.has(part.id >> 2) {
                return false;
            }
            if !self.begin(side, part, desk) {
                return true;
            }
        }
        let (room, table) = (self.room(), &self.tables[index(side)]);
        let waiting = &mut self.waiting[index(side)];
        let may_wait = room > 0 && (waiting.len() < BLOCKED_MAX || waiting.contains(&part.id));
        let Some(exchange) = self.open.get_mut(&part.id) else {
            return true;
        };
        let before = exchange.held();
        let http3 = self.http3;
        let new = exchange.take(
            side,
            part,
            |half, section| {
                if half.blocked.is_empty() && !(may_wait && table.awaits(&section)) {
                    return Some(read(table, &section));
                }
                if half.blocked.len() < SECTIONS_MAX {
                    half.blocked.push_back(section);
                }
                None
            },
            (room, http3),
            desk.ledger,
        );
        self.held = self.held.saturating_sub(before) + exchange.held();
        if !exchange.halves[index(side)].blocked.is_empty() {
            waiting.insert(part.id);
        }
        self.close_if_over(part.id, desk);
        new
    }

    fn begin(&mut self, side: Side, part: Part<'_>, desk: &mut Desk<'_>) -> bool {
        if side == Side::Server {
            // Its request is not in the capture.
            return false;
        }
        if self.open.len() >= OPEN_MAX {
            desk.ledger.counts.requests_lost += 1;
            return false;
        }
        let opening = self.opening.take();
        let waited = |opening: &Opening| part.time <= opening.ready.saturating_add(PROMPT);
        self.open.insert(
            part.id,
            Exchange {
                halves: Default::default(),
                asked: None,
                tries: Vec::new(),
                opening: opening.filter(waited),
                first_byte: NO_TIME,
                last_byte: part.time,
                outcome: Outcome::Ok,
                grpc: false,
                answered: false,
                events: false,
                software: Software::default(),
            },
        );
        self.count += 1;
        desk.ledger
            .servers
            .tally(desk.server, |tally| tally.enter());
        true
    }

    /// A side gives its half up, or wants nothing more of the other's.
    pub fn reset(&mut self, side: Side, id: u64, time: i64, desk: &mut Desk<'_>) {
        let Some(exchange) = self.open.get_mut(&id) else {
            return;
        };
        exchange.last_byte = exchange.last_byte.max(time);
        let status = match side {
            Side::Client => Status::Abandoned,
            Side::Server => Status::Reset,
        };
        self.close(id, Some(status), desk);
    }

    fn close_if_over(&mut self, id: u64, desk: &mut Desk<'_>) {
        let over = |open: &Exchange| {
            // What follows on a stream of events or in a tunnel comes when somebody has news.
            let connects = open.asked.is_some_and(|asked| asked.connects);
            let lasts = open.answered && (connects && open.outcome == Outcome::Ok || open.events);
            (open.halves[1].order.is_whole() || lasts) && !open.is_blocked()
        };
        if self.open.get(&id).is_some_and(over) {
            self.close(id, None, desk);
        }
    }

    fn close(&mut self, id: u64, status: Option<Status>, desk: &mut Desk<'_>) {
        let Some(mut exchange) = self.open.remove(&id) else {
            return;
        };
        self.closed.add(id >> 2, id >> 2);
        self.held = self.held.saturating_sub(exchange.held());
        for side in [Side::Client, Side::Server] {
            self.waiting[index(side)].remove(&id);
            exchange.read_blocked(side, &self.tables[index(side)], true, desk.ledger);
        }
        let read = exchange.answered || !self.http3;
        let status = status.unwrap_or(match read {
            true => Status::of(exchange.outcome),
            false => Status::Unknown,
        });
        desk.ledger
            .servers
            .tally(desk.server, |tally| tally.leave());
        exchange.tell(status, desk);
    }

    /// The connection is over (at this time, if a side closed it), or the recording is.
    pub fn finish(&mut self, closed: Option<(Side, i64)>, desk: &mut Desk<'_>) {
        let mut ids: Vec<u64> = self.open.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            let Some(exchange) = self.open.get_mut(&id) else {
                continue;
            };
            let status = match closed {
                // Its last bytes are not in the capture.
                _ if exchange.halves[1].order.has_end() => Some(Status::Unknown),
                Some((side, time)) => {
                    exchange.last_byte = exchange.last_byte.max(time);
                    Some(match side {
                        Side::Client => Status::Abandoned,
                        Side::Server => Status::Reset,
                    })
                }
                None => None,
            };
            match status {
                Some(status) => self.close(id, Some(status), desk),
                None => exchange.remains(desk),
            }
        }
    }
}

fn read(table: &Table, section: &[u8]) -> Fields {
    let mut fields = Fields::default();
    table.read(section, &mut |field| fields.take(field));
    fields
}

impl Exchange {
    fn is_blocked(&self) -> bool {
        self.halves.iter().any(|half| !half.blocked.is_empty())
    }

    fn held(&self) -> usize {
        self.halves.iter().map(Half::held).sum()
    }

    fn begun(&self) -> i64 {
        self.tries.first().map_or(self.last_byte, |first| first.0)
    }

    /// Bytes of one side; `section` reads a section, or keeps it for later.
    fn take(
        &mut self,
        side: Side,
        part: Part<'_>,
        mut section: impl FnMut(&mut Half, Vec<u8>) -> Option<Fields>,
        (room, http3): (usize, bool),
        ledger: &mut Ledger,
    ) -> bool {
        if side == Side::Client && part.offset == 0 && self.tries.len() < TRIES_MAX {
            self.tries.push((part.time, part.number));
        }
        let half = &mut self.halves[index(side)];
        if room == 0 {
            half.frames.forget();
        }
        let (mut sections, mut frames) = (Vec::new(), std::mem::take(&mut half.frames));
        let new = half.order.put(part.offset, part.bytes, room, &mut |piece| {
            if http3 {
                frames.take(piece, &mut |frame| {
                    if let Frame::Headers(section) = frame {
                        sections.push(section);
                    }
                });
            }
        });
        half.frames = frames;
        if part.ends {
            half.order
                .ends_at(part.offset.saturating_add(part.bytes.len() as u64));
        }
        let read: Vec<Fields> = sections
            .into_iter()
            .filter_map(|whole| section(half, whole))
            .collect();
        if new {
            half.bytes += part.bytes.len() as u64;
        }
        if side == Side::Server && (new || part.ends) {
            self.last_byte = self.last_byte.max(part.time);
            if self.first_byte == NO_TIME {
                self.first_byte = part.time;
            }
        }
        for fields in read {
            self.learn(side, fields, ledger);
        }
        new || part.bytes.is_empty()
    }

    /// Reads its sections that wait: `all`, or those whose entries have come.
    fn read_blocked(&mut self, side: Side, table: &Table, all: bool, ledger: &mut Ledger) {
        let ready = |section: &Vec<u8>| all || !table.awaits(section);
        while self.halves[index(side)].blocked.front().is_some_and(ready) {
            if let Some(section) = self.halves[index(side)].blocked.pop_front() {
                self.learn(side, read(table, &section), ledger);
            }
        }
    }

    /// A head, or trailers.
    fn learn(&mut self, side: Side, fields: Fields, ledger: &mut Ledger) {
        if side == Side::Client {
            self.asked.get_or_insert_with(|| Asked {
                interaction: ledger.interaction(fields.raw()),
                key: path_key(&fields.target),
                connects: fields.connects(),
                trace: fields.trace.trace(),
            });
            return;
        }
        if matches!(fields.status, Some(100..=199)) {
            return;
        }
        self.software.take_all(&fields.software);
        // Trailers have no type.
        self.events |= fields.events && !self.answered;
        self.answered |= fields.status.is_some();
        self.grpc |= fields.grpc;
        if let Some(code @ 400..) = fields.status {
            self.outcome = Outcome::Http(code);
        }
        if let Some(value) = fields.grpc_status.as_deref().filter(|_| self.grpc) {
            self.outcome = codes::grpc(value);
        }
    }

    /// The first bytes that the server has acknowledged, as a position in `tries`; the earlier ones were lost.
    fn arrived(&self, acked: &Ranges) -> usize {
        let answered = |&(_, number): &(i64, u64)| acked.has(number);
        self.tries.iter().position(answered).unwrap_or(0)
    }

    fn tell(self, status: Status, desk: &mut Desk<'_>) {
        let (begun, lost) = (self.begun(), self.arrived(desk.acked));
        for (sent, again) in self.tries.iter().zip(self.tries.iter().skip(1)).take(lost) {
            let loss = Loss {
                begin: sent.0,
                end: again.0,
            };
            desk.ledger
                .servers
                .tally(desk.server, |tally| tally.data_drops += 1);
            desk.ledger.lost(desk.server, true, loss);
        }
        let came = self.tries.get(lost).map_or(begun, |came| came.0);
        let opening = self.opening;
        let arrival = match (lost, opening) {
            (0, Some(opening)) => opening.arrival(begun),
            _ => came,
        };
        let software = &self.software;
        desk.ledger
            .servers
            .tally(desk.server, |tally| tally.software.take_all(software));
        let asked = self.asked;
        let visit = Visit {
            visit: NO_ID,
            server: desk.server,
            caller: desk.caller,
            connection: desk.connection,
            interaction: match asked {
                Some(asked) => asked.interaction,
                None => desk.ledger.interaction(Raw::Unknown),
            },
            key: asked.map_or(0, |asked| asked.key),
            sent: opening.map_or(begun, |opening| opening.sent),
            connected: opening.map_or(NO_TIME, |opening| opening.connected),
            arrival,
            start: NO_TIME,
            first_byte: self.first_byte,
            departure: self.last_byte.max(begun).max(arrival),
            drops: opening.map_or(0, |opening| opening.drops),
            data_drops: u8::try_from(lost).unwrap_or(u8::MAX),
            status: desk.ledger.status(status),
            bytes_in: self.halves[0].bytes,
            bytes_out: self.halves[1].bytes,
            served: true,
            parent: NO_ID,
            request: NO_ID,
            downstream_ns: NO_TIME,
        };
        let trace = asked.map(|asked| asked.trace).unwrap_or_default();
        if trace.known() && visit.departure.saturating_sub(visit.sent) >= TRACED {
            desk.ledger.traced.push(Traced {
                server: visit.server,
                begin: visit.sent,
                end: visit.departure,
                trace,
            });
        }
        desk.ledger.push(visit);
    }

    /// It is open when the recording ends.
    fn remains(&self, desk: &mut Desk<'_>) {
        let sent = self.opening.map_or(self.begun(), |opening| opening.sent);
        desk.ledger.servers.tally(desk.server, |tally| {
            let since = tally.unfinished_since.unwrap_or(sent);
            tally.unfinished_since = Some(since.min(sent));
        });
    }
}

#[cfg(test)]
mod tests;
