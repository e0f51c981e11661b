//! HTTP/2 without TLS (RFC 9113), and gRPC on top of it: each stream is one exchange.
//!
//! ```text
//! client  preface  SETTINGS │ HEADERS 1  DATA 1 │ HEADERS 3 │                        RST_STREAM 3
//! server  SETTINGS          │            HEADERS 1  DATA 1  │ DATA 1, END_STREAM │ HEADERS 3 …
//! ```
//! A response ends with the frame that has END_STREAM, so a stream that the server keeps open is one long exchange. The
//! status is that of HTTP, or of gRPC, which sends it in the trailers. Pushed responses belong to no request.
//!
//! Header blocks depend on those before them ([`hpack`]). Where some were lost, and when the recording begins within a
//! connection, names and statuses may be unknown, while streams and times are read from the frames.

pub(in crate::capture) mod codes;
pub(in crate::capture) mod fields;
mod frame;
pub(in crate::capture) mod hpack;
pub(in crate::capture) mod huffman;
#[cfg(test)]
mod tests;

pub use codes::{name as error_name, HTTP2_ERRORS};

use super::detect::Sign;
use super::framing::{Framer, Input, Packet, Step};
use super::waiting::Waiting;
use super::{path_key, Chunk, Exchanges, Outcome, Protocol, Raw, Side};
use fields::{Block, Blocks, Fields};
use frame::{Head, CONTINUATION, DATA, END_STREAM, GOAWAY, HEADERS, PUSH_PROMISE, RST_STREAM};
use serde::{Deserialize, Serialize};

/// The client's first bytes (section 3.4); frames follow.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const PREFACE_LINE: usize = 14;
/// Streams that are open at once. Servers allow 100 to 250; more means that the other direction is
/// missing from the capture.
const OPEN_MAX: usize = 512;

#[derive(Deserialize, Serialize)]
pub struct Http2 {
    client: Framer,
    server: Framer,
    talk: Talk,
}

#[derive(Default, Deserialize, Serialize)]
struct Talk {
    waiting: Waiting<Asked>,
    asking: Half,
    answering: Half,
    /// The newest stream of the client.
    newest: u32,
    /// When bytes of the client came that could not be read, and how many they were.
    unread: Option<(i64, u64)>,
    /// Bytes of the server could not be read.
    unseen: bool,
    opaque: bool,
}

/// One direction: its header blocks, and the current frame.
#[derive(Default, Deserialize, Serialize)]
struct Half {
    blocks: Blocks,
    /// The stream of the exchange that the frame belongs to; 0: of none.
    stream: u32,
    /// It ends its stream.
    last: bool,
}

/// A stream without the end of its response.
#[derive(Deserialize, Serialize)]
struct Asked {
    stream: u32,
    grpc: bool,
    /// It becomes a tunnel, if the server accepts it.
    connects: bool,
    /// Frames of its response were seen.
    answered: bool,
    outcome: Outcome,
}

impl Default for Http2 {
    fn default() -> Self {
        let framer = || Framer::with(frame::HEADER_LEN, frame::gathered, frame::payload_len);
        Http2 {
            client: framer(),
            server: framer(),
            talk: Talk::default(),
        }
    }
}

impl Protocol for Http2 {
    fn saved(&self) -> super::Result<super::State> {
        super::state(super::Kind::Http2, self)
    }

    fn correlates(&self) -> bool {
        true
    }

    fn revive(&mut self) {
        let new = Http2::default();
        self.client.adopt(new.client);
        self.server.adopt(new.server);
    }

    fn data(&mut self, side: Side, chunk: Chunk<'_>, out: &mut dyn Exchanges) {
        let mut input = Input::new(chunk);
        match side {
            Side::Client => {
                if begins_connection(input.bytes()) {
                    self.client.resync();
                    input.skip(PREFACE.len() as u64);
                } else if self.client.lost() && request_here(input.bytes()) {
                    self.client.resync();
                }
                self.client_input(&mut input, out);
            }
            Side::Server => {
                if self.server.lost() && self.talk.server_frame_here(input.bytes()) {
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
            if side == Side::Server {
                self.talk.end(out);
            }
        }
    }
}

impl Http2 {
    /// Continues where HTTP/1 switched to it (RFC 7540, section 3.2): the request that asked for it is stream 1.
    pub fn upgraded() -> Http2 {
        let mut http2 = Http2::default();
        http2.talk.newest = 1;
        http2.talk.waiting.push(Asked::on(1));
        http2
    }

    fn lose(&mut self, side: Side, out: &mut dyn Exchanges) {
        match side {
            Side::Client => {
                let _ = self.client.lose();
                self.talk.asking.blocks.forget();
            }
            Side::Server => {
                let _ = self.server.lose();
                self.talk.answering.blocks.forget();
                self.talk.tell(out);
            }
        }
    }

    fn client_input(&mut self, input: &mut Input<'_>, out: &mut dyn Exchanges) {
        while !self.talk.opaque {
            let cut = input.cut();
            match self.client.next(input) {
                None => break,
                Some(Step::Packet(packet)) => self.talk.client_frame(&packet, input.time, out),
                Some(Step::More { now, .. }) => {
                    let stream = self.talk.asking.stream;
                    self.talk.grow(stream, input.time, now, out);
                }
                Some(Step::Lost(n)) => {
                    self.talk.client_lost(n, input.time);
                    if !cut {
                        out.unreadable("not an HTTP/2 frame", n);
                    }
                }
            }
        }
    }

    fn server_input(&mut self, input: &mut Input<'_>, out: &mut dyn Exchanges) {
        while !self.talk.opaque {
            match self.server.next(input) {
                None => break,
                Some(Step::Packet(packet)) => self.talk.server_frame(&packet, input.time, out),
                Some(Step::More { now, over }) => {
                    self.talk.server_bytes(now, over, input.time, out);
                }
                Some(Step::Lost(n)) => self.talk.server_lost(n, input.time, out),
            }
        }
    }
}

impl Talk {
    // The client's side.

    fn client_frame(&mut self, packet: &Packet<'_>, time: i64, out: &mut dyn Exchanges) {
        let Some(head) = Head::of(&packet.header) else {
            return;
        };
        self.asking.stream = 0;
        match head.kind {
            HEADERS | CONTINUATION => {
                if let Some(block) = self.asking.blocks.gather(head, packet) {
                    self.request(&block, time, out);
                }
            }
            DATA => self.grow(head.stream, time, packet.early + packet.now, out),
            RST_STREAM => {
                if let Some(nth) = self.nth(head.stream) {
                    self.turn_to(nth, out);
                    self.waiting.break_off(time, Outcome::Aborted, out);
                }
            }
            _ => {}
        }
    }

    fn request(&mut self, block: &Block, time: i64, out: &mut dyn Exchanges) {
        let fields = self.asking.blocks.read(block);
        // Trailers, of a stream that may have ended.
        if block.stream <= self.newest {
            return self.grow(block.stream, time, block.bytes, out);
        }
        let key = match fields.target_whole {
            true => path_key(&fields.target),
            false => 0,
        };
        let asked = Asked {
            grpc: fields.grpc,
            connects: fields.connects(),
            ..Asked::on(block.stream)
        };
        self.ask(asked, block.begun, fields.raw(), key, out);
        let trace = fields.trace.trace();
        if trace.known() && !self.opaque {
            out.trace(trace);
        }
        self.grow(block.stream, time, block.bytes, out);
    }

    fn ask(&mut self, asked: Asked, time: i64, raw: Raw<'_>, key: u64, out: &mut dyn Exchanges) {
        if self.waiting.len() >= OPEN_MAX {
            *self = Talk {
                opaque: true,
                ..Talk::default()
            };
            return out.opaque("requests without responses");
        }
        self.newest = asked.stream;
        self.waiting.before_request();
        self.waiting.push(asked);
        out.no_login();
        out.request(time, raw, key);
    }

    /// Bytes of a request. Of several simultaneous requests, only the newest can grow.
    fn grow(&mut self, stream: u32, time: i64, bytes: u64, out: &mut dyn Exchanges) {
        if self
            .waiting
            .back_mut()
            .is_some_and(|newest| newest.stream == stream)
        {
            self.asking.stream = stream;
            out.request_bytes(time, bytes);
        }
    }

    fn client_lost(&mut self, n: u64, time: i64) {
        self.asking.blocks.forget();
        self.asking.stream = 0;
        self.unread = Some((time, n));
    }

    // The server's side.

    fn server_frame(&mut self, packet: &Packet<'_>, time: i64, out: &mut dyn Exchanges) {
        let Some(head) = Head::of(&packet.header) else {
            return;
        };
        self.answering.stream = 0;
        self.answering.last = false;
        let bytes = packet.early + packet.now;
        match head.kind {
            HEADERS | CONTINUATION | PUSH_PROMISE => {
                if let Some(block) = self.answering.blocks.gather(head, packet) {
                    self.response(&block, packet, time, out);
                }
            }
            DATA if self.answer(head.stream, packet.begun, packet.early, out) => {
                self.answering.last = head.is(END_STREAM);
                self.server_bytes(packet.now, packet.over, time, out);
            }
            RST_STREAM if self.answer(head.stream, time, bytes, out) => {
                let code = frame::number(packet.prefix).unwrap_or(0);
                match self.waiting.front_mut() {
                    Some(asked) if code != 0 => asked.outcome = codes::reset(code),
                    _ => {}
                }
                self.answered(out);
            }
            GOAWAY => {
                if let Some(last) = frame::number(packet.prefix) {
                    self.refuse_after(last & (u32::MAX >> 1), time, out);
                }
            }
            _ => {}
        }
    }

    /// Bytes without a visible header: they belong to the stream of the frame before them, if any.
    fn server_lost(&mut self, n: u64, time: i64, out: &mut dyn Exchanges) {
        self.answering.blocks.forget();
        self.unseen = true;
        if self.answers_oldest() {
            self.waiting.bytes(time, n, out);
            self.tell(out);
        } else {
            out.unreadable("not an HTTP/2 frame", n);
        }
    }

    /// The server sends no more. If some of its bytes could not be read, they may have held the ends of the open
    /// responses, or all of them.
    fn end(&mut self, out: &mut dyn Exchanges) {
        if !std::mem::take(&mut self.unseen) {
            return;
        }
        while let Some(nth) = self.waiting.position(|asked| asked.answered) {
            self.turn_to(nth, out);
            self.answered(out);
        }
        while self.waiting.pop_back().is_some() {
            out.one_way();
        }
    }

    /// A header block of the server, of which `packet` is the last frame: a head or trailers.
    fn response(&mut self, block: &Block, packet: &Packet<'_>, time: i64, out: &mut dyn Exchanges) {
        let fields = self.answering.blocks.read(block);
        let interim = matches!(fields.status, Some(100..=199)) && !block.ends;
        if block.promised || interim {
            return;
        }
        self.ask_unread(block.stream, out);
        if !self.answer(block.stream, block.begun, block.bytes - packet.now, out) {
            return;
        }
        for (source, text) in fields.software.each() {
            out.runs(source, text);
        }
        let mut lasts = false;
        if let Some(asked) = self.waiting.front_mut() {
            asked.read(&fields);
            lasts = fields.events || asked.connects && asked.outcome == Outcome::Ok;
        }
        // What follows on a stream of events or in a tunnel comes when somebody has news.
        self.answering.last = block.ends || lasts;
        self.server_bytes(packet.now, packet.over, time, out);
    }

    /// A response comes to a request that could not be read.
    fn ask_unread(&mut self, stream: u32, out: &mut dyn Exchanges) {
        if stream % 2 == 1 && stream > self.newest {
            if let Some((time, bytes)) = self.unread {
                self.ask(Asked::on(stream), time, Raw::Unknown, 0, out);
                self.grow(stream, time, bytes, out);
            }
        }
    }

    /// The frame belongs to the response on this stream; `early` of its bytes came before. False: the request is unknown.
    fn answer(&mut self, stream: u32, begun: i64, early: u64, out: &mut dyn Exchanges) -> bool {
        let Some(nth) = self.nth(stream) else {
            // Frames behind the end of a stream, and those of pushed responses, are in order.
            if stream > self.newest && stream % 2 == 1 && !self.opaque {
                out.unreadable("a response without its request", early);
            }
            return false;
        };
        self.turn_to(nth, out);
        if let Some(asked) = self.waiting.front_mut() {
            asked.answered = true;
        }
        self.answering.stream = stream;
        if early > 0 {
            self.waiting.bytes(begun, early, out);
        }
        true
    }

    /// Bytes of the current frame.
    fn server_bytes(&mut self, n: u64, over: bool, time: i64, out: &mut dyn Exchanges) {
        if !self.answers_oldest() {
            return;
        }
        self.waiting.bytes(time, n, out);
        if over && self.answering.last {
            self.answered(out);
        }
    }

    /// Whether the current frame of the server belongs to the oldest exchange.
    fn answers_oldest(&self) -> bool {
        let oldest = self.waiting.front();
        oldest.is_some_and(|asked| asked.stream == self.answering.stream)
    }

    /// Of the oldest exchange, as far as it is known.
    fn outcome(&self) -> Outcome {
        let oldest = self.waiting.front();
        oldest.map_or(Outcome::Ok, |asked| asked.outcome)
    }

    fn answered(&mut self, out: &mut dyn Exchanges) {
        self.waiting.finish(self.outcome(), out);
        self.answering.stream = 0;
    }

    /// The server will not process the streams after this one.
    fn refuse_after(&mut self, last: u32, time: i64, out: &mut dyn Exchanges) {
        while let Some(nth) = self.waiting.position(|asked| asked.stream > last) {
            self.turn_to(nth, out);
            self.waiting
                .break_off(time, codes::reset(codes::REFUSED_STREAM), out);
        }
    }

    fn nth(&self, stream: u32) -> Option<usize> {
        self.waiting.position(|asked| asked.stream == stream)
    }

    /// The nth oldest becomes the oldest. If the end of the oldest could not be seen, it was before this.
    fn turn_to(&mut self, mut nth: usize, out: &mut dyn Exchanges) {
        if nth > 0 && self.waiting.told() {
            self.answered(out);
            nth -= 1;
        }
        self.waiting.turn_to(nth, out);
    }

    fn tell(&mut self, out: &mut dyn Exchanges) {
        if self.waiting.answering() {
            self.waiting.tell(self.outcome(), out);
        }
    }

    /// Whether a frame of an open stream, or of none, begins with these first bytes of a segment.
    fn server_frame_here(&self, bytes: &[u8]) -> bool {
        frame::begins(bytes).is_some_and(|head| {
            head.stream == 0 || head.kind == HEADERS || self.nth(head.stream).is_some()
        })
    }
}

impl Asked {
    fn on(stream: u32) -> Asked {
        Asked {
            stream,
            grpc: false,
            connects: false,
            answered: false,
            outcome: Outcome::Ok,
        }
    }

    /// A head, or trailers.
    fn read(&mut self, fields: &Fields) {
        self.grpc |= fields.grpc;
        if let Some(code @ 400..) = fields.status {
            self.outcome = Outcome::Http(code);
        }
        if let Some(value) = fields.grpc_status.as_deref().filter(|_| self.grpc) {
            self.outcome = codes::grpc(value);
        }
    }
}

pub(super) fn begins_connection(bytes: &[u8]) -> bool {
    bytes.starts_with(&PREFACE[..PREFACE_LINE])
}

/// Whether a frame of a client begins here, in the middle of a stream of bytes.
fn request_here(bytes: &[u8]) -> bool {
    frame::begins(bytes).is_some_and(|head| head.stream == 0 || head.stream % 2 == 1)
}

pub(super) fn client_sign(first: &[u8]) -> Sign {
    match begins_connection(first) {
        true => Sign::Certain,
        false if frame::are_frames(first, Side::Client) => Sign::Likely,
        false => Sign::None,
    }
}

pub(super) fn server_sign(first: &[u8]) -> Sign {
    if frame::begins_server(first) {
        return Sign::Certain;
    }
    match frame::are_frames(first, Side::Server) {
        true => Sign::Likely,
        false => Sign::None,
    }
}
