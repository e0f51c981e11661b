//! CPU time of one process, with all its threads.

use std::io;

use super::{Before, Probe, Tick};
use crate::host::sys;

pub struct ProcessProbe {
    place: u32,
    pid: i32,
    before: Before<i64>,
}

impl ProcessProbe {
    pub fn new(place: u32, pid: i32) -> io::Result<Self> {
        sys::process_cpu_ns(pid).ok_or_else(gone)?;
        Ok(ProcessProbe {
            place,
            pid,
            before: Before::default(),
        })
    }
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "there is no such process")
}

impl Probe for ProcessProbe {
    fn sample(&mut self, into: &mut Tick) -> io::Result<()> {
        let at = sys::steady_ns();
        let now = sys::process_cpu_ns(self.pid).ok_or_else(gone)?;
        if let Some((before, span)) = self.before.replace(at, now) {
            let used = u64::try_from(now - before).unwrap_or(0);
            into.say(self.place, "cpu_busy", span, span.share(used));
        }
        Ok(())
    }

    fn about(&self) -> String {
        format!("process {}", self.pid)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::testing::said;
    use super::*;

    #[test]
    fn a_busy_process_uses_cpu_and_one_that_is_gone_is_an_error() {
        let mut probe = ProcessProbe::new(0, i32::try_from(std::process::id()).unwrap()).unwrap();
        assert_eq!(said(&mut probe), []);
        let until = sys::own_cpu_ns() + 5_000_000;
        while sys::own_cpu_ns() < until {}
        let said = said(&mut probe);
        assert_eq!(said[0].0, "cpu_busy");
        assert!(said[0].1 > 0.0);
        assert!(ProcessProbe::new(0, i32::MAX >> 3).is_err());
    }
}
