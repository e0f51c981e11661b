//! PostgreSQL, protocol 3: typed messages with their length.
//!
//! ```text
//! client  startup │ Query                     │ Parse Bind Describe Execute … Sync │ Terminate
//! server  R … Z   │ T D … C Z (ReadyForQuery) │ 1 2 T D … C Z                      │
//!          LOGIN    one exchange                one exchange, named by what it executes
//! ```
//! Source: "Frontend/Backend Protocol" in PostgreSQL's documentation. What the server says unasked (notices, parameter
//! changes, notifications) belongs to no exchange.

mod message;
#[cfg(test)]
mod tests;

use super::framing::{Framer, Input, Packet, Step};
use super::software::Source;
use super::waiting::Waiting;
use super::{Chunk, Exchanges, Outcome, Protocol, Raw, Side};
use message::{Startup, Statements};
use serde::{Deserialize, Serialize};

pub(super) use message::{client_sign, server_sign};
pub use message::{sqlstate, SQLSTATES};

/// Bytes of a message of the client, enough for a name; of the server, the severity and code of an
/// error.
const CLIENT_MAX: usize = 4096;
const SERVER_MAX: usize = 128;
const HEADER_LEN: usize = 5;
/// After this many requests without a response, the other direction counts as missing from the
/// capture.
const WAITING_MAX: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
enum Asked {
    Login,
    Query,
}

/// Messages of the extended protocol up to their Sync.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
struct Batch {
    parsed: bool,
    /// A statement was bound, and its name is final, unless it is a BEGIN or SET before the real
    /// one.
    bound: bool,
    named: bool,
}

#[derive(Deserialize, Serialize)]
pub struct Postgres {
    client: Framer,
    server: Framer,
    talk: Talk,
}

#[derive(Deserialize, Serialize)]
struct Talk {
    waiting: Waiting<Asked>,
    statements: Statements,
    batch: Option<Batch>,
    outcome: Outcome,
    opaque: bool,
    /// Nothing of the client was read; the server owes one byte of answer to a request for
    /// encryption.
    fresh: bool,
    negotiating: bool,
    /// The bytes of the packet under way belong to the newest request, to the oldest response.
    client_counts: bool,
    server_counts: bool,
    /// The exchange is over once the packet under way is.
    last_packet: bool,
    /// Part of the client's last segment, or of the server's bytes since the last request, could
    /// not be framed.
    client_blind: bool,
    server_blind: bool,
    turned: bool,
    answered_at: i64,
}

impl Default for Postgres {
    fn default() -> Self {
        Postgres {
            client: Framer::new(HEADER_LEN, CLIENT_MAX, message::client_len),
            server: Framer::new(HEADER_LEN, SERVER_MAX, message::server_len),
            talk: Talk {
                waiting: Waiting::default(),
                statements: Statements::default(),
                batch: None,
                outcome: Outcome::Ok,
                opaque: false,
                fresh: true,
                negotiating: false,
                client_counts: false,
                server_counts: false,
                last_packet: false,
                client_blind: false,
                server_blind: false,
                turned: false,
                answered_at: 0,
            },
        }
    }
}

impl Protocol for Postgres {
    fn saved(&self) -> super::Result<super::State> {
        super::state(super::Kind::Postgres, self)
    }

    fn revive(&mut self) {
        let new = Postgres::default();
        self.client.adopt(new.client);
        self.server.adopt(new.server);
    }

    fn data(&mut self, side: Side, chunk: Chunk<'_>, out: &mut dyn Exchanges) {
        let mut input = Input::new(chunk);
        let bytes = input.bytes();
        match side {
            Side::Client => {
                if self.talk.fresh && bytes.starts_with(&[0x16, 3]) && !self.talk.opaque {
                    return self.talk.become_opaque("TLS", out);
                }
                if self.client.lost() && message::here(bytes, message::client_len) {
                    self.client.resync();
                }
                self.client_input(&mut input, out);
            }
            Side::Server => {
                if self.server.lost() && message::here(bytes, message::server_len) {
                    self.server.resync();
                }
                let ready = self.server.lost() && !input.cut() && message::ends_ready(bytes);
                self.server_input(&mut input, false, out);
                if ready && !self.talk.opaque {
                    self.talk.answered(out);
                    self.server.resync();
                }
            }
        }
    }

    fn gap(&mut self, side: Side, time: i64, len: u64, out: &mut dyn Exchanges) {
        if self.talk.opaque {
            return;
        }
        self.talk.fresh = false;
        out.unreadable("lost in the capture", len);
        if len == 0 {
            self.lose(side, time, out);
        }
        let mut hole = Input::hole(time, len);
        match side {
            Side::Client => self.client_input(&mut hole, out),
            Side::Server => {
                self.talk.waiting.hole();
                self.server_input(&mut hole, true, out);
            }
        }
    }

    fn end(&mut self, side: Side, time: i64, out: &mut dyn Exchanges) {
        if self.talk.opaque {
            return;
        }
        self.lose(side, time, out);
        // A fatal error is the server's last message: no ReadyForQuery follows.
        if side == Side::Server && self.talk.outcome != Outcome::Ok {
            let outcome = self.talk.outcome;
            self.talk.waiting.tell(outcome, out);
        }
    }
}

impl Postgres {
    fn lose(&mut self, side: Side, time: i64, out: &mut dyn Exchanges) {
        match side {
            Side::Client => {
                self.talk.client_blind = true;
                if let Some(packet) = self.client.lose() {
                    self.talk.client_packet(&packet, time, out);
                }
            }
            Side::Server => {
                self.talk.server_blind = true;
                if let Some(packet) = self.server.lose() {
                    self.talk.server_packet(&packet, time, out);
                }
            }
        }
    }

    fn client_input(&mut self, input: &mut Input<'_>, out: &mut dyn Exchanges) {
        while !self.talk.opaque {
            match self.client.next(input) {
                None => break,
                Some(Step::Packet(packet)) => self.talk.client_packet(&packet, input.time, out),
                Some(Step::More { now, .. }) => self.talk.client_bytes(input.time, now, out),
                Some(Step::Lost(n)) => {
                    self.talk.client_blind = true;
                    if self.talk.client_counts && !self.talk.turned {
                        out.request_bytes(input.time, n);
                    } else {
                        out.unreadable("not a PostgreSQL message", n);
                    }
                }
            }
        }
    }

    fn server_input(&mut self, input: &mut Input<'_>, hole: bool, out: &mut dyn Exchanges) {
        while !self.talk.opaque {
            if self.talk.negotiating && self.server.between() && input.len() > 0 {
                self.talk.negotiated(input, out);
                continue;
            }
            match self.server.next(input) {
                None => break,
                Some(Step::Packet(packet)) => self.talk.server_packet(&packet, input.time, out),
                Some(Step::More { now, over }) => {
                    self.talk.server_bytes(input.time, now, over, out)
                }
                Some(Step::Lost(n)) => self.talk.server_lost(input.time, n, hole, out),
            }
        }
    }
}

impl Talk {
    fn become_opaque(&mut self, reason: &'static str, out: &mut dyn Exchanges) {
        self.opaque = true;
        self.waiting.clear();
        self.statements = Statements::default();
        out.opaque(reason);
    }

    // The client's side.

    fn client_packet(&mut self, packet: &Packet<'_>, time: i64, out: &mut dyn Exchanges) {
        self.fresh = false;
        let answered = self.waiting.answering() && self.waiting.len() == 1;
        if std::mem::take(&mut self.client_blind)
            && (answered || matches!(packet.header[0], b'P' | b'B'))
        {
            // Its Sync was in the unseen part: there was an answer, or a batch begins with this
            // segment.
            self.batch = None;
        }
        let statements = std::mem::take(&mut self.statements);
        self.read_message(packet, &statements, out);
        if self.opaque {
            return;
        }
        self.statements = statements;
        self.statements.sent(packet.header[0], packet.prefix);
        if packet.early > 0 {
            self.client_bytes(packet.begun, packet.early, out);
        }
        self.client_bytes(time, packet.now, out);
        if packet.header[0] == b'S' {
            if let Some(Batch {
                parsed: true,
                bound: false,
                ..
            }) = self.batch.take()
            {
                out.rename(Raw::Command("PREPARE"), 0);
            }
        }
    }

    fn client_bytes(&mut self, time: i64, n: u64, out: &mut dyn Exchanges) {
        if self.client_counts {
            out.request_bytes(time, n);
        }
    }

    fn read_message(
        &mut self,
        packet: &Packet<'_>,
        statements: &Statements,
        out: &mut dyn Exchanges,
    ) {
        let begun = packet.begun;
        match packet.header[0] {
            0 => match message::startup(packet) {
                Startup::Login => self.ask(begun, Raw::Command("LOGIN"), Asked::Login, out),
                Startup::Cancel => self.one_way(begun, "CANCEL", out),
                Startup::Encrypt => {
                    self.negotiating = true;
                    self.client_counts = false;
                }
            },
            b'Q' => self.ask(
                begun,
                Raw::Sql(message::text(packet.prefix)),
                Asked::Query,
                out,
            ),
            b'F' => self.ask(begun, Raw::Command("FUNCTION CALL"), Asked::Query, out),
            b'X' => self.one_way(begun, "TERMINATE", out),
            b'P' => {
                let sql = message::parsed(packet.prefix).1;
                self.extend(begun, Raw::Sql(sql), out);
                if let Some(batch) = &mut self.batch {
                    batch.parsed = true;
                }
            }
            b'B' => {
                let sql = statements.text(message::bound(packet.prefix));
                self.bind(begun, sql, out);
            }
            b'D' => self.extend(begun, Raw::Command("DESCRIBE"), out),
            b'C' => self.extend(begun, Raw::Command("CLOSE"), out),
            b'E' => self.extend(begun, Raw::Command("EXECUTE"), out),
            b'S' => self.extend(begun, Raw::Command("SYNC"), out),
            // Answers to the server (passwords, the lines of a COPY) and Flush belong to the
            // current request.
            _ => {}
        }
    }

    /// A message of the extended protocol: the first of a batch makes the request.
    fn extend(&mut self, begun: i64, raw: Raw<'_>, out: &mut dyn Exchanges) {
        if self.batch.is_none() {
            self.ask(begun, raw, Asked::Query, out);
            self.batch = (!self.opaque).then(|| Batch {
                named: matches!(raw, Raw::Sql(_)),
                ..Batch::default()
            });
        } else if let (Raw::Sql(_), Some(batch)) = (raw, &mut self.batch) {
            if !batch.named {
                batch.named = true;
                out.rename(raw, 0);
            }
        }
    }

    fn bind(&mut self, begun: i64, sql: Option<&[u8]>, out: &mut dyn Exchanges) {
        let raw = sql.map_or(Raw::Command("EXECUTE"), Raw::Sql);
        let first = self.batch.is_none();
        self.extend(begun, raw, out);
        let Some(batch) = &mut self.batch else {
            return;
        };
        if !first && !batch.bound {
            out.rename(raw, 0);
        }
        batch.named = true;
        batch.bound = !sql.is_some_and(message::is_prelude);
        batch.parsed = false;
    }

    fn ask(&mut self, time: i64, raw: Raw<'_>, asked: Asked, out: &mut dyn Exchanges) {
        self.batch = None;
        if self.waiting.len() >= WAITING_MAX {
            return self.become_opaque("requests without responses", out);
        }
        self.before_request(out);
        self.waiting.push(asked);
        out.request(time, raw, 0);
        self.client_counts = true;
    }

    fn one_way(&mut self, time: i64, command: &'static str, out: &mut dyn Exchanges) {
        self.before_request(out);
        out.request(time, Raw::Command(command), 0);
        out.one_way();
        self.client_counts = true;
        self.batch = None;
    }

    fn before_request(&mut self, out: &mut dyn Exchanges) {
        if self.turned && self.server_blind && self.waiting.answering() {
            self.waiting.tell_all(self.outcome, self.answered_at, out);
        }
        if self.waiting.closes_at_request() {
            self.outcome = Outcome::Ok;
            self.last_packet = false;
        }
        self.waiting.before_request();
        self.turned = false;
        if self.waiting.is_empty() {
            self.server_blind = false;
        }
    }

    // The server's side.

    /// The one byte that answers a request for encryption.
    fn negotiated(&mut self, input: &mut Input<'_>, out: &mut dyn Exchanges) {
        self.negotiating = false;
        match input.bytes().first() {
            Some(b'S') => self.become_opaque("TLS", out),
            Some(b'G') => self.become_opaque("GSSAPI encryption", out),
            Some(b'E') => {}
            _ => input.skip(1),
        }
    }

    fn server_packet(&mut self, packet: &Packet<'_>, time: i64, out: &mut dyn Exchanges) {
        self.turned = true;
        self.answered_at = time;
        let kind = packet.header[0];
        if let Some(version) = message::server_version(packet.prefix).filter(|_| kind == b'S') {
            out.runs(Source::Server, version);
        }
        let unasked = matches!(kind, b'N' | b'S' | b'A') && !self.waiting.answering();
        self.server_counts = !unasked;
        if unasked {
            return;
        }
        if kind == b'W' {
            return self.become_opaque("replication stream", out);
        }
        if packet.early > 0 {
            self.waiting.bytes(packet.begun, packet.early, out);
        }
        if !self.waiting.bytes(time, packet.now, out) {
            return;
        }
        if kind == b'E' && self.outcome == Outcome::Ok {
            self.outcome = Outcome::Error(message::error(packet.prefix));
        }
        let refused = kind == b'E' && self.waiting.front() == Some(&Asked::Login);
        self.last_packet = kind == b'Z' || refused;
        if self.last_packet && packet.over {
            self.answered(out);
        }
    }

    fn server_bytes(&mut self, time: i64, n: u64, over: bool, out: &mut dyn Exchanges) {
        if self.server_counts && self.waiting.bytes(time, n, out) && over && self.last_packet {
            self.answered(out);
        }
    }

    fn server_lost(&mut self, time: i64, n: u64, hole: bool, out: &mut dyn Exchanges) {
        self.turned = true;
        self.answered_at = time;
        self.server_blind = true;
        self.last_packet = false;
        let begun = self.waiting.answering();
        if self.waiting.bytes(time, n, out) && (!hole || begun) {
            self.waiting.tell(self.outcome, out);
        }
    }

    fn answered(&mut self, out: &mut dyn Exchanges) {
        self.last_packet = false;
        let outcome = std::mem::replace(&mut self.outcome, Outcome::Ok);
        self.waiting.finish(outcome, out);
    }
}
