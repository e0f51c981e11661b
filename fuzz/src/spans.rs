//! Files of traces in each form, in blocks that end anywhere.

use tailrace_core::spans::{links, Cutter, Form, Plan};

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
    let mut spans = links::Spans::default();
    let blocks = input.0.chunks(size).map(|block| (block, false));
    for (block, last) in blocks.chain([(&[][..], true)]) {
        let Ok(cut) = cutter.feed(block, last) else {
            return;
        };
        for name in ["service", "label", "outcome", "peer", "host"] {
            assert!(cut.rows.column_by_name(name).is_some());
        }
        assert!(spans.add(&cut.rows).is_some());
    }
    let found = links::Links::of(&spans);
    let count = found.row.len();
    assert!(count <= spans.key.len());
    assert!(found.order.iter().all(|&span| (span as usize) < count));
    let placed: rustc_hash::FxHashSet<u32> = found.order.iter().copied().collect();
    assert_eq!(placed.len(), found.order.len(), "each visit comes once");
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
