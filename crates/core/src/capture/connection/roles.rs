//! Finds the server and the protocol of a connection whose SYN was not recorded.

use super::super::exchange::{Queue, Scribe};
use super::super::ledger::Ledger;
use super::super::reader::{other, Reader};
use super::super::servers::Evidence;
use super::{Connection, Phase, Roles};

impl Connection {
    /// Infers the server and the protocol, as far as they are unknown.
    pub(super) fn settle_reader(&mut self, forced: bool, ledger: &mut Ledger) {
        let Some(body) = &mut self.body else { return };
        let Reader::Listening(listening) = &mut body.reader else {
            return;
        };
        if self.roles == Roles::Unknown {
            let forced = forced || listening.heard_enough();
            if !listening.heard_something() {
                return;
            }
            let Some((server, evidence)) =
                ledger.servers.orient(self.ends, listening.first(), forced)
            else {
                return;
            };
            if server == 0 {
                listening.swap();
                self.ends.swap(0, 1);
                body.streams.swap(0, 1);
                body.ended.swap(0, 1);
                for held in &mut body.held {
                    held.side = other(held.side);
                }
            }
            self.roles = if evidence == Evidence::Guess {
                Roles::Guessed
            } else {
                Roles::Certain
            };
            // An orientation that comes from knowledge of the endpoint is no new evidence about it.
            let server = ledger.servers.find(
                self.ends[1],
                evidence.min(Evidence::Content),
                &mut ledger.names,
            );
            self.serve(server, ledger);
            ledger.servers.tally(server, |tally| {
                tally.connections += 1;
                tally.establish();
            });
        }
        let Some(body) = &mut self.body else { return };
        let midstream = self.attempt.is_none();
        let mut out = scribe!(self, body, ledger);
        body.reader.settle(midstream, forced, &mut out);
    }

    /// A SYN showed that the assumed client is a server.
    pub fn swap_roles(&mut self, ledger: &mut Ledger) {
        if self.phase != Phase::Open || self.roles != Roles::Guessed {
            return;
        }
        if let Some(body) = &mut self.body {
            let mut out = scribe!(self, body, ledger);
            out.forget();
            body.streams.swap(0, 1);
            body.ended.swap(0, 1);
            body.reader = Reader::new();
            body.sealed = None;
            body.queue = Queue::default();
        }
        ledger.counts.roles_corrected += 1;
        ledger.servers.tally(self.parties.server, |tally| {
            tally.connections = tally.connections.saturating_sub(1);
            tally.part();
        });
        self.ends.swap(0, 1);
        self.roles = Roles::Certain;
        let server = ledger
            .servers
            .find(self.ends[1], Evidence::Guess, &mut ledger.names);
        self.serve(server, ledger);
        ledger.servers.tally(server, |tally| {
            tally.connections += 1;
            tally.establish();
        });
        self.settle_reader(false, ledger);
    }
}
