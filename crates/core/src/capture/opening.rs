//! What it took to open a connection, until its first request takes that.

use serde::{Deserialize, Serialize};

use super::ledger::Ledger;
use super::wire::Side;

/// The cost of opening the connection.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Opening {
    pub sent: i64,
    pub accepted: i64,
    pub connected: i64,
    pub drops: u8,
    /// When the client could send: the end of the handshake, or the greeting of a server that
    /// speaks first.
    pub ready: i64,
    /// The client has sent something; the server spoke before that.
    pub asked: bool,
    pub greeted: bool,
    /// Of a connection with TLS: the time until the server had answered the client's hello, and its greeting before that.
    pub shaken: Option<i64>,
}

impl Opening {
    /// When the first request reached the server: with its connection. An exception is the login of
    /// a client that is slow to answer the greeting: the server has nothing to do meanwhile, and
    /// counting that time as its own would show the client's stall as the server's queue. The time
    /// until the greeting stays with the server.
    pub fn arrival(&self, begin: i64) -> i64 {
        let accepted = self.accepted.max(self.sent);
        match self.shaken.or(self.greeting()) {
            Some(waited) => accepted.max(begin.saturating_sub(waited.max(0))),
            None => accepted,
        }
    }

    /// The time until the server's greeting, if it spoke first.
    fn greeting(&self) -> Option<i64> {
        self.greeted
            .then(|| self.ready - self.accepted.max(self.sent))
    }

    /// The server refuses a client that has said nothing (HTTP, or an alert of TLS): it is no server that speaks first.
    pub fn refuses(&self, side: Side, bytes: &[u8]) -> bool {
        let refusal = bytes.starts_with(b"HTTP/") || bytes.starts_with(&[21, 3]);
        side == Side::Server && !self.asked && refusal
    }

    /// The client sends its first bytes, or the connection ends without any.
    pub fn ask(&mut self, server: u32, time: i64, ledger: &mut Ledger) {
        if !self.asked {
            ledger.silent(server, self.greeted, self.ready, time);
        }
        self.asked = true;
    }

    /// A record of the TLS handshake ended; `answered`: with it, the server has answered the client's hello, after so
    /// long.
    pub fn shake(&mut self, answered: Option<i64>, time: i64) {
        if let Some(waited) = answered {
            let greeting = self.greeting().unwrap_or(0).max(0);
            self.shaken = Some(greeting.saturating_add(waited));
        }
        self.ready = self.ready.max(time);
    }
}
