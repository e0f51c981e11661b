//! AJP13, as mod_jk and mod_proxy_ajp speak it to Tomcat: packets of a magic, a length and a code.
//!
//! ```text
//! client  12 34 len │ FORWARD_REQUEST, then packets of body (length, data), CPING, SHUTDOWN
//! server  "A""B" len │ SEND_HEADERS, SEND_BODY_CHUNK …, GET_BODY_CHUNK, END_RESPONSE, CPONG
//! ```
//! One request at a time. Source: the AJPv13 page of the Apache Tomcat Connectors documentation. GET_BODY_CHUNK asks for
//! more of the request and is no byte of the response.

mod forward;
#[cfg(test)]
mod tests;

use super::detect::Sign;
use super::framing::{Framer, Input, Packet, Step};
use super::waiting::Waiting;
use super::{path_key, Chunk, Exchanges, Outcome, Protocol, Raw, Side};
use serde::{Deserialize, Serialize};

/// A packet is at most 8 KiB unless both sides are configured otherwise: enough for every field of
/// a request.
const REQUEST_MAX: usize = 8 << 10;
const RESPONSE_MAX: usize = 3;

const FORWARD_REQUEST: u8 = 2;
const SEND_BODY_CHUNK: u8 = 3;
const SEND_HEADERS: u8 = 4;
const END_RESPONSE: u8 = 5;
const GET_BODY_CHUNK: u8 = 6;
const SHUTDOWN: u8 = 7;
const PING: u8 = 8;
const CPONG: u8 = 9;
const CPING: u8 = 10;

/// All packets of a server except these are longer: their payload length identifies them if nothing
/// else was captured.
const LENGTHS: [(u64, u8); 3] = [(1, CPONG), (2, END_RESPONSE), (3, GET_BODY_CHUNK)];
/// What an END_RESPONSE takes on the wire.
const END_RESPONSE_LEN: u64 = 6;

#[derive(Deserialize, Serialize)]
pub struct Ajp {
    client: Framer,
    server: Framer,
    /// A request was seen at all; the open one; its status.
    asked: bool,
    waiting: Waiting<()>,
    outcome: Option<Outcome>,
    /// The kind of the packets whose bytes are coming.
    client_part: Part,
    server_part: Part,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
enum Part {
    Exchange,
    /// The last packet of a response.
    Last,
    Control,
}

impl Default for Ajp {
    fn default() -> Self {
        Ajp {
            client: Framer::new(4, REQUEST_MAX, |h| magic(h, [0x12, 0x34])),
            server: Framer::new(4, RESPONSE_MAX, |h| magic(h, *b"AB")),
            asked: false,
            waiting: Waiting::default(),
            outcome: None,
            client_part: Part::Control,
            server_part: Part::Control,
        }
    }
}

fn magic(header: &[u8], magic: [u8; 2]) -> Option<u64> {
    match *header {
        [a, b, high, low] if [a, b] == magic => Some(u64::from(u16::from_be_bytes([high, low]))),
        _ => None,
    }
}

impl Protocol for Ajp {
    fn saved(&self) -> super::Result<super::State> {
        super::state(super::Kind::Ajp, self)
    }

    fn revive(&mut self) {
        let new = Ajp::default();
        self.client.adopt(new.client);
        self.server.adopt(new.server);
    }

    fn data(&mut self, side: Side, chunk: Chunk<'_>, out: &mut dyn Exchanges) {
        let mut input = Input::new(chunk);
        match side {
            Side::Client => {
                if self.client.lost() && client_packet_here(input.bytes()) {
                    self.client.resync();
                }
                self.client_input(&mut input, out);
            }
            Side::Server => {
                if self.server.lost() && server_packet_here(input.bytes()) {
                    self.server.resync();
                }
                self.server_input(&mut input, out);
            }
        }
    }

    fn gap(&mut self, side: Side, time: i64, len: u64, out: &mut dyn Exchanges) {
        if len == 0 {
            self.lose(side, out);
        }
        out.unreadable("lost in the capture", len);
        if side == Side::Server {
            self.waiting.hole();
        }
        let mut hole = Input::hole(time, len);
        match side {
            Side::Client => self.client_input(&mut hole, out),
            Side::Server => self.server_input(&mut hole, out),
        }
    }

    fn end(&mut self, side: Side, _time: i64, out: &mut dyn Exchanges) {
        self.lose(side, out);
    }
}

impl Ajp {
    fn lose(&mut self, side: Side, out: &mut dyn Exchanges) {
        match side {
            Side::Client => {
                let mut client = std::mem::replace(&mut self.client, Framer::new(4, 0, |_| None));
                if let Some(packet) = client.lose() {
                    let time = packet.begun;
                    self.client_packet(packet, time, out);
                }
                self.client = client;
            }
            Side::Server => {
                let _ = self.server.lose();
                if let Some(outcome) = self.outcome {
                    self.waiting.tell(outcome, out);
                }
            }
        }
    }

    fn client_input(&mut self, input: &mut Input<'_>, out: &mut dyn Exchanges) {
        // The framer is moved out while it lends a packet; this needs no allocation.
        let mut client = std::mem::replace(&mut self.client, Framer::new(4, 0, |_| None));
        while let Some(step) = client.next(input) {
            match step {
                Step::Packet(packet) => self.client_packet(packet, input.time, out),
                Step::More { now, .. } => {
                    if self.client_part == Part::Exchange {
                        out.request_bytes(input.time, now);
                    }
                }
                Step::Lost(n) if !self.waiting.is_empty() && !self.waiting.answering() => {
                    out.request_bytes(input.time, n)
                }
                Step::Lost(n) => out.unreadable("not an AJP packet", n),
            }
        }
        self.client = client;
    }

    fn client_packet(&mut self, packet: Packet<'_>, time: i64, out: &mut dyn Exchanges) {
        let (code, len) = (packet.prefix.first().copied(), packet.len);
        // The code and the method of a request can be the length of a body of its size.
        let body = len == 0
            || matches!(packet.prefix, [a, b, ..] if u64::from(u16::from_be_bytes([*a, *b])) + 2 == len)
                && !forward::certain(packet.prefix)
            || (packet.prefix.len() < 2 && len > 1 && !self.waiting.is_empty());
        let command = match code {
            _ if body => None,
            Some(SHUTDOWN) if len == 1 => Some("SHUTDOWN"),
            Some(PING) if len == 1 => Some("PING"),
            Some(CPING) if len == 1 => Some("CPING"),
            _ => None,
        };
        self.client_part = Part::Control;
        if let Some(command) = command {
            self.waiting.before_request();
            out.request(packet.begun, Raw::Command(command), 0);
            out.request_bytes(time, packet.early + packet.now);
            out.one_way();
            self.asked = true;
            return;
        }
        if !body && forward::plausible(packet.prefix) {
            if !self.waiting.closes_at_request() {
                // There is one request at a time: if one is open, its end was missed.
                self.waiting.tell(self.outcome.unwrap_or(Outcome::Ok), out);
            }
            self.waiting.before_request();
            self.outcome = None;
            let request = forward::read(packet.prefix);
            let target = request.target();
            let key = if request.whole { path_key(&target) } else { 0 };
            out.request(
                packet.begun,
                Raw::Http {
                    method: request.method,
                    target: &target,
                },
                key,
            );
            self.asked = true;
            self.waiting.push(());
        } else if !(self.asked && body) {
            out.unreadable("an unknown AJP packet", packet.early + packet.now);
            return;
        }
        self.client_part = Part::Exchange;
        if packet.early > 0 {
            out.request_bytes(packet.begun, packet.early);
        }
        out.request_bytes(time, packet.now);
    }

    fn server_input(&mut self, input: &mut Input<'_>, out: &mut dyn Exchanges) {
        let mut server = std::mem::replace(&mut self.server, Framer::new(4, 0, |_| None));
        loop {
            let between = server.between();
            let Some(step) = server.next(input) else {
                break;
            };
            match step {
                Step::Packet(packet) => self.server_packet(&packet, input.time, out),
                Step::More { now, over } => {
                    if self.server_part != Part::Control {
                        self.waiting.bytes(input.time, now, out);
                    }
                    if over && self.server_part == Part::Last {
                        self.answered(out);
                    }
                }
                Step::Lost(n) => {
                    self.waiting.bytes(input.time, n, out);
                    if between && n == END_RESPONSE_LEN && self.outcome.is_some() {
                        self.answered(out);
                    } else if let Some(outcome) = self.outcome {
                        self.waiting.tell(outcome, out);
                    }
                }
            }
        }
        self.server = server;
    }

    fn server_packet(&mut self, packet: &Packet<'_>, time: i64, out: &mut dyn Exchanges) {
        let by_length = || LENGTHS.iter().find(|known| known.0 == packet.len);
        let code = match packet.prefix.first() {
            Some(&code) => Some(code),
            None => by_length().map(|known| known.1),
        };
        self.server_part = match code {
            Some(CPONG | GET_BODY_CHUNK) => Part::Control,
            Some(END_RESPONSE) => Part::Last,
            _ => Part::Exchange,
        };
        if self.server_part == Part::Control {
            return;
        }
        if !matches!(
            code,
            Some(SEND_BODY_CHUNK | SEND_HEADERS | END_RESPONSE) | None
        ) {
            self.server_part = Part::Control;
            return out.unreadable("an unknown AJP packet", packet.early + packet.now);
        }
        if code == Some(SEND_HEADERS) && !self.waiting.is_empty() {
            self.outcome = Some(match packet.prefix {
                [_, high, low, ..] => match u16::from_be_bytes([*high, *low]) {
                    status @ 400.. => Outcome::Http(status),
                    _ => Outcome::Ok,
                },
                // The status was cut off.
                _ => Outcome::Ok,
            });
        }
        if packet.early > 0 {
            self.waiting.bytes(packet.begun, packet.early, out);
        }
        self.waiting.bytes(time, packet.now, out);
        if packet.over && self.server_part == Part::Last {
            self.answered(out);
        }
    }

    fn answered(&mut self, out: &mut dyn Exchanges) {
        let outcome = self.outcome.take().unwrap_or(Outcome::Ok);
        self.waiting.finish(outcome, out);
    }
}

/// The magic, and a code.
pub(super) fn client_sign(first: &[u8]) -> Sign {
    if first.len() > 4 && client_packet_here(first) {
        Sign::Certain
    } else {
        Sign::None
    }
}

pub(super) fn server_sign(first: &[u8]) -> Sign {
    if first.len() > 4 && server_packet_here(first) {
        Sign::Certain
    } else {
        Sign::None
    }
}

fn client_packet_here(bytes: &[u8]) -> bool {
    matches!(bytes, [0x12, 0x34, _, _, rest @ ..] if matches!(rest.first(), None | Some(&(FORWARD_REQUEST | SHUTDOWN..=PING | CPING))))
}

fn server_packet_here(bytes: &[u8]) -> bool {
    matches!(bytes, [b'A', b'B', _, _, rest @ ..] if matches!(rest.first(), None | Some(SEND_BODY_CHUNK..=CPONG)))
}
