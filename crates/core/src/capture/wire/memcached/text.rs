//! The form of text: a line a command, with a block of data behind those that store; replies describe themselves.
//!
//! ```text
//! client  get a b ⏎ │ set a 0 0 5 ⏎ hello ⏎ │ set b 0 0 1 noreply ⏎ x ⏎ (no exchange)
//! server  VALUE a 0 5 ⏎ hello ⏎ END ⏎ │ STORED ⏎
//! ```
//! Quiet meta commands (`mg a q`) are no exchanges of their own: `mn` ends a batch of them, and answers for it.

mod line;

use crate::capture::wire::detect::Sign;
use crate::capture::wire::framing::Input;
use crate::capture::wire::waiting::Waiting;
use crate::capture::wire::{words, Chunk, Exchanges, Outcome, Protocol, Raw, Side};
use line::{Command, Line, Lines, Reply};
use serde::{Deserialize, Serialize};

/// After this many commands without a reply, the other direction counts as missing from the capture.
const WAITING_MAX: usize = 1024;

/// What ends the reply to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
enum Asked {
    Reply,
    /// `MN`, after the replies to the quiet commands before it.
    Batch,
}

#[derive(Default, Deserialize, Serialize)]
pub struct Text {
    client: Lines,
    server: Lines,
    waiting: Waiting<Asked>,
    /// The client's current bytes belong to the newest request, which waits for its reply.
    growing: bool,
    /// The name of the quiet meta command that came last.
    #[serde(with = "crate::saved::fixed_or_none")]
    quiet: Option<crate::saved::Fixed>,
    /// The server sent something since the last command; when.
    turned: bool,
    answered_at: i64,
    /// Some of it could not be read.
    blind: bool,
    opaque: bool,
}

impl Protocol for Text {
    fn saved(&self) -> super::super::Result<super::super::State> {
        super::super::state(super::super::Kind::Memcached, self)
    }

    fn data(&mut self, side: Side, chunk: Chunk<'_>, out: &mut dyn Exchanges) {
        let mut input = Input::new(chunk);
        match side {
            Side::Client => {
                let due = self.turned || self.waiting.is_empty();
                let begins = input.cut() && due && Command::may_begin(input.bytes());
                if self.client.lost && (begins || Command::here(input.bytes()).is_some()) {
                    self.client = Lines::default();
                }
                self.client_input(&mut input, out);
            }
            Side::Server => {
                // A segment of a long value may look like a reply.
                let due = !self.waiting.answering() || self.waiting.len() > 1;
                if self.server.lost && due && reply_here(input.bytes()) {
                    if self.waiting.told() {
                        self.waiting.finish(Outcome::Ok, out);
                    }
                    self.server = Lines::default();
                }
                self.server_input(&mut input, out);
            }
        }
    }

    fn gap(&mut self, side: Side, time: i64, len: u64, out: &mut dyn Exchanges) {
        if self.opaque {
            return;
        }
        out.unreadable("lost in the capture", len);
        match side {
            Side::Client => {
                let n = self.client.hole(len);
                self.grow(n, time, out);
            }
            Side::Server => {
                self.waiting.hole();
                let n = self.server.hole(len);
                if n > 0 {
                    self.waiting.bytes(time, n, out);
                }
            }
        }
    }

    fn end(&mut self, _side: Side, _time: i64, _out: &mut dyn Exchanges) {}
}

impl Text {
    fn become_opaque(&mut self, reason: &'static str, out: &mut dyn Exchanges) {
        self.opaque = true;
        self.waiting.clear();
        out.opaque(reason);
    }

    fn client_input(&mut self, input: &mut Input<'_>, out: &mut dyn Exchanges) {
        while !self.opaque {
            let time = input.time;
            match self.client.next(input) {
                None => break,
                Some(Line::Data { n, .. }) => self.grow(n, time, out),
                Some(line @ (Line::Whole { begun, len } | Line::Cut { begun, len })) => {
                    let cut = matches!(line, Line::Cut { .. });
                    let text = &self.client.text;
                    let may_begin = cut && Command::may_begin(text);
                    match Command::of(text).or_else(|| may_begin.then(Command::unnamed)) {
                        Some(command) => {
                            self.client.data = command.data;
                            self.client.lost |= command.open;
                            self.asked(&command, begun, len, time, out);
                        }
                        None => {
                            self.client.lost = true;
                            out.unreadable("not a memcached command", len);
                        }
                    }
                }
                Some(Line::Lost(n)) if self.growing && !self.turned => self.grow(n, time, out),
                Some(Line::Lost(n)) => out.unreadable("not a memcached command", n),
            }
        }
    }

    fn grow(&mut self, n: u64, time: i64, out: &mut dyn Exchanges) {
        if self.growing && n > 0 && !self.waiting.is_empty() {
            out.request_bytes(time, n);
        }
    }

    fn asked(
        &mut self,
        command: &Command,
        begun: i64,
        len: u64,
        time: i64,
        out: &mut dyn Exchanges,
    ) {
        self.growing = false;
        if command.streams {
            return self.become_opaque("a stream of messages", out);
        }
        if command.silent {
            self.quiet = Some(command.name).filter(|_| command.meta);
            return;
        }
        if self.waiting.len() >= WAITING_MAX {
            return self.become_opaque("requests without responses", out);
        }
        if self.turned && self.blind && self.waiting.answering() {
            self.waiting.tell_all(Outcome::Ok, self.answered_at, out);
        }
        self.waiting.before_request();
        self.turned = false;
        self.blind &= !self.waiting.is_empty();
        let batch = self
            .quiet
            .take()
            .filter(|_| command.name == line::BATCH_END);
        let raw = match batch.unwrap_or(command.name) {
            "" => Raw::Unknown,
            name => Raw::Command(name),
        };
        out.request(begun, raw, 0);
        out.request_bytes(time, len);
        self.growing = true;
        self.waiting.push(match command.name {
            line::BATCH_END => Asked::Batch,
            _ => Asked::Reply,
        });
    }

    fn server_input(&mut self, input: &mut Input<'_>, out: &mut dyn Exchanges) {
        if input.len() > 0 {
            self.turned = true;
            self.answered_at = input.time;
        }
        while !self.opaque {
            let time = input.time;
            match self.server.next(input) {
                None => break,
                Some(Line::Data { n, over }) => {
                    self.waiting.bytes(time, n, out);
                    if over && self.server.last {
                        self.replied(Outcome::Ok, out);
                    }
                }
                Some(Line::Whole { begun, len }) => {
                    let reply = Reply::of(&self.server.text);
                    let early = u64::from(begun < time).min(len);
                    if early > 0 {
                        self.waiting.bytes(begun, early, out);
                    }
                    self.waiting.bytes(time, len - early, out);
                    self.server.data = reply.data;
                    self.server.last = self.ends(&reply);
                    if reply.data == 0 && self.server.last {
                        self.replied(reply.outcome, out);
                    }
                }
                Some(Line::Cut { len, .. }) => {
                    self.waiting.bytes(time, len, out);
                    self.blind = true;
                    self.waiting.tell(Reply::of(&self.server.text).outcome, out);
                }
                Some(Line::Lost(n)) => {
                    self.blind = true;
                    self.waiting.bytes(time, n, out);
                    if self.waiting.answering() {
                        self.waiting.tell(Outcome::Ok, out);
                    }
                }
            }
        }
    }

    /// Whether the oldest command has its whole reply with this.
    fn ends(&self, reply: &Reply) -> bool {
        match self.waiting.front() {
            Some(Asked::Batch) => reply.ends_batch,
            _ => reply.last,
        }
    }

    fn replied(&mut self, outcome: Outcome, out: &mut dyn Exchanges) {
        self.server.last = false;
        self.waiting.finish(outcome, out);
    }
}

/// The outcome that the first word of a reply names.
fn outcome(word: &[u8]) -> Outcome {
    match word {
        b"ERROR" => words::error("ERROR"),
        b"CLIENT_ERROR" => words::error("CLIENT_ERROR"),
        b"SERVER_ERROR" => words::error("SERVER_ERROR"),
        _ => Outcome::Ok,
    }
}

/// A command that stores says so in five words, three of them numbers; others could be of another protocol.
pub(super) fn client_sign(first: &[u8]) -> Sign {
    match Command::here(first) {
        Some(command) if command.stores => Sign::Certain,
        Some(_) => Sign::Likely,
        None => Sign::None,
    }
}

pub(super) use line::reply_here;
