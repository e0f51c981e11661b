//! Connections by scenario: the packets of a capture, and the expected results.
#![allow(clippy::unwrap_used, clippy::panic)]

mod attempts;
mod bytes;
mod early;
mod floods;
mod kept;
mod outlasting;
mod protocols;
mod random;
mod silent;

use super::flow::Flow;
use super::ledger::{Drop, Ledger, Quiet, Silence};
use super::names::Namer;
use super::servers::{Servers, Tally};
use super::testing::{tcp, Tcp, MS, S, US};
use super::{ACK, FIN, PSH, RST, SYN};
use crate::record::{Visit, NO_TIME};

const CLIENT: &str = "10.0.0.1:40000";
const SERVER: &str = "10.0.0.2:80";

/// The client's and the server's next packet; ids and clocks count as in a real stack.
struct Talk {
    client: &'static str,
    server: &'static str,
    ids: u16,
    packets: Vec<Tcp>,
}

impl Talk {
    fn new() -> Talk {
        Talk {
            client: CLIENT,
            server: SERVER,
            ids: 0,
            packets: Vec::new(),
        }
    }
    fn packet(
        &mut self,
        time: i64,
        up: bool,
        flags: u8,
        seq: u32,
        ack: u32,
        payload: &str,
    ) -> &mut Talk {
        self.ids += 1;
        let (from, to) = if up {
            (self.client, self.server)
        } else {
            (self.server, self.client)
        };
        let packet = tcp(from, to)
            .at(time)
            .flags(flags)
            .seq(seq)
            .ack(ack)
            .payload(payload);
        self.packets
            .push(packet.ip_id(self.ids).ts_val((time / MS) as u32));
        self
    }
    /// Sequence numbers: client from 1000, server from 5000.
    fn syn(&mut self, time: i64) -> &mut Talk {
        self.packet(time, true, SYN, 1000, 0, "")
    }
    fn syn_ack(&mut self, time: i64) -> &mut Talk {
        self.packet(time, false, SYN | ACK, 5000, 1001, "")
    }
    fn ack(&mut self, time: i64) -> &mut Talk {
        self.packet(time, true, ACK, 1001, 5001, "")
    }
    fn open(&mut self, time: i64) -> &mut Talk {
        self.syn(time).syn_ack(time + 10 * US).ack(time + 20 * US)
    }
    fn up(&mut self, time: i64, seq: u32, ack: u32, payload: &str) -> &mut Talk {
        self.packet(time, true, ACK | PSH, seq, ack, payload)
    }
    fn down(&mut self, time: i64, seq: u32, ack: u32, payload: &str) -> &mut Talk {
        self.packet(time, false, ACK | PSH, seq, ack, payload)
    }
    /// One exchange of 5 bytes up and 10 down at the beginning of the connection.
    fn exchange(&mut self, time: i64) -> &mut Talk {
        self.up(time, 1001, 5001, "hello")
            .down(time + MS, 5001, 1006, "0123456789")
    }
    fn close(&mut self, time: i64) -> &mut Talk {
        self.packet(time, true, ACK | FIN, 1006, 5011, "");
        self.packet(time + 10 * US, false, ACK | FIN, 5011, 1007, "");
        self.packet(time + 20 * US, true, ACK, 1007, 5012, "")
    }
    fn flow(&self) -> Flow {
        flow(&self.packets)
    }
}

fn flow(packets: &[Tcp]) -> Flow {
    let mut flow = Flow::new(Ledger::new(Servers::default(), Namer::default()));
    for packet in packets {
        flow.segment(&packet.segment());
    }
    flow.finish();
    flow
}

/// The results for a capture with these packets, and one unrelated packet much later.
fn long_after(packets: &[Tcp]) -> Flow {
    let later = tcp("10.0.9.9:1", "10.0.9.8:1").at(1000 * S);
    flow(&[packets, &[later]].concat())
}

fn tally(flow: &Flow) -> Tally {
    flow.ledger.servers.all()[0].tally.clone()
}

fn only_visit(flow: &Flow) -> Visit {
    assert_eq!(flow.ledger.visits.len(), 1, "{:?}", flow.ledger.visits);
    flow.ledger.visits[0].clone()
}

fn status(flow: &Flow, visit: &Visit) -> String {
    flow.ledger.names.statuses[visit.status as usize].clone()
}

/// Every packet again, this much later: a capture on two interfaces or hosts.
fn doubled(packets: &[Tcp], later: i64) -> Vec<Tcp> {
    let copies = packets
        .iter()
        .map(|p| p.clone().at(p.time + later).interface(1));
    let mut all: Vec<Tcp> = packets.iter().cloned().chain(copies).collect();
    all.sort_by_key(|p| p.time);
    all
}
