//! What all connections share and write to: names, servers, finished visits, drops, and the counts
//! of the report.

use std::net::IpAddr;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::attempt::Loss;
use super::crowd::{self, Crowd};
use super::exchange::PROMPT;
use super::lookups;
use super::lull::Lull;
use super::names::Namer;
use super::quic;
use super::servers::Servers;
use super::tls::Keys;
use super::wire::trace::Trace;
use super::wire::{self, Outcome, Raw};
use super::Endpoint;
use crate::record::rows::Event;
use crate::record::{Names, Visit};

/// Distinct statuses; a server can invent any number of words for its errors. Those beyond are
/// "error".
const STATUSES: usize = 1 << 10;
/// Visits between two decisions about which words are common; tables hold back at least twice as many.
const SETTLED: u64 = 1 << 16;

/// The outcome of a visit, in the words of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
pub enum Status {
    Ok,
    Http(u16),
    Error(u32),
    /// One of more kinds than are distinguished.
    OtherError,
    /// The connection was refused.
    Refused,
    /// No SYN of the sender's whole schedule was answered.
    Timeout,
    /// The connection was reset or closed before the response was whole.
    Reset,
    /// The client gave up.
    Abandoned,
    /// The response, or its end, fell into a hole of the capture: until `departure` it was still to come, and its outcome
    /// is unknown.
    Unknown,
}

impl Status {
    pub fn of(outcome: Outcome) -> Status {
        match outcome {
            Outcome::Ok => Status::Ok,
            Outcome::Http(code) => Status::Http(code),
            Outcome::Error(number) => Status::Error(number),
            Outcome::Aborted => Status::Abandoned,
        }
    }

    fn text(self) -> String {
        match self {
            Status::Ok => "ok".to_owned(),
            Status::Http(code) => code.to_string(),
            Status::Error(number) => format!("error-{}", wire::error_name(number)),
            Status::OtherError => "error".to_owned(),
            Status::Refused => "refused".to_owned(),
            Status::Timeout => "timeout".to_owned(),
            Status::Reset => "reset".to_owned(),
            Status::Abandoned => "abandoned".to_owned(),
            Status::Unknown => "unknown".to_owned(),
        }
    }
}

/// A lost packet that delayed a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Drop {
    pub server: u32,
    /// False: a SYN. True: the second mode.
    pub data: bool,
    pub loss: Loss,
}

impl From<Drop> for Event {
    fn from(drop: Drop) -> Event {
        Event {
            place: drop.server,
            kind: if drop.data { "data_drop" } else { "drop" },
            begin: drop.loss.begin,
            end: drop.loss.end,
            detail: None,
        }
    }
}

/// Who was silent, and where on the connection; what came after the visit had ended; or what nobody answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Quiet {
    Client,
    Server,
    /// The client kept the connection after an answer; others waited, and the server answered nobody.
    Kept,
    /// The client gave its request up, and the server went on with it.
    LateAnswer,
    /// The client lacked the answer, and the server sent it again.
    RepeatedAnswer,
    /// The client sent a short request in parts.
    SlowRequest,
    /// Nothing acknowledged what the client sent again.
    Unheard,
    /// A server on the client's host tried to connect, and the attempt was refused or had no answer.
    RefusedCall,
    UnansweredCall,
}

/// A client had a connection and sent nothing, or nothing more of a request that it had begun, for longer than a slow
/// client needs. A server that reads from one connection at a time has a worker less meanwhile. Or the server, which
/// speaks first, said nothing: it may not know of a connection whose last packet met a full accept queue, and nobody
/// repeats anything there if the server answered with a SYN cookie. Or the server went on with a request that its client
/// had given up, or repeated an answer that had been lost. Or a server called another one, which did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Silence {
    pub server: u32,
    pub of: Quiet,
    pub begin: i64,
    pub end: i64,
}

impl From<Silence> for Event {
    fn from(silence: Silence) -> Event {
        Event {
            place: silence.server,
            kind: match silence.of {
                Quiet::Client => "silent_client",
                Quiet::Server => "silent_server",
                Quiet::Kept => "idle_client",
                Quiet::LateAnswer => "late_answer",
                Quiet::RepeatedAnswer => "repeated_answer",
                Quiet::SlowRequest => "slow_request",
                Quiet::Unheard => "unacknowledged",
                Quiet::RefusedCall => "refused_call",
                Quiet::UnansweredCall => "unanswered_call",
            },
            begin: silence.begin,
            end: silence.end,
            detail: None,
        }
    }
}

/// A long visit of a request whose headers name its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Traced {
    pub server: u32,
    pub begin: i64,
    pub end: i64,
    pub trace: Trace,
}

impl From<Traced> for Event {
    fn from(traced: Traced) -> Event {
        Event {
            place: traced.server,
            kind: "trace",
            begin: traced.begin,
            end: traced.end,
            detail: Some(format!(
                "{:032x}-{:016x}",
                traced.trace.id, traced.trace.span
            )),
        }
    }
}

/// Counts of the whole recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Counts {
    pub connections: u64,
    /// Connections that were open before the recording began, or whose opening was not captured.
    pub connections_midstream: u64,
    /// Packets that were in the capture more than once.
    pub copies: u64,
    /// Segments sent again, other than SYN and SYN-ACK.
    pub retransmissions: u64,
    /// Segments whose numbers are further from those of their connection than any window.
    pub strays: u64,
    /// Holes of the capture, and the bytes missing in them.
    pub gaps: u64,
    pub gap_bytes: u64,
    /// Segments of connections that were not followed because too many were open.
    pub segments_unfollowed: u64,
    /// Connections given up while open because too many were, or because they were silent for too
    /// long.
    pub connections_evicted: u64,
    /// Connections that were first read with client and server reversed.
    pub roles_corrected: u64,
    /// Requests beyond the bound of open ones on a connection.
    pub requests_lost: u64,
    /// Exchanges whose response fell into a hole of the capture (status "unknown").
    pub responses_unseen: u64,
    /// Connection attempts without an outcome when the recording ended.
    pub connections_open: u64,
}

/// Attempts without evidence that a client made them.
#[derive(Debug, Default, Deserialize, Serialize)]
pub struct Apart {
    /// Sent once, by a host that opened no connection or to a port that accepted none.
    pub unanswered: Crowd<IpAddr, Endpoint>,
    /// Answered by the server, and not heard of again.
    pub half_open: Crowd<IpAddr, Endpoint>,
}

impl Apart {
    pub fn attempts(&self) -> u64 {
        self.unanswered.attempts() + self.half_open.attempts()
    }
}

#[derive(Default, Deserialize, Serialize)]
pub struct Ledger {
    pub names: Names,
    pub servers: Servers,
    pub visits: Vec<Visit>,
    pub drops: Vec<Drop>,
    pub silences: Vec<Silence>,
    /// By server.
    lulls: FxHashMap<u32, Lull>,
    pub traced: Vec<Traced>,
    pub counts: Counts,
    pub lookups: lookups::Report,
    pub quic: quic::Report,
    pub apart: Apart,
    /// Secrets of TLS sessions.
    #[serde(skip)]
    pub keys: Keys,
    statuses: FxHashMap<Status, u32>,
    namer: Namer,
    visits_made: u64,
    connections_made: u32,
}

impl Ledger {
    pub fn new(servers: Servers, namer: Namer) -> Ledger {
        Ledger {
            servers,
            namer,
            ..Ledger::default()
        }
    }

    pub fn revive(&mut self, namer: Namer, keys: &Keys) {
        self.namer.revive(namer);
        self.keys = keys.clone();
    }

    pub fn status(&mut self, status: Status) -> u32 {
        let free = matches!(status, Status::Http(_) | Status::Error(_));
        let crowded = free && self.statuses.len() >= STATUSES;
        let status = match crowded && !self.statuses.contains_key(&status) {
            true => Status::OtherError,
            false => status,
        };
        *self.statuses.entry(status).or_insert_with(|| {
            self.names.statuses.push(status.text());
            self.names.statuses.len() as u32 - 1
        })
    }

    pub fn interaction(&mut self, raw: Raw<'_>) -> u32 {
        let interaction = self.namer.name(raw, &mut self.names.interactions);
        self.namer.hide(&mut self.names);
        interaction
    }

    /// From now on, words that are rare among the visits so far are folded.
    pub fn settle(&mut self) {
        self.namer.settle(&mut self.names);
    }

    pub fn host(&mut self, ip: IpAddr) -> u32 {
        self.servers.host(ip, &mut self.names)
    }

    /// Those that are counted apart, for the report.
    pub fn apart(&self) -> Vec<crowd::Report> {
        let name = |endpoint: Endpoint| match self.servers.index(endpoint) {
            Some(server) => self.names.servers.get(server as usize).cloned(),
            None => None,
        };
        let name = |endpoint: Endpoint| name(endpoint).unwrap_or_else(|| endpoint.to_string());
        let unanswered = self.apart.unanswered.report("unanswered", name);
        let half_open = self.apart.half_open.report("half-open", name);
        unanswered.into_iter().chain(half_open).collect()
    }

    pub fn next_connection(&mut self) -> u32 {
        self.connections_made = self.connections_made.saturating_add(1);
        self.connections_made
    }

    pub fn lost(&mut self, server: u32, data: bool, mut loss: Loss) {
        // Where the clock was set back meanwhile, nobody knows how long it took.
        loss.end = loss.end.max(loss.begin);
        self.drops.push(Drop { server, data, loss });
    }

    /// Nothing came on a connection; `greeted`: the server had spoken first.
    pub fn silent(&mut self, server: u32, greeted: bool, begin: i64, end: i64) {
        let lasted = end.saturating_sub(begin);
        if lasted <= PROMPT {
            return;
        }
        let mut of = Quiet::Client;
        self.servers.tally(server, |tally| {
            if !greeted && tally.greets() {
                of = Quiet::Server;
                tally.unheard += 1;
                tally.unheard_longest_ns = tally.unheard_longest_ns.max(lasted);
            }
        });
        self.silences.push(Silence {
            server,
            of,
            begin,
            end,
        });
    }

    /// Something about a request, or about what was sent for it, lasted for so long.
    pub fn outlasts(&mut self, of: Quiet, server: u32, begin: i64, end: i64) {
        if end.saturating_sub(begin) > PROMPT {
            self.silences.push(Silence {
                server,
                of,
                begin,
                end,
            });
        }
    }

    /// Nothing acknowledged what a server at this address sent again to another one in this time.
    pub fn unheard(&mut self, from: IpAddr, server: u32, time: Option<Loss>) {
        if let Some(Loss { begin, end }) = time.filter(|_| self.servers.serves(from)) {
            self.outlasts(Quiet::Unheard, server, begin, end);
        }
    }

    /// A client kept a connection after an answer.
    pub fn kept(&mut self, server: u32, begin: i64, end: i64) {
        let answered_nobody = |lull: &Lull| lull.covers(begin, end);
        if end.saturating_sub(begin) <= PROMPT
            || !self.lulls.get(&server).is_some_and(answered_nobody)
        {
            return;
        }
        let mut others_wait = false;
        self.servers
            .tally(server, |tally| others_wait = tally.visits_now > 0);
        if others_wait {
            self.silences.push(Silence {
                server,
                of: Quiet::Kept,
                begin,
                end,
            });
        }
    }

    /// Takes the events of the connections so far.
    pub fn events(&mut self) -> Vec<Event> {
        let drops = self.drops.drain(..).map(Event::from);
        let silences = self.silences.drain(..).map(Event::from);
        let traced = self.traced.drain(..).map(Event::from);
        drops.chain(silences).chain(traced).collect()
    }

    /// How many visits and connections there have been so far.
    pub fn made(&self) -> (u64, u32) {
        (self.visits_made, self.connections_made)
    }

    /// Continues the numbers of another ledger.
    pub fn follow(&mut self, (visits, connections): (u64, u32)) {
        (self.visits_made, self.connections_made) = (visits, connections);
    }

    /// Takes a visit that is complete except for its id.
    pub fn push(&mut self, mut visit: Visit) {
        self.visits_made += 1;
        visit.visit = self.visits_made;
        self.namer.count(visit.interaction, visit.server);
        if self.visits_made % SETTLED == 0 {
            self.settle();
        }
        if visit.served {
            self.servers.tally(visit.server, |tally| tally.visits += 1);
            self.lulls
                .entry(visit.server)
                .or_default()
                .answer(visit.departure);
        }
        self.visits.push(visit);
    }
}
