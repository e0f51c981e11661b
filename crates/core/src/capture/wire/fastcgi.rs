//! FastCGI, as nginx, Apache and HAProxy speak it to php-fpm and the like: records of a request id, a type and a length.
//!
//! ```text
//! client  BEGIN_REQUEST │ PARAMS … PARAMS(0) │ STDIN … STDIN(0)            ABORT_REQUEST
//! server                                        STDOUT (head, body) …  STDERR …  END_REQUEST
//! ```
//! A connection carries one request, or one after the other (FCGI_KEEP_CONN), or several at once, told apart by their ids.
//! The variables of PARAMS name a request; it is reported once they are there. What the application writes to STDERR is
//! no part of the response. Source: the FastCGI specification, version 1.0 (Open Market, 1996).

mod params;
#[cfg(test)]
mod tests;

use super::detect::Sign;
use super::framing::{Framer, Input, Packet, Step};
use super::waiting::Waiting;
use super::{path_key, Chunk, Exchanges, Outcome, Protocol, Raw, Side};
use params::{Params, PARAMS_MAX};
use serde::{Deserialize, Serialize};

const HEADER_LEN: usize = 8;
/// Bytes of a response, enough for its head up to the status: php-fpm sends it first.
const HEAD_MAX: usize = 512;
/// Requests that are open at once on one connection. Servers that share connections have far lower
/// bounds (FCGI_MAX_REQS); more means that the other direction is missing from the capture.
const OPEN_MAX: usize = 256;
/// Requests whose variables are gathered at once: 128 KiB for each connection.
const GATHERED_MAX: usize = 8;

const BEGIN_REQUEST: u8 = 1;
const ABORT_REQUEST: u8 = 2;
const END_REQUEST: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;
const DATA: u8 = 8;
const GET_VALUES: u8 = 9;
const GET_VALUES_RESULT: u8 = 10;
const UNKNOWN_TYPE: u8 = 11;

/// Outcomes in END_REQUEST: what the application returned to its system, or why the request was
/// refused. These numbers are above those of Redis.
pub const EXITS: u32 = 2_000_000_000;
const REFUSALS: u32 = EXITS + 256;
const REFUSED: [&str; 3] = ["cannot-multiplex", "overloaded", "unknown-role"];

/// A request whose variables have not arrived yet.
#[derive(Deserialize, Serialize)]
struct Begun {
    id: u16,
    time: i64,
    /// Bytes of it that are not reported yet.
    bytes: u64,
    params: Params,
}

/// A request that waits for the end of its response.
#[derive(Deserialize, Serialize)]
struct Asked {
    id: u16,
    head: Vec<u8>,
    head_over: bool,
    outcome: Outcome,
    aborted: bool,
}

/// The kind of the current record.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
enum Part {
    Exchange,
    /// The last record of a response.
    Last,
    Control,
}

#[derive(Deserialize, Serialize)]
pub struct FastCgi {
    client: Framer,
    server: Framer,
    talk: Talk,
}

#[derive(Deserialize, Serialize)]
struct Talk {
    begun: Vec<Begun>,
    waiting: Waiting<Asked>,
    newest: u16,
    client_part: Part,
    server_part: Part,
    opaque: bool,
}

impl Default for FastCgi {
    fn default() -> Self {
        FastCgi {
            client: Framer::new(HEADER_LEN, PARAMS_MAX, record_len),
            server: Framer::new(HEADER_LEN, HEAD_MAX, record_len),
            talk: Talk {
                begun: Vec::new(),
                waiting: Waiting::default(),
                newest: 0,
                client_part: Part::Control,
                server_part: Part::Control,
                opaque: false,
            },
        }
    }
}

/// Content and padding.
fn record_len(header: &[u8]) -> Option<u64> {
    match *header {
        [1, BEGIN_REQUEST..=UNKNOWN_TYPE, _, _, high, low, padding, _] => {
            Some(u64::from(u16::from_be_bytes([high, low])) + u64::from(padding))
        }
        _ => None,
    }
}

/// The header of a record.
#[derive(Deserialize, Serialize)]
struct Head {
    kind: u8,
    id: u16,
    content: usize,
}

impl Head {
    fn of(header: &[u8]) -> Head {
        let short = |at: usize| match header.get(at..at + 2) {
            Some(&[high, low]) => u16::from_be_bytes([high, low]),
            _ => 0,
        };
        Head {
            kind: header.get(1).copied().unwrap_or(0),
            id: short(2),
            content: usize::from(short(4)),
        }
    }
}

impl Protocol for FastCgi {
    fn saved(&self) -> super::Result<super::State> {
        super::state(super::Kind::FastCgi, self)
    }

    fn revive(&mut self) {
        let new = FastCgi::default();
        self.client.adopt(new.client);
        self.server.adopt(new.server);
    }

    fn data(&mut self, side: Side, chunk: Chunk<'_>, out: &mut dyn Exchanges) {
        let mut input = Input::new(chunk);
        match side {
            Side::Client => {
                if self.client.lost() && client_record_here(input.bytes()) {
                    self.client.resync();
                }
                let between = self.client.between() || self.client.lost();
                if between && input.cut() && input.bytes().len() < HEADER_LEN {
                    return self.talk.unseen(&input, out);
                }
                self.client_input(&mut input, out);
            }
            Side::Server => {
                if self.server.lost() && self.talk.server_record_here(input.bytes()) {
                    self.server.resync();
                }
                self.server_input(&mut input, out);
            }
        }
    }

    fn gap(&mut self, side: Side, time: i64, len: u64, out: &mut dyn Exchanges) {
        if self.talk.opaque {
            return;
        }
        if len == 0 {
            self.lose(side, out);
        }
        out.unreadable("lost in the capture", len);
        let mut hole = Input::hole(time, len);
        match side {
            Side::Client => self.client_input(&mut hole, out),
            Side::Server => {
                self.talk.waiting.hole();
                self.server_input(&mut hole, out);
            }
        }
    }

    fn end(&mut self, side: Side, _time: i64, out: &mut dyn Exchanges) {
        if !self.talk.opaque {
            self.lose(side, out);
        }
    }
}

impl FastCgi {
    /// This side breaks off: the gathered part is used.
    fn lose(&mut self, side: Side, out: &mut dyn Exchanges) {
        match side {
            Side::Client => {
                if let Some(packet) = self.client.lose() {
                    let time = packet.begun;
                    self.talk.client_record(&packet, time, out);
                }
                self.talk.ask_all(out);
            }
            Side::Server => {
                let _ = self.server.lose();
                self.talk.tell(out);
            }
        }
    }

    fn client_input(&mut self, input: &mut Input<'_>, out: &mut dyn Exchanges) {
        while !self.talk.opaque {
            match self.client.next(input) {
                None => break,
                Some(Step::Packet(packet)) => self.talk.client_record(&packet, input.time, out),
                Some(Step::More { now, .. }) => self.talk.client_bytes(now, input.time, out),
                Some(Step::Lost(n)) => {
                    self.talk.ask_all(out);
                    if !self.talk.waiting.is_empty() && !self.talk.waiting.answering() {
                        out.request_bytes(input.time, n);
                    } else {
                        out.unreadable("not a FastCGI record", n);
                    }
                }
            }
        }
    }

    fn server_input(&mut self, input: &mut Input<'_>, out: &mut dyn Exchanges) {
        while !self.talk.opaque {
            match self.server.next(input) {
                None => break,
                Some(Step::Packet(packet)) => self.talk.server_record(&packet, input.time, out),
                Some(Step::More { now, over }) => {
                    self.talk.server_bytes(now, over, input.time, out)
                }
                Some(Step::Lost(n)) => {
                    self.talk.waiting.bytes(input.time, n, out);
                    self.talk.tell(out);
                }
            }
        }
    }
}

impl Talk {
    // The client's side.

    fn client_record(&mut self, packet: &Packet<'_>, time: i64, out: &mut dyn Exchanges) {
        let head = Head::of(&packet.header);
        let bytes = packet.early + packet.now;
        self.client_part = Part::Control;
        match head.kind {
            BEGIN_REQUEST => self.begin(head.id, packet.begun, bytes, out),
            PARAMS => self.params(&head, packet, time, out),
            GET_VALUES => {
                self.ask(head.id, packet.begun, Raw::Command("GET_VALUES"), 0, out);
                self.grow(head.id, time, bytes, out);
            }
            STDIN | DATA | ABORT_REQUEST => {
                self.ask_begun(head.id, out);
                self.grow(head.id, time, bytes, out);
                if head.kind == ABORT_REQUEST {
                    if let Some(asked) = self.waiting.find_mut(|asked| asked.id == head.id) {
                        asked.aborted = true;
                    }
                }
            }
            _ => out.unreadable("an unknown FastCGI record", bytes),
        }
    }

    fn begin(&mut self, id: u16, time: i64, bytes: u64, out: &mut dyn Exchanges) {
        self.ask_begun(id, out);
        if let Some(nth) = self.waiting.position(|asked| asked.id == id) {
            // An id is free again when its request has ended: the end was missed.
            self.waiting.turn_to(nth, out);
            self.tell(out);
        }
        if self.begun.len() >= GATHERED_MAX {
            self.ask_first(out);
        }
        self.client_part = Part::Exchange;
        self.newest = id;
        self.begun.push(Begun {
            id,
            time,
            bytes,
            params: Params::default(),
        });
    }

    fn params(&mut self, head: &Head, packet: &Packet<'_>, time: i64, out: &mut dyn Exchanges) {
        let Some(begun) = self.begun.iter_mut().find(|begun| begun.id == head.id) else {
            // The rest of cut variables, or of a request that began before the recording.
            return self.grow(head.id, time, packet.early + packet.now, out);
        };
        begun.bytes += packet.early + packet.now;
        self.client_part = Part::Exchange;
        self.newest = head.id;
        let seen = &packet.prefix[..packet.prefix.len().min(head.content)];
        let whole = begun.params.push(seen) && seen.len() == head.content;
        if head.content == 0 || !whole {
            self.ask_begun(head.id, out);
        }
    }

    /// Bytes of a request that was reported.
    fn grow(&mut self, id: u16, time: i64, bytes: u64, out: &mut dyn Exchanges) {
        if self.opaque {
            return;
        }
        match self.waiting.back_mut() {
            Some(newest) if newest.id == id => {
                self.client_part = Part::Exchange;
                self.newest = id;
                out.request_bytes(time, bytes);
            }
            // Of several simultaneous requests, only the newest can grow.
            Some(_) => {}
            None => out.unreadable("a FastCGI record without its request", bytes),
        }
    }

    fn client_bytes(&mut self, n: u64, time: i64, out: &mut dyn Exchanges) {
        if self.client_part == Part::Control {
            return;
        }
        match self.begun.iter_mut().find(|begun| begun.id == self.newest) {
            Some(begun) => begun.bytes += n,
            None => out.request_bytes(time, n),
        }
    }

    /// A segment without a captured header: a request, unless one is being sent.
    fn unseen(&mut self, input: &Input<'_>, out: &mut dyn Exchanges) {
        if self.opaque {
            return;
        }
        let head = Head::of(input.bytes());
        let sending = !self.waiting.is_empty() && !self.waiting.answering();
        if matches!(head.kind, 0 | BEGIN_REQUEST) && !sending {
            self.ask(head.id, input.time, Raw::Unknown, 0, out);
        }
        if self.opaque || self.waiting.is_empty() || self.waiting.answering() {
            return out.unreadable("not a FastCGI record", input.len());
        }
        out.request_bytes(input.time, input.len());
    }

    fn ask_all(&mut self, out: &mut dyn Exchanges) {
        while !self.begun.is_empty() && !self.opaque {
            self.ask_first(out);
        }
    }

    fn ask_first(&mut self, out: &mut dyn Exchanges) {
        if let Some(id) = self.begun.first().map(|begun| begun.id) {
            self.ask_begun(id, out);
        }
    }

    /// Reports a request whose variables are as complete as they will be.
    fn ask_begun(&mut self, id: u16, out: &mut dyn Exchanges) {
        let Some(at) = self.begun.iter().position(|begun| begun.id == id) else {
            return;
        };
        let begun = self.begun.remove(at);
        let variables = begun.params.read();
        let key = match variables.target_whole {
            true => path_key(variables.target),
            false => 0,
        };
        self.ask(id, begun.time, variables.raw(), key, out);
        if !self.opaque {
            out.request_bytes(begun.time, begun.bytes);
        }
    }

    fn ask(&mut self, id: u16, time: i64, raw: Raw<'_>, key: u64, out: &mut dyn Exchanges) {
        if self.waiting.len() >= OPEN_MAX {
            self.opaque = true;
            self.begun = Vec::new();
            self.waiting.clear();
            return out.opaque("requests without responses");
        }
        self.waiting.before_request();
        self.waiting.push(Asked {
            id,
            head: Vec::new(),
            head_over: false,
            outcome: Outcome::Ok,
            aborted: false,
        });
        out.request(time, raw, key);
    }

    // The server's side.

    fn server_record(&mut self, packet: &Packet<'_>, time: i64, out: &mut dyn Exchanges) {
        let head = Head::of(&packet.header);
        self.server_part = match head.kind {
            STDOUT => Part::Exchange,
            END_REQUEST | GET_VALUES_RESULT => Part::Last,
            STDERR | UNKNOWN_TYPE => Part::Control,
            _ => {
                self.server_part = Part::Control;
                return out.unreadable("an unknown FastCGI record", packet.early + packet.now);
            }
        };
        if self.server_part == Part::Control {
            return;
        }
        self.ask_begun(head.id, out);
        if self.opaque {
            return;
        }
        let Some(nth) = self.waiting.position(|asked| asked.id == head.id) else {
            self.server_part = Part::Control;
            let bytes = packet.early + packet.now;
            return out.unreadable("a response without its request", bytes);
        };
        self.waiting.turn_to(nth, out);
        let seen = &packet.prefix[..packet.prefix.len().min(head.content)];
        if let Some(asked) = self.waiting.front_mut() {
            match head.kind {
                STDOUT => asked.read_head(seen),
                END_REQUEST => asked.end(seen),
                _ => {}
            }
        }
        if packet.early > 0 {
            self.waiting.bytes(packet.begun, packet.early, out);
        }
        self.waiting.bytes(time, packet.now, out);
        if packet.over && self.server_part == Part::Last {
            self.answered(out);
        }
    }

    fn server_bytes(&mut self, n: u64, over: bool, time: i64, out: &mut dyn Exchanges) {
        if self.server_part == Part::Control {
            return;
        }
        self.waiting.bytes(time, n, out);
        if over && self.server_part == Part::Last {
            self.answered(out);
        }
    }

    fn tell(&mut self, out: &mut dyn Exchanges) {
        if let Some(outcome) = self.waiting.front().map(Asked::outcome) {
            self.waiting.tell(outcome, out);
        }
    }

    fn answered(&mut self, out: &mut dyn Exchanges) {
        let outcome = self.waiting.front().map_or(Outcome::Ok, Asked::outcome);
        self.waiting.finish(outcome, out);
        self.server_part = Part::Control;
    }

    /// Whether a record of an open request begins with these first bytes of a segment.
    fn server_record_here(&self, bytes: &[u8]) -> bool {
        let open = |id: u16| {
            self.begun.iter().any(|begun| begun.id == id)
                || self.waiting.position(|asked| asked.id == id).is_some()
        };
        server_record_here(bytes) && open(Head::of(bytes).id)
    }
}

impl Asked {
    /// `Status: 404 Not Found` in the first lines of the application's output; without one the
    /// status is 200.
    fn read_head(&mut self, content: &[u8]) {
        if self.head_over {
            return;
        }
        let room = HEAD_MAX - self.head.len();
        self.head
            .extend_from_slice(&content[..content.len().min(room)]);
        let mut lines = self.head.split_inclusive(|&b| b == b'\n');
        let status = lines.find_map(|line| match line.trim_ascii_end() {
            b"" => Some(None),
            line => status(line).map(Some),
        });
        self.head_over = status.is_some() || self.head.len() >= HEAD_MAX;
        if let Some(Some(code @ 400..)) = status {
            self.outcome = Outcome::Http(code);
        }
        if self.head_over {
            self.head = Vec::new();
        }
    }

    /// The outcome in END_REQUEST; an HTTP status is more specific than what the program returned.
    fn end(&mut self, content: &[u8]) {
        let &[a, b, c, d, refusal, ..] = content else {
            return;
        };
        let exit = u32::from_be_bytes([a, b, c, d]);
        if let 1..=3 = refusal {
            self.outcome = Outcome::Error(REFUSALS + u32::from(refusal) - 1);
        } else if exit != 0 && self.outcome == Outcome::Ok {
            // Systems keep one byte of a program's return value.
            self.outcome = Outcome::Error(EXITS + (exit & 0xff));
        }
    }

    fn outcome(&self) -> Outcome {
        match self.aborted {
            true => Outcome::Aborted,
            false => self.outcome,
        }
    }
}

/// The code of a status line: CGI's, or one of HTTP, which some applications send instead.
fn status(line: &[u8]) -> Option<u16> {
    let (word, rest) = line.split_at_checked(7)?;
    let rest = match word {
        _ if word.eq_ignore_ascii_case(b"status:") => rest,
        b"HTTP/1." => rest.get(1..)?,
        _ => return None,
    };
    let digits = rest.trim_ascii_start().get(..3)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The name of an END_REQUEST outcome with this `number`.
pub fn end_name(number: u32) -> String {
    let refusal = number.checked_sub(REFUSALS).map(|place| place as usize);
    match refusal.and_then(|place| REFUSED.get(place)) {
        Some(word) => (*word).to_owned(),
        None => format!("exit-{}", number.saturating_sub(EXITS)),
    }
}

/// A BEGIN_REQUEST with a valid role, or a question about the server's limits.
pub(super) fn client_sign(first: &[u8]) -> Sign {
    match first {
        [1, BEGIN_REQUEST, _, _, 0, 8, _, _, 0, 1..=3, ..] => Sign::Certain,
        [1, BEGIN_REQUEST, _, _, 0, 8, _, 0] | [1, GET_VALUES, 0, 0, _, _, _, 0, ..] => {
            Sign::Likely
        }
        _ => Sign::None,
    }
}

pub(super) fn server_sign(first: &[u8]) -> Sign {
    match first {
        [1, STDOUT | STDERR, _, _, _, _, _, 0, ..] | [1, END_REQUEST, _, _, 0, 8, _, 0, ..] => {
            Sign::Likely
        }
        _ => Sign::None,
    }
}

/// Whether a record of a client begins with these first bytes of a segment.
fn client_record_here(bytes: &[u8]) -> bool {
    matches!(
        bytes,
        [1, BEGIN_REQUEST, _, _, 0, 8, _, 0, ..]
            | [1, ABORT_REQUEST, _, _, 0, 0, _, 0, ..]
            | [1, PARAMS | STDIN | DATA, _, _, _, _, _, 0, ..]
            | [1, GET_VALUES, 0, 0, _, _, _, 0, ..]
    )
}

fn server_record_here(bytes: &[u8]) -> bool {
    server_sign(bytes) == Sign::Likely
        || matches!(
            bytes,
            [1, GET_VALUES_RESULT | UNKNOWN_TYPE, 0, 0, _, _, _, 0, ..]
        )
}
