//! What is promised of visits, wherever they come from.

use rustc_hash::FxHashSet;
use tailrace_core::error::Result;
use tailrace_core::record::{Names, Visit, VisitSink, CALLER_IS_SERVER, NO_ID};

/// The last sink: holds visits against what the tables promise.
#[derive(Default)]
pub struct Checked {
    seen: FxHashSet<u64>,
    parents: FxHashSet<u64>,
}

pub fn is_in_order(visit: &Visit, names: &Names) {
    assert!(
        visit.sent <= visit.arrival && visit.arrival <= visit.departure,
        "{visit:?}"
    );
    assert!((visit.server as usize) < names.servers.len(), "{visit:?}");
    let caller = (visit.caller & !CALLER_IS_SERVER) as usize;
    let callers = if visit.caller & CALLER_IS_SERVER == 0 {
        names.hosts.len()
    } else {
        names.servers.len()
    };
    assert!(caller < callers, "{visit:?}");
}

impl VisitSink for Checked {
    fn push(&mut self, visit: Visit, names: &Names) -> Result<()> {
        is_in_order(&visit, names);
        assert!(
            visit.parent == NO_ID || visit.parent != visit.visit,
            "it calls itself: {visit:?}"
        );
        if visit.visit != NO_ID {
            assert!(self.seen.insert(visit.visit), "it comes twice: {visit:?}");
        }
        if visit.parent != NO_ID {
            self.parents.insert(visit.parent);
        }
        Ok(())
    }

    fn finish(&mut self, _: &Names) -> Result<()> {
        assert!(
            self.parents.is_subset(&self.seen),
            "a visit has a parent that never came"
        );
        Ok(())
    }
}
