//! The bytes of a file: captures, in whatever they are packed, and Parquet tables.

use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use tailrace_core::callgraph::CallGraph;
use tailrace_core::capture::flow::Flow;
use tailrace_core::capture::ledger::Ledger;
use tailrace_core::capture::merge::segments_from;
use tailrace_core::capture::strangers::Strangers;
use tailrace_core::record::read::Table;
use tailrace_core::record::VisitSink;

use crate::connections::hand_on;
use crate::promises::Checked;

/// From the file to linked visits: whatever it holds, reading ends, and every length and moment is possible.
pub fn capture(bytes: &[u8]) {
    let mut flow = Flow::new(Ledger::default());
    let mut visits = Strangers::new(CallGraph::new(Checked::default()));
    let stream = Box::new(Cursor::new(bytes.to_vec()));
    let report = segments_from(stream, Path::new("fuzz"), |segment| {
        assert!(segment.payload.len() <= segment.len as usize);
        assert!((0..1 << 62).contains(&segment.time));
        flow.segment(segment);
        hand_on(&mut flow, &mut visits);
        Ok(())
    });
    if let Ok(report) = report {
        assert!(report.lost_bytes <= report.bytes);
        assert!(report.segments <= report.packets);
    }
    flow.finish();
    hand_on(&mut flow, &mut visits);
    assert!(visits.finish(&flow.ledger.names).is_ok());
}

/// Tables are opened by their name, each part of them on its own.
static TABLE: LazyLock<PathBuf> = LazyLock::new(|| {
    std::env::temp_dir().join(format!("tailrace-fuzz-{}.parquet", std::process::id()))
});

pub fn table(bytes: &[u8]) {
    assert!(std::fs::write(&*TABLE, bytes).is_ok());
    if let Ok(batches) = Table::open(&TABLE).and_then(|table| table.all(64)) {
        let mut rows = 0;
        for batch in batches.map_while(Result::ok).take(1_000) {
            rows += batch.num_rows();
        }
        std::hint::black_box(rows);
    }
}
