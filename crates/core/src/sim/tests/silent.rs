//! Clients that connect and send nothing.

use super::causes::end;
use super::*;

/// A client connects at 0 and sends nothing for 500 ms; a second one at 100 ms, for as long; a request comes at 200 ms.
fn silent(workers: u32) -> (Report, Rows) {
    let mut plan = one(
        json!({"constant": 5e6}),
        workers,
        10,
        trace(&[200 * MS]),
        5 * S,
    );
    push(
        &mut plan["classes"],
        json!({"name": "silence", "silent": true}),
    );
    push(
        &mut plan["programs"],
        json!([{"wait": {"constant": 500e6}}]),
    );
    push(&mut plan["servers"][0]["programs"], json!(1));
    let mut silences = trace(&[0, 100 * MS]);
    silences["choice"] = json!({"mix": [[1, 1.0]]});
    push(&mut plan["workloads"], silences);
    run(&plan)
}

#[test]
fn a_client_that_sends_nothing_holds_a_worker_until_it_leaves() {
    for (workers, answered) in [(1, 605), (2, 505), (3, 205)] {
        let (report, rows) = silent(workers);
        assert_eq!(end(&rows), answered, "{workers} workers");
        assert_eq!((report.counts.answered, rows.visits.len()), (1, 1));
        let mut events: Vec<_> = rows
            .events
            .iter()
            .map(|e| (e.kind, e.begin, e.end))
            .collect();
        events.sort_by_key(|e| e.1);
        let kind = "silent_client";
        assert_eq!(
            events,
            [(kind, 0, 500 * MS), (kind, 100 * MS, 600 * MS)],
            "also of one that left before a worker was free: {workers} workers"
        );
    }
}
