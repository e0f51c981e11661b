//! Bytes → the payloads of packets on one connection of QUIC: no more requests than streams, and none ends before it begins.
//! The first byte says whether the streams hold frames of HTTP/3. An event is its flags (1: the server, 2: a part of the
//! handshake), a length and a payload.

use tailrace_core::capture::quic::read_plain;
use tailrace_core::capture::wire::Side;

pub fn read(mut bytes: &[u8]) {
    let Some((&first, rest)) = bytes.split_first() else {
        return;
    };
    let (http3, mut payloads) = (first & 1 == 0, Vec::new());
    bytes = rest;
    while let [flags, len, rest @ ..] = bytes {
        let side = if flags & 1 == 0 {
            Side::Client
        } else {
            Side::Server
        };
        let (payload, rest) = rest.split_at(rest.len().min(usize::from(*len)));
        bytes = rest;
        payloads.push((side, flags & 2 == 2, payload));
    }
    let ledger = read_plain(http3, payloads);
    assert!(ledger.visits.len() as u64 <= ledger.quic.requests);
    for visit in &ledger.visits {
        assert!(visit.sent <= visit.arrival && visit.arrival <= visit.departure);
    }
}
