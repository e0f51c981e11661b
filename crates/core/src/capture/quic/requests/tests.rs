#![allow(clippy::unwrap_used)]

use super::*;

fn desk<'a>(ledger: &'a mut Ledger, acked: &'a Ranges) -> Desk<'a> {
    Desk {
        ledger,
        server: 0,
        caller: 0,
        connection: 0,
        acked,
    }
}

fn of_http3() -> Requests {
    Requests {
        http3: true,
        ..Requests::default()
    }
}

fn part(id: u64, offset: u64, bytes: &[u8], time: i64) -> Part<'_> {
    Part {
        id,
        offset,
        bytes,
        ends: false,
        time,
        number: 0,
    }
}

/// The head of a response and its trailers refer to entries that come later, in two steps.
#[test]
fn a_head_and_trailers_wait_in_their_order() {
    let (mut ledger, acked) = (Ledger::default(), Ranges::default());
    let mut desk = desk(&mut ledger, &acked);
    let mut requests = of_http3();
    requests.part(
        Side::Client,
        part(0, 0, b"\x01\x04\0\0\xd4\xc1", 0),
        &mut desk,
    );
    // Entry 0 is content-type: application/grpc, entry 1 grpc-status: 14.
    let head = b"\x01\x04\x02\0\xd9\x80";
    let trailers = b"\x01\x03\x03\0\x80";
    requests.part(Side::Server, part(0, 0, head, 1), &mut desk);
    let last = Part {
        ends: true,
        ..part(0, head.len() as u64, trailers, 2)
    };
    requests.part(Side::Server, last, &mut desk);
    let first = b"\x02\xec\x10application/grpc";
    requests.part(Side::Server, part(3, 0, first, 3), &mut desk);
    assert_eq!(requests.open.len(), 1);
    let second = b"\x4bgrpc-status\x0214";
    requests.part(
        Side::Server,
        part(3, first.len() as u64, second, 4),
        &mut desk,
    );
    assert!(requests.open.is_empty() && requests.held() == 0);
    let status = ledger.visits[0].status as usize;
    assert_eq!(ledger.names.statuses[status], "error-UNAVAILABLE");
}

#[test]
fn all_streams_of_a_connection_share_a_bound() {
    let (mut ledger, acked) = (Ledger::default(), Ranges::default());
    let mut desk = desk(&mut ledger, &acked);
    let mut requests = of_http3();
    let piece = [7; 1000];
    // What waits for the first byte of a stream, and a head without its end.
    for round in 0..60 {
        for id in (0..1000).map(|number| 4 * number) {
            let (offset, bytes) = match id % 8 {
                0 => (1 + 1000 * round, &piece[..]),
                _ if round == 0 => (0, &b"\x01\x80\0\xff\xff"[..]),
                _ => (5 + 1000 * (round - 1), &piece[..]),
            };
            requests.part(Side::Client, part(id, offset, bytes, 0), &mut desk);
        }
        assert!(requests.held() <= HELD_MAX + ROOM, "{}", requests.held());
    }
    let held: usize = requests.open.values().map(Exchange::held).sum();
    assert_eq!(requests.held(), held);
    assert!(held > HELD_MAX / 2);
    requests.finish(Some((Side::Client, 1)), &mut desk);
    assert_eq!(requests.held(), 0);
}

#[test]
fn a_long_request_has_the_trace_of_its_fields() {
    for (took, traces) in [(TRACED, 1), (TRACED - 1, 0)] {
        let (mut ledger, acked) = (Ledger::default(), Ranges::default());
        let mut desk = desk(&mut ledger, &acked);
        let mut requests = of_http3();
        let id = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let head = [&b"\0\0\xd1\xc1\x27\x04traceparent\x37"[..], id].concat();
        let head = [&[1, 0x40, head.len() as u8][..], &head].concat();
        requests.part(Side::Client, part(0, 0, &head, 0), &mut desk);
        let answer = Part {
            ends: true,
            ..part(0, 0, b"\x01\x03\0\0\xd9", took)
        };
        requests.part(Side::Server, answer, &mut desk);
        assert_eq!((ledger.visits.len(), ledger.traced.len()), (1, traces));
        for traced in &ledger.traced {
            assert_eq!(traced.trace.id, 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c);
            assert_eq!((traced.begin, traced.end), (0, took));
        }
    }
}

#[test]
fn requests_that_refer_to_a_long_path_keep_none_of_it() {
    let (mut ledger, acked) = (Ledger::default(), Ranges::default());
    let mut desk = Desk {
        ledger: &mut ledger,
        server: 0,
        caller: 0,
        connection: 0,
        acked: &acked,
    };
    let mut requests = Requests {
        http3: true,
        ..Requests::default()
    };
    let part = |id, bytes| Part {
        id,
        offset: 0,
        bytes,
        ends: id != 2,
        time: 0,
        number: id,
    };
    // The stream of instructions inserts a path of 30,000 bytes: 127 + 29,873.
    let path = [b"/".to_vec(), b"a".repeat(29_999)].concat();
    let entry = [&b"\x02\xc1\x7f\xb1\xe9\x01"[..], &path].concat();
    requests.part(Side::Client, part(2, &entry), &mut desk);
    for number in 0..100 {
        let head = part(4 * number, b"\x01\x04\x02\0\x80\xd1");
        assert!(requests.part(Side::Client, head, &mut desk));
    }
    assert!(crate::saved::bytes(&requests).unwrap().len() < 10 * path.len());
    for number in 0..100 {
        let head = part(4 * number, b"\x01\x03\0\0\xd9");
        requests.part(Side::Server, head, &mut desk);
    }
    let named = |visit: &Visit| visit.key == path_key(&path);
    assert_eq!(
        ledger.visits.iter().filter(|visit| named(visit)).count(),
        100
    );
}
