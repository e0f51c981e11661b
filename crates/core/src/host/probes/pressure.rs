//! Pressure of the host or of a cgroup: the share of time in which tasks waited for a resource. It
//! shows a short stall better than any other metric, even under other load.

use std::io;
use std::path::Path;

use super::{Before, Probe, Source, Tick};
use crate::host::formats::pressure::{parse, Pressure};

/// Resource, and its metrics: some tasks waited, all tasks waited.
pub const RESOURCES: [(&str, &str, &str); 3] = [
    ("cpu", "psi_cpu", "psi_cpu_full"),
    ("io", "psi_io", "psi_io_full"),
    ("memory", "psi_memory", "psi_memory_full"),
];

pub struct PressureProbe {
    place: u32,
    metrics: (&'static str, &'static str),
    source: Source,
    before: Before<Pressure>,
    path: String,
}

impl PressureProbe {
    pub fn open(
        place: u32,
        path: &Path,
        metrics: (&'static str, &'static str),
    ) -> io::Result<Self> {
        Ok(PressureProbe {
            place,
            metrics,
            source: Source::open(path)?,
            before: Before::default(),
            path: path.display().to_string(),
        })
    }
}

impl Probe for PressureProbe {
    fn sample(&mut self, into: &mut Tick) -> io::Result<()> {
        let text = into.read(&self.source)?;
        if let Some(now) = parse(text.bytes()) {
            if let Some((before, span)) = self.before.replace(text.at, now) {
                for (metric, then, now) in [
                    (self.metrics.0, before.some_us, now.some_us),
                    (self.metrics.1, before.full_us, now.full_us),
                ] {
                    let share = span.share(now.saturating_sub(then).saturating_mul(1000));
                    // A reading takes some microseconds, so a whole interval may be slightly more
                    // than one.
                    into.say(self.place, metric, span, share.min(1.0));
                }
            }
        }
        into.done(text);
        Ok(())
    }

    fn about(&self) -> String {
        self.path.clone()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::testing::{said, Fake};
    use super::*;

    #[test]
    fn values_are_shares_of_the_interval() {
        let fake = Fake::new("pressure", "some total=1000\nfull total=0\n");
        let mut probe = PressureProbe::open(0, &fake.0, ("psi_io", "psi_io_full")).unwrap();
        assert_eq!(said(&mut probe), []);
        crate::host::sys::sleep_until(crate::host::sys::steady_ns() + 1_000_000);
        fake.say("some total=1000000001000\nfull total=0\n");
        assert_eq!(said(&mut probe), [("psi_io", 1.0), ("psi_io_full", 0.0)]);
    }
}
