//! Bytes → segments of a few connections, near enough to real ones that they get far, → visits, linked.
//!
//! A segment is six bytes and its payload: which connection and side; flags; where its sequence number and its
//! acknowledgement lie; how much time has passed; how long the payload is, and of which bytes.

use std::net::{IpAddr, Ipv4Addr};

use tailrace_core::callgraph::CallGraph;
use tailrace_core::capture::flow::Flow;
use tailrace_core::capture::ledger::Ledger;
use tailrace_core::capture::strangers::Strangers;
use tailrace_core::capture::{Endpoint, Segment};
use tailrace_core::record::VisitSink;

use crate::promises::{is_in_order, Checked};
use crate::Input;

const PORTS: [u16; 8] = [80, 3306, 5432, 6379, 8009, 9000, 443, 0];
const SAID: [&[u8]; 6] = [
    b"GET /page HTTP/1.1\r\nHost: a\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    b"\x4a\x00\x00\x00\x0a8.0.36\x00",
    b"\x09\x00\x00\x00\x03SELECT 1",
    b"*1\r\n$4\r\nPING\r\n",
    b"\0\0\0\0\0\0",
];
/// Where a number lies from where it is due.
const AWAY: [i32; 16] = [
    0,
    0,
    0,
    0,
    0,
    0,
    1,
    -1,
    6,
    -6,
    1448,
    -1448,
    1 << 17,
    -(1 << 17),
    i32::MAX,
    i32::MIN,
];
/// Nanoseconds that pass; some clocks are set back.
const PASSED: [i64; 16] = [
    0,
    0,
    1_000,
    20_000,
    100_000,
    1_000_000,
    40_000_000,
    200_000_000,
    1_000_000_000,
    3_000_000_000,
    15_000_000_000,
    70_000_000_000,
    8_000_000_000_000,
    -1_000_000,
    -20_000_000_000,
    -(1 << 60),
];

/// The end's address is one of few, so that ports come again and a client is a server elsewhere.
fn end(number: u8, port: u16) -> Endpoint {
    let ip = IpAddr::V4(Ipv4Addr::new(10, 0, 0, number));
    Endpoint { ip, port }
}

pub fn follow(bytes: &[u8]) {
    let mut input = Input(bytes);
    let mut flow = Flow::new(Ledger::default());
    let mut visits = Strangers::new(CallGraph::new(Checked::default()));
    let mut due = [[0_u32; 2]; 32];
    let mut time: i64 = 1_700_000_000_000_000_000;
    while !input.is_over() {
        let [which, flags, numbers, clock, said, length] = std::array::from_fn(|_| input.byte());
        let connection = usize::from(which & 31);
        let side = usize::from(which >> 5 & 1);
        let ends = [
            end(which & 3, 40_000 + u16::from(which & 4)),
            end(which >> 1 & 3, PORTS[usize::from(which >> 2 & 7)]),
        ];
        time = time
            .saturating_add(PASSED[usize::from(clock & 15)])
            .clamp(0, 1 << 62);
        let payload = match SAID.get(usize::from(said & 15)) {
            Some(text) => text,
            None => input.take(usize::from(length)),
        };
        let hidden = if said & 16 == 0 {
            0
        } else {
            u32::from(length) * 16
        };
        let seq = due[connection][side].wrapping_add_signed(AWAY[usize::from(numbers & 15)]);
        let segment = Segment {
            time,
            from: ends[side],
            to: ends[1 - side],
            seq,
            ack: due[connection][1 - side].wrapping_add_signed(AWAY[usize::from(numbers >> 4)]),
            flags,
            window: 1000,
            ts_val: (clock & 16 != 0).then_some((time >> 20) as u32),
            ts_ecr: (clock & 16 != 0).then_some((time >> 20) as u32),
            had_twice: clock & 48 == 48,
            ip_id: (clock & 32 != 0).then_some(u16::from(length)),
            len: payload.len() as u32 + hidden,
            payload,
            file: 0,
            interface: u16::from(clock >> 6),
            datagram: said & 64 != 0,
        };
        due[connection][side] = seq
            .wrapping_add(segment.len)
            .wrapping_add(u32::from(flags & 3 != 0));
        flow.segment(&segment);
        hand_on(&mut flow, &mut visits);
    }
    flow.finish();
    hand_on(&mut flow, &mut visits);
    assert!(visits.finish(&flow.ledger.names).is_ok());
}

/// The visits that are finished, to those who link them.
pub fn hand_on(flow: &mut Flow, visits: &mut impl VisitSink) {
    for loss in flow.ledger.drops.drain(..) {
        assert!(loss.loss.begin <= loss.loss.end, "{loss:?}");
    }
    for visit in flow.ledger.visits.drain(..) {
        is_in_order(&visit, &flow.ledger.names);
        assert!(visits.push(visit, &flow.ledger.names).is_ok());
    }
}
