//! HTTP/1.0 and 1.1: heads are read, bodies are skipped by their length.
//! ```text
//!           ┌────────── next message ──────────┐
//!   Head ───┴─► Body(n) · Chunked · UntilClose ─┘
//!     └── cut by the snap length, a hole, not HTTP ──► Lost ── a segment that begins with a start line ──► Head
//! ```
//!
//! The exchange of a stream of events ends with the head of the response: what follows comes when the server has news.
//!
//! A response of unknown length ends at its last byte before the next request, the next status line
//! at the start of a segment, or the close. Interim responses (1xx) do not count: the first byte is
//! that of the answer.
//!
//! After an upgrade (101) messages go either way and do not answer each other, so they are not
//! exchanges. An upgrade to HTTP/2 goes on with [`Http2`]. A tunnel (CONNECT) carries requests and answers, and is read by
//! change of direction.

pub(crate) mod chunked;
pub(crate) mod head;
mod response;
#[cfg(test)]
mod tests;

use super::detect::Sign;
use super::framing::Input;
use super::http2::{self, Http2};
use super::waiting::Waiting;
use super::{path_key, Chunk, Exchanges, Outcome, Protocol, Raw, Side};
use chunked::{Chunked, Progress};
use head::{Body, Parsed};
use serde::{Deserialize, Serialize};

/// The longest head gathered over several segments: eight times the default limit of servers
/// (Apache, Tomcat and nginx: 8 KiB a line or a head).
const HEAD_MAX: usize = 64 << 10;
/// After this many requests without a response, the other direction counts as missing from the
/// capture.
const WAITING_MAX: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
enum State {
    Head,
    Body(u64),
    Chunked(Chunked),
    UntilClose,
    Lost,
}

/// One direction of the connection.
#[derive(Deserialize, Serialize)]
struct Half {
    state: State,
    /// An incomplete head.
    head: Vec<u8>,
    head_begun: i64,
}

impl Half {
    fn new() -> Self {
        Half {
            state: State::Head,
            head: Vec::new(),
            head_begun: 0,
        }
    }

    /// Whether a message has begun and its end is still to come.
    fn owes(&self, announced: bool) -> bool {
        match self.state {
            State::Head => announced && !self.head.is_empty(),
            State::Body(_) | State::Chunked(_) => true,
            State::UntilClose | State::Lost => false,
        }
    }

    fn lose(&mut self) {
        self.state = State::Lost;
        self.head.clear();
    }
}

/// The client's bytes at a place where a request was due and could not be read. If the server
/// answers with a response, they were a request without a name.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
struct Unread {
    begun: i64,
    time: i64,
    len: u64,
}

/// The properties of a request that its response depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
enum Asked {
    Head,
    Connect,
    Other,
}

impl Asked {
    fn by(method: &[u8]) -> Self {
        match method {
            b"HEAD" => Asked::Head,
            b"CONNECT" => Asked::Connect,
            _ => Asked::Other,
        }
    }
}

#[derive(Deserialize, Serialize)]
pub struct Http {
    client: Half,
    server: Half,
    waiting: Waiting<Asked>,
    /// The newest request was announced before its head was complete.
    announced: bool,
    unread: Option<Unread>,
    /// Of the oldest waiting exchange, once known.
    outcome: Option<Outcome>,
    /// The current response is a stream of events: its exchange ended with its head.
    streaming: bool,
    opaque: bool,
    /// The reason why the connection no longer carries HTTP, such as an upgrade to WebSocket. The later
    /// messages do not answer each other, so none of them becomes an exchange.
    #[serde(with = "crate::saved::fixed_or_none")]
    upgraded: Option<crate::saved::Fixed>,
    /// The reader of HTTP/2, from the client's preface or an upgrade on.
    http2: Option<Box<Http2>>,
    /// Nothing of the client was read yet.
    fresh: bool,
}

impl Default for Http {
    fn default() -> Self {
        Http {
            client: Half::new(),
            server: Half::new(),
            waiting: Waiting::default(),
            announced: false,
            unread: None,
            outcome: None,
            streaming: false,
            opaque: false,
            upgraded: None,
            http2: None,
            fresh: true,
        }
    }
}

impl Protocol for Http {
    fn saved(&self) -> super::Result<super::State> {
        super::state(super::Kind::Http, self)
    }

    fn revive(&mut self) {
        if let Some(http2) = &mut self.http2 {
            http2.revive();
        }
    }

    fn data(&mut self, side: Side, chunk: Chunk<'_>, out: &mut dyn Exchanges) {
        if self.fresh && side == Side::Client && http2::begins_connection(chunk.bytes) {
            self.http2 = Some(Box::default());
        }
        if let Some(http2) = &mut self.http2 {
            return http2.data(side, chunk, out);
        }
        if let Some(reason) = self.upgraded {
            return out.unreadable(reason, chunk.len);
        }
        let mut input = Input::new(chunk);
        match side {
            Side::Client => self.client_data(&mut input, out),
            Side::Server => self.server_data(&mut input, out),
        }
    }

    fn gap(&mut self, side: Side, time: i64, len: u64, out: &mut dyn Exchanges) {
        if let Some(http2) = &mut self.http2 {
            return http2.gap(side, time, len, out);
        }
        if self.opaque || self.upgraded.is_some() {
            return;
        }
        let half = match side {
            Side::Client => &mut self.client,
            Side::Server => {
                self.waiting.hole();
                &mut self.server
            }
        };
        let spanned = len > 0
            && match half.state {
                State::Body(rest) | State::Chunked(Chunked::Data(rest)) => rest >= len,
                State::UntilClose => true,
                _ => false,
            };
        let mut hole = Input::hole(time, len);
        if spanned {
            match side {
                Side::Client => self.client_data(&mut hole, out),
                Side::Server => self.server_data(&mut hole, out),
            }
            return;
        }
        half.lose();
        out.unreadable("lost in the capture", len);
        match side {
            Side::Client => (self.announced, self.unread) = (false, None),
            Side::Server if !self.waiting.is_empty() && !self.streaming => {
                self.waiting.bytes(time, len, out);
                self.tell(out);
            }
            Side::Server => {}
        }
    }

    fn end(&mut self, side: Side, time: i64, out: &mut dyn Exchanges) {
        if let Some(http2) = &mut self.http2 {
            return http2.end(side, time, out);
        }
        match side {
            Side::Client => {
                if self.client.owes(self.announced) {
                    out.cut_short(time);
                }
                self.client.lose();
            }
            Side::Server => self.server.lose(),
        }
    }

    fn correlates(&self) -> bool {
        self.http2.is_some()
    }

    fn left(&self) -> bool {
        self.upgraded.is_some()
    }
}

impl Http {
    fn become_opaque(&mut self, reason: &'static str, out: &mut dyn Exchanges) {
        self.opaque = true;
        self.client.head = Vec::new();
        self.server.head = Vec::new();
        self.waiting.clear();
        out.opaque(reason);
    }

    // The client's side.

    fn client_data(&mut self, input: &mut Input<'_>, out: &mut dyn Exchanges) {
        if self.client.state == State::Lost && !self.opaque && request_here(input.bytes()) {
            self.client.state = State::Head;
        }
        while input.len() > 0 && !self.opaque {
            match &mut self.client.state {
                State::Head => self.request_head(input, out),
                State::Body(rest) => {
                    let n = (*rest).min(input.len());
                    *rest -= n;
                    if *rest == 0 {
                        self.client.state = State::Head;
                    }
                    input.skip(n);
                    out.request_bytes(input.time, n);
                }
                State::Chunked(chunked) => {
                    let before = input.len();
                    match chunked.advance(input) {
                        Progress::More => {}
                        Progress::Done => self.client.state = State::Head,
                        Progress::Lost => self.client.state = State::Lost,
                    }
                    if before > input.len() {
                        out.request_bytes(input.time, before - input.len());
                    }
                }
                State::UntilClose | State::Lost => {
                    let n = input.len();
                    input.skip(n);
                    // Until an answer comes, it still belongs to the newest request.
                    if self.waiting.len() > usize::from(self.waiting.answering()) {
                        out.request_bytes(input.time, n);
                    } else {
                        out.unreadable("not an HTTP request", n);
                        if let Some(unread) = &mut self.unread {
                            (unread.time, unread.len) = (input.time, unread.len + n);
                        }
                    }
                }
            }
        }
    }

    fn request_head(&mut self, input: &mut Input<'_>, out: &mut dyn Exchanges) {
        if !self.announced && !self.client.head.is_empty() && request_here(input.bytes()) {
            // The gathered bytes looked like a method, but were the end of something that began
            // before the recording.
            out.unreadable("not an HTTP request", self.client.head.len() as u64);
            self.client.head.clear();
        }
        if self.client.head.is_empty() {
            skip_line_ends(input);
            let bytes = input.bytes();
            if self.fresh && !bytes.is_empty() {
                if bytes.starts_with(&[0x16, 3]) {
                    return self.become_opaque("TLS", out);
                }
                self.fresh = false;
            }
            if let Parsed::Whole(head) = head::request(bytes) {
                self.ask(
                    input.time,
                    Raw::Http {
                        method: head.method,
                        target: head.target,
                    },
                    true,
                    out,
                );
                if head.trace.known() && !self.opaque {
                    out.trace(head.trace);
                }
                self.request_whole(input, head.len as u64, head.body, out);
                return;
            }
            self.client.head_begun = input.time;
        }
        if input.len() == 0 {
            return;
        }
        let before = self.client.head.len();
        let took = gather(&mut self.client.head, input);
        let head = std::mem::take(&mut self.client.head);
        self.request_part(&head, before, took, input, out);
        if self.client.state == State::Head
            && self.client.head.is_empty()
            && !self.opaque
            && took.is_none()
        {
            self.client.head = head;
        }
    }

    /// A head that does not come in one piece: `head` is the part so far, `ended` its end if it has
    /// come.
    fn request_part(
        &mut self,
        head: &[u8],
        before: usize,
        ended: Option<usize>,
        input: &mut Input<'_>,
        out: &mut dyn Exchanges,
    ) {
        let begun = self.client.head_begun;
        if !self.announced {
            let line_there = input.cut() || head[before..].contains(&b'\n');
            let line = if line_there {
                head::any_request_line(head)
                    .or_else(|| head::request_line(head))
                    .or_else(|| head::loose_request_line(head))
            } else {
                None
            };
            if let Some(line) = line {
                let raw = Raw::Http {
                    method: line.method,
                    target: line.target,
                };
                self.ask(begun, raw, line.whole, out);
            } else if input.cut() && (head.is_empty() || head::request_line_begins(head)) {
                self.ask(begun, Raw::Unknown, false, out);
            } else if line_there || head.len() > HEAD_MAX || head::method_len(head).is_none() {
                return self.request_lost(head.len() as u64, input, out);
            } else {
                return;
            }
            if self.opaque {
                return;
            }
            self.announced = true;
            if before > 0 {
                out.request_bytes(begun, before as u64);
            }
        }
        let now = (head.len() - before) as u64;
        if now > 0 {
            out.request_bytes(input.time, now);
        }
        match ended.map(|_| head::request(head)) {
            Some(Parsed::Whole(known)) => {
                if known.trace.known() {
                    out.trace(known.trace);
                }
                self.request_whole(input, 0, known.body, out);
            }
            // Its end is known: the next is due.
            Some(_) if input.len() == 0 => self.announced = false,
            Some(_) => self.request_lost(0, input, out),
            None if input.cut() || head.len() > HEAD_MAX => {
                let trace = head::traced_so_far(head);
                if trace.known() {
                    out.trace(trace);
                }
                out.request_bytes(input.time, input.len());
                input.skip(input.len());
                self.announced = false;
                self.client.lose();
            }
            None => {}
        }
    }

    fn request_lost(&mut self, gathered: u64, input: &mut Input<'_>, out: &mut dyn Exchanges) {
        let len = gathered + input.len();
        out.unreadable("not an HTTP request", len);
        input.skip(input.len());
        if gathered > 0 && (self.waiting.is_empty() || self.waiting.told()) {
            self.unread = Some(Unread {
                begun: self.client.head_begun,
                time: input.time,
                len,
            });
        }
        self.announced = false;
        self.client.lose();
    }

    fn request_whole(
        &mut self,
        input: &mut Input<'_>,
        head_len: u64,
        body: Body,
        out: &mut dyn Exchanges,
    ) {
        if self.opaque {
            return;
        }
        self.announced = false;
        input.skip(head_len);
        if head_len > 0 {
            out.request_bytes(input.time, head_len);
        }
        self.client.state = match body {
            Body::Length(n) if n > 0 => State::Body(n),
            Body::Chunked => State::Chunked(Chunked::START),
            _ => State::Head,
        };
    }

    /// A request begins. The previous response is over if it was the only one and its end could not
    /// be seen.
    fn ask(&mut self, time: i64, raw: Raw<'_>, target_whole: bool, out: &mut dyn Exchanges) {
        let unknown =
            self.waiting.answering() && self.server.state == State::Lost && self.waiting.len() == 1;
        if unknown && !self.waiting.closes_at_request() {
            self.waiting.tell(Outcome::Ok, out);
        }
        if self.waiting.len() >= WAITING_MAX {
            return self.become_opaque("requests without responses", out);
        }
        let (asked, key) = match raw {
            Raw::Http { method, target } => (
                Asked::by(method),
                if target_whole { path_key(target) } else { 0 },
            ),
            _ => (Asked::Other, 0),
        };
        if self.waiting.is_empty() || self.waiting.closes_at_request() {
            self.waiting.before_request();
            self.outcome = None;
            if self.server.state == State::UntilClose {
                self.server.state = State::Lost;
            }
        }
        self.waiting.push(asked);
        self.unread = None;
        out.request(time, raw, key);
    }

    /// A response comes: it answers a request that could not be read.
    fn ask_unread(&mut self, out: &mut dyn Exchanges) {
        if !self.waiting.is_empty() {
            return;
        }
        if let Some(unread) = self.unread.take() {
            self.ask(unread.begun, Raw::Unknown, false, out);
            out.request_bytes(unread.time, unread.len);
            // It is over, then, and the next is due.
            self.client.state = State::Head;
        }
    }

    /// The response is the last of HTTP on this connection; requests sent behind the upgrade were
    /// none.
    fn become_upgraded(&mut self, to: &'static str, out: &mut dyn Exchanges) {
        for _ in 0..self.waiting.len() {
            out.one_way();
        }
        self.waiting.clear();
        self.client.lose();
        self.server.lose();
        self.upgraded = Some(to);
    }
}

/// A start line.
pub(super) fn client_sign(first: &[u8]) -> Sign {
    if request_here(first) {
        Sign::Certain
    } else {
        Sign::None
    }
}

pub(super) fn server_sign(first: &[u8]) -> Sign {
    match head::status_line(first) {
        Some(Some(_)) => Sign::Certain,
        _ => Sign::None,
    }
}

/// Whether a request begins here, in the middle of a stream.
fn request_here(bytes: &[u8]) -> bool {
    head::request_line(bytes).is_some_and(|line| !line.target.is_empty())
}

/// Line ends before a start line are to be ignored (RFC 9112, section 2.2).
fn skip_line_ends(input: &mut Input<'_>) {
    let n = input
        .bytes()
        .iter()
        .take_while(|b| matches!(b, b'\r' | b'\n'))
        .count();
    input.skip(n as u64);
}

/// Moves visible bytes of the input to `head`, up to its end; returns that end if it came.
fn gather(head: &mut Vec<u8>, input: &mut Input<'_>) -> Option<usize> {
    let before = head.len();
    let room = (HEAD_MAX + 1).saturating_sub(before);
    let visible = &input.bytes()[..input.bytes().len().min(room)];
    head.extend_from_slice(visible);
    // The end may have begun up to three bytes ago.
    let ended = head::end(head, before.saturating_sub(3));
    head.truncate(ended.unwrap_or(head.len()));
    input.skip((head.len() - before) as u64);
    ended
}
