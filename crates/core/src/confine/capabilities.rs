//! Capabilities of the calling thread; its child threads begin with the same.

use std::io;

use rustix::thread::{capabilities, set_capabilities, CapabilitySet, CapabilitySets};

/// Capabilities that the thread has, or may raise.
pub fn held() -> CapabilitySet {
    capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.permitted)
}

/// Keeps these capabilities: `effective` permanently, `at_times` only within [`raised`]. Programs
/// that it starts get no more.
pub fn keep(effective: CapabilitySet, at_times: CapabilitySet) -> io::Result<()> {
    let held = held();
    let sets = CapabilitySets {
        effective: effective & held,
        permitted: (effective | at_times) & held,
        inheritable: CapabilitySet::empty(),
    };
    // The ambient ones, which programs get, go with the inheritable ones.
    set_capabilities(None, sets)?;
    Ok(rustix::thread::set_no_new_privs(true)?)
}

/// Runs `work` with raised rights, if the thread has kept them for that.
pub fn raised<T>(more: CapabilitySet, work: impl FnOnce() -> T) -> T {
    let Ok(before) = capabilities(None) else {
        return work();
    };
    let effective = before.effective | (more & before.permitted);
    // Without them, the work itself reports what was refused.
    let _ = set_capabilities(
        None,
        CapabilitySets {
            effective,
            ..before
        },
    );
    let done = work();
    let _ = set_capabilities(None, before);
    done
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// On a thread of its own, because the other threads of the process must not change.
    fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| scope.spawn(work).join().unwrap())
    }

    #[test]
    fn what_is_kept_is_all_there_is_and_what_is_kept_for_times_is_raised() {
        let (one, other) = (CapabilitySet::SYS_PTRACE, CapabilitySet::NET_RAW);
        let before = held();
        apart(|| {
            keep(one, other).unwrap();
            let now = || capabilities(None).unwrap();
            assert_eq!(now().effective, one & before);
            assert_eq!(now().permitted, (one | other) & before);
            let within = raised(other, now);
            assert_eq!(within.effective, (one | other) & before);
            assert_eq!(now().effective, one & before);
            keep(CapabilitySet::all(), CapabilitySet::empty()).unwrap();
            assert_eq!(now().effective, (one | other) & before);
            assert!(rustix::thread::no_new_privs().unwrap());
        });
        assert_eq!(held(), before);
    }
}
