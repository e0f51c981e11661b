//! Bytes → visits of four servers on three hosts → the call graph. A visit is eight bytes. What begins with 0xff is used
//! again until there are so many visits that the edges are known before the last of them comes.

use tailrace_core::callgraph::CallGraph;
use tailrace_core::record::{Names, Visit, VisitSink, NO_ID, NO_TIME};

use crate::promises::Checked;
use crate::Input;

/// Above the size of the sample from which edges are learnt.
const VISITS: u64 = 9_000;

pub fn link(bytes: &[u8]) {
    let names = Names {
        servers: ["web", "app", "db", "other"].map(String::from).to_vec(),
        server_hosts: vec![0, 1, 2, 2],
        hosts: ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.9", "127.0.0.1"]
            .map(String::from)
            .to_vec(),
        interactions: vec!["a".to_owned(), "b".to_owned()],
        statuses: vec!["ok".to_owned()],
        ..Names::default()
    };
    let mut graph = CallGraph::new(Checked::default());
    let mut now: i64 = 1_700_000_000_000_000_000;
    let mut input = Input(bytes);
    let many = match bytes.first() {
        Some(0xff) => VISITS,
        _ => 0,
    };
    for visit in 1.. {
        if input.is_over() {
            if visit > many || bytes.is_empty() {
                break;
            }
            input = Input(bytes);
        }
        let (which, what, passed, waited, stayed) = (
            input.byte(),
            input.byte(),
            input.short(),
            input.short(),
            input.short(),
        );
        let unit = 1_i64 << (what >> 3);
        now += (i64::from(passed) - 64) * unit.min(1 << 24);
        let arrival = now - i64::from(stayed) * unit;
        let sent = arrival
            - if what & 4 == 0 {
                0
            } else {
                i64::from(waited) * unit
            };
        let visit = Visit {
            visit,
            server: u32::from(which & 3),
            caller: u32::from(which >> 2) % 5,
            connection: u32::from(which >> 5),
            interaction: u32::from(what & 1),
            key: u64::from(waited & 3),
            sent,
            connected: NO_TIME,
            arrival,
            start: NO_TIME,
            first_byte: now,
            departure: now,
            drops: 0,
            data_drops: 0,
            status: 0,
            bytes_in: u64::from(passed),
            bytes_out: u64::from(stayed),
            served: what & 2 == 0,
            parent: NO_ID,
            request: NO_ID,
            downstream_ns: NO_TIME,
        };
        assert!(graph.push(visit, &names).is_ok());
    }
    assert!(graph.finish(&names).is_ok());
    graph.report(&names);
}
