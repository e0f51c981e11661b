//! Connections: SYNs, the accept queue that loses them, and the sender that repeats them
//! (`tcp_v4_conn_request`, `sk_acceptq_is_full`: an accept queue of backlog N holds N + 1).

use super::plan::Syn;
use super::queue::Kind;
use super::server::{GoesOn, Place};
use super::stay::Status;
use super::tables::Sink;
use super::Sim;

/// The least retransmission timeout of Linux (`TCP_RTO_MIN`), ns; it doubles each time.
const DATA_TIMEOUT: i64 = 200_000_000;
/// Linux gives up a connection after this many repetitions (`tcp_retries2`).
const DATA_REPEATS: u8 = 15;

impl<'a, S: Sink> Sim<'a, S> {
    /// The repetition schedule of this stay's sender.
    fn sender(&self, stay: u32) -> &'a Syn {
        let s = &self.stays[stay];
        if s.is_root() {
            return &self.plan.workloads[self.clients.workload_of(s.client)].syn;
        }
        &self.connectors[s.connector as usize].settings.syn
    }

    /// Opens a connection, or uses a kept one.
    #[inline(always)]
    pub(super) fn connect(&mut self, stay: u32) -> GoesOn {
        let s = &mut self.stays[stay];
        s.sent = self.now;
        let kind = if s.kept { Kind::Kept } else { Kind::Syn };
        if self.plan.latency > 0 {
            self.queue
                .push_last(self.now + self.plan.latency, kind, stay);
            None
        } else if s.kept {
            self.kept_arrives(stay)
        } else {
            self.syn_arrives(stay)
        }
    }

    #[inline(always)]
    pub(super) fn syn_arrives(&mut self, stay: u32) -> GoesOn {
        if self.stays[stay].abandoned {
            return self.respond(stay);
        } else if self.goes_astray(stay) {
            self.repeat_syn(stay);
        } else if !self.may_connect(self.stays[stay].server) {
            let server = self.stays[stay].server;
            self.servers[server as usize].lost += 1;
            self.report.counts.drops[server as usize] += 1;
            self.repeat_syn(stay);
        } else if self.plan.latency > 0 && !self.sender(stay).data_repeats.is_empty() {
            // The last ACK takes the place in the accept queue, a round trip later.
            self.stays[stay].arrival = self.now;
            self.queue
                .push(self.now + 2 * self.plan.latency, Kind::Data, stay);
        } else {
            self.stays[stay].arrival = self.now;
            return self.arrive(stay);
        }
        None
    }

    /// The handshake's last ACK met a full accept queue: the client believes that it is connected
    /// and repeats its data.
    pub(super) fn data_arrives(&mut self, stay: u32) -> GoesOn {
        if self.may_connect(self.stays[stay].server) {
            return self.arrive(stay);
        }
        let lost = usize::from(self.stays[stay].data_drops);
        let again = self.sender(stay).data_repeats.get(lost).copied();
        let s = &mut self.stays[stay];
        s.data_drops = s.data_drops.saturating_add(1);
        let (server, arrival) = (s.server, s.arrival);
        self.servers[server as usize].lost += 1;
        let Some(after) = again else {
            return self.times_out(stay);
        };
        let time = (arrival + 2 * self.plan.latency + after).max(self.now + 1);
        self.dropped(server, "data_drop", time);
        self.queue.push(time, Kind::Data, stay);
        None
    }

    /// A SYN got lost: its sender repeats it.
    fn repeat_syn(&mut self, stay: u32) {
        let lost = usize::from(self.stays[stay].drops);
        let syn = self.sender(stay);
        let (again, give_up) = (syn.repeats.get(lost).copied(), syn.give_up);
        let s = &mut self.stays[stay];
        s.drops = s.drops.saturating_add(1);
        let (server, sent) = (s.server, s.sent);
        match again {
            Some(after) => {
                let time = sent + after + self.plan.latency;
                self.dropped(server, "drop", time);
                self.queue.push(time.max(self.now + 1), Kind::Syn, stay);
            }
            None => {
                let time = (sent + give_up).max(self.now + 1);
                self.dropped(server, "drop", time);
                self.queue.push(time, Kind::GiveUp, stay);
            }
        }
    }

    pub(super) fn gives_up(&mut self, stay: u32) -> GoesOn {
        if self.stays[stay].abandoned {
            return self.respond(stay);
        }
        self.times_out(stay)
    }

    /// The stay never reached its server; its caller learns so.
    fn times_out(&mut self, stay: u32) -> GoesOn {
        self.stays[stay].status = Status::TimedOut;
        self.respond(stay)
    }

    /// A request on a kept connection got lost: TCP repeats its data, and a resolver its query.
    fn repeat_data(&mut self, stay: u32) -> GoesOn {
        let settings = &self.connectors[self.stays[stay].connector as usize].settings;
        let s = &mut self.stays[stay];
        s.data_drops += 1;
        let waits = if settings.datagrams {
            let again = settings.syn.repeats.get(usize::from(s.data_drops - 1));
            let Some(&after) = again else {
                let time = (s.sent + settings.syn.give_up).max(self.now + 1);
                self.queue.push(time, Kind::GiveUp, stay);
                return None;
            };
            after
        } else if s.data_drops > DATA_REPEATS {
            return self.times_out(stay);
        } else {
            (DATA_TIMEOUT << s.data_drops) - DATA_TIMEOUT
        };
        let (server, time) = (s.server, s.sent + self.plan.latency + waits);
        self.dropped(server, "data_drop", time);
        self.queue.push(time.max(self.now + 1), Kind::Kept, stay);
        None
    }

    /// A request on a kept connection: no server drops it, and it waits inside.
    #[inline(always)]
    pub(super) fn kept_arrives(&mut self, stay: u32) -> GoesOn {
        if self.goes_astray(stay) {
            return self.repeat_data(stay);
        }
        let s = &mut self.stays[stay];
        s.arrival = self.now;
        let server = s.server;
        self.enter(server, stay, Place::Inside)
    }
}
