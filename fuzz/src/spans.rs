//! Files of traces in each form, in blocks that end anywhere.

use tailrace_core::spans::linked::Linked;
use tailrace_core::spans::runs::{self, Reading, Runs};
use tailrace_core::spans::store::Store;
use tailrace_core::spans::visits::{Found, Possible};
use tailrace_core::spans::{Cutter, Form, Plan};

use crate::Input;

const FORMS: [Form; 5] = [
    Form::Otlp,
    Form::Jaeger,
    Form::Zipkin,
    Form::Frames,
    Form::Message,
];

/// The first byte says the form, the second the size of the blocks.
pub fn cut(bytes: &[u8]) {
    let mut input = Input(bytes);
    let form = FORMS[usize::from(input.byte()) % FORMS.len()];
    let size = usize::from(input.byte()) + 1;
    let Ok(mut cutter) = Cutter::new(form, &plan(), bytes.len() as u64) else {
        return;
    };
    let mut store = Store::new(56);
    let blocks = input.0.chunks(size).map(|block| (block, false));
    for (block, last) in blocks.chain([(&[][..], true)]) {
        let Ok(cut) = cutter.feed(block, last) else {
            return;
        };
        for name in ["service", "label", "outcome", "peer", "host"] {
            assert!(cut.rows.column_by_name(name).is_some());
        }
        assert!(store.add(&cut.rows, &[]).is_ok());
    }
    let spans = store.take();
    let given = spans.len();
    let linked = Linked::of(spans);
    let count = linked.spans.len();
    assert_eq!(count + linked.twice, given);
    assert!(linked.order.iter().all(|&span| (span as usize) < count));
    let placed: rustc_hash::FxHashSet<u32> = linked.order.iter().copied().collect();
    assert_eq!(placed.len(), linked.order.len(), "each visit comes once");
    visits(linked);
}

fn visits(mut linked: Linked) {
    assert!(linked.calls().is_ok() && linked.columns().is_ok());
    linked.shift(&[1, -2, i64::MAX]);
    let servers = vec![1; 64];
    let possible = Possible {
        servers: &servers,
        earliest: 0,
        latest: i64::MAX,
        longest: 1 << 55,
        slack: 1_000_000,
    };
    let found = Found::of(&linked, &possible);
    assert!(found.requests(0, 3).is_ok() && found.of_callers().is_ok());
    let count = found.visits.len();
    let asked: u64 = found.interactions().values().sum();
    assert_eq!(asked, count as u64);
    let mut runs = Runs::default();
    runs.add(found.visits);
    let Ok(mut reading) = Reading::of(&runs, 7) else {
        return;
    };
    let (mut read, mut last) = (0, i64::MIN);
    while let Ok(block) = reading.next(&runs) {
        if block.is_empty() {
            break;
        }
        assert!(runs::visits(&block, 1).is_ok() && runs::requests(&block, 1).is_ok());
        for visit in &block {
            assert!(last <= visit.departure);
            last = visit.departure;
        }
        read += block.len();
    }
    assert_eq!(read, count);
}

/// What python/tailrace/readers/spans.py asks for, in short.
fn plan() -> Plan {
    let key = |name: &str| vec![name.to_owned()];
    Plan {
        labels: vec![vec![key("http.request.method"), key("http.route")]],
        otherwise: vec![key("rpc.service"), key("db.operation")],
        outcome: vec![key("http.status_code")],
        peer: key("peer.service"),
        host: vec!["host.name".to_owned(), "ip".to_owned()],
        chosen: key("tailsampling.policy"),
        queued: key("in queue"),
        connection: key(".getConnection"),
    }
}
