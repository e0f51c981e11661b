//! The host as a whole: CPUs, run queue, dirty pages, disks, clock rate, pressure.

use std::path::Path;
use std::{fs, io};

use super::pressure::{PressureProbe, RESOURCES};
use super::{Before, Probe, Source, Tick};
use crate::host::formats::{disks, only, schedstat, stat, vmstat};
use crate::host::sys;

/// Everything that this kernel has; missing sources are left out.
pub fn probes(place: u32, mountinfo: &str) -> Vec<Box<dyn Probe>> {
    let mut probes: Vec<Box<dyn Probe>> = Vec::new();
    let mut add = |probe: io::Result<Box<dyn Probe>>| probes.extend(probe.ok());
    add(Cpu::open(place, mountinfo).map(|probe| Box::new(probe) as _));
    add(Waits::open(place).map(|probe| Box::new(probe) as _));
    add(Pages::open(place).map(|probe| Box::new(probe) as _));
    add(Disks::open(place).map(|probe| Box::new(probe) as _));
    add(Rate::open(place, Path::new(CPUS)).map(|probe| Box::new(probe) as _));
    for (resource, some, full) in RESOURCES {
        let path = Path::new("/proc/pressure").join(resource);
        let probe = PressureProbe::open(place, &path, (some, full));
        add(probe.map(|probe| Box::new(probe) as _));
    }
    probes
}

/// Shares of all CPUs. Busy time comes from the root cgroup if it is accounted in nanoseconds:
/// `/proc/stat` counts ticks of 10 ms, of which a window of 50 ms has five a CPU.
struct Cpu {
    place: u32,
    cpus: u64,
    stat: Source,
    before: Before<stat::Stat>,
    usage: Option<(Source, Before<u64>)>,
}

impl Cpu {
    fn open(place: u32, mountinfo: &str) -> io::Result<Cpu> {
        let accounting = mountinfo.lines().find_map(|line| {
            let mount = line.split(' ').nth(4)?;
            let file = Path::new(mount).join("cpuacct.usage");
            Source::open(file).ok()
        });
        Ok(Cpu {
            place,
            cpus: sys::cpus(),
            stat: Source::open("/proc/stat")?,
            before: Before::default(),
            usage: accounting.map(|source| (source, Before::default())),
        })
    }

    /// Busy share by the root cgroup.
    fn busy(&mut self, into: &mut Tick) -> io::Result<bool> {
        let Some((source, before)) = &mut self.usage else {
            return Ok(false);
        };
        let text = into.read(source)?;
        let now = only(text.bytes());
        let at = text.at;
        into.done(text);
        let Some(now) = now else {
            return Ok(false);
        };
        if let Some((before, span)) = before.replace(at, now) {
            let share = span.share(now.saturating_sub(before)) / self.cpus as f64;
            into.say(self.place, "cpu_busy", span, share.min(1.0));
        }
        Ok(true)
    }
}

impl Probe for Cpu {
    fn sample(&mut self, into: &mut Tick) -> io::Result<()> {
        let exact = self.busy(into)?;
        let text = into.read(&self.stat)?;
        if let Some(now) = stat::parse(text.bytes()) {
            if let Some((before, span)) = self.before.replace(text.at, now) {
                let all = now.all.saturating_sub(before.all).max(1) as f64;
                let idle = now.idle.saturating_sub(before.idle);
                let iowait = now.iowait.saturating_sub(before.iowait);
                let steal = now.steal.saturating_sub(before.steal);
                let place = self.place;
                if !exact {
                    let busy = 1.0 - (idle + iowait) as f64 / all;
                    into.say(place, "cpu_busy", span, busy.clamp(0.0, 1.0));
                }
                into.say(place, "cpu_iowait", span, (iowait as f64 / all).min(1.0));
                into.say(place, "cpu_steal", span, (steal as f64 / all).min(1.0));
                // The sampling thread itself runs, too.
                let running = now.running.saturating_sub(1);
                into.say(place, "run_queue", span, running as f64);
                let switches = now.context_switches.saturating_sub(before.context_switches);
                into.say(place, "context_switches", span, switches as f64);
            }
        }
        into.done(text);
        Ok(())
    }

    fn about(&self) -> String {
        "/proc/stat".to_owned()
    }
}

/// The mean number of threads that waited for a CPU in the interval.
struct Waits {
    place: u32,
    source: Source,
    before: Before<u64>,
}

impl Waits {
    fn open(place: u32) -> io::Result<Waits> {
        Ok(Waits {
            place,
            source: Source::open_lines("/proc/schedstat")?,
            before: Before::default(),
        })
    }
}

impl Probe for Waits {
    fn sample(&mut self, into: &mut Tick) -> io::Result<()> {
        let text = into.read(&self.source)?;
        if let Some(now) = schedstat::waited_ns(text.bytes()) {
            if let Some((before, span)) = self.before.replace(text.at, now) {
                let waited = span.share(now.saturating_sub(before));
                into.say(self.place, "run_queue_waiting", span, waited);
            }
        }
        into.done(text);
        Ok(())
    }

    fn about(&self) -> String {
        "/proc/schedstat".to_owned()
    }
}

/// Pages that wait to be written, and waits for memory. They come early in `/proc/vmstat`, so its first page is enough.
struct Pages {
    place: u32,
    page: f64,
    source: Source,
    before: Before<vmstat::Memory>,
}

impl Pages {
    fn open(place: u32) -> io::Result<Pages> {
        Ok(Pages {
            place,
            page: sys::page_bytes() as f64,
            source: Source::open("/proc/vmstat")?,
            before: Before::default(),
        })
    }
}

impl Probe for Pages {
    fn sample(&mut self, into: &mut Tick) -> io::Result<()> {
        let text = into.read(&self.source)?;
        if let Some(now) = vmstat::parse(text.bytes()) {
            if let Some((before, span)) = self.before.replace(text.at, now) {
                let dirty = now.dirty_pages as f64 * self.page;
                let writeback = now.writeback_pages as f64 * self.page;
                let faults = now.major_faults.saturating_sub(before.major_faults);
                let reclaims = now.direct_reclaims.saturating_sub(before.direct_reclaims);
                for (metric, value) in [
                    ("dirty_bytes", dirty),
                    ("writeback_bytes", writeback),
                    ("major_faults", faults as f64),
                    ("direct_reclaims", reclaims as f64),
                ] {
                    into.say(self.place, metric, span, value);
                }
            }
        }
        into.done(text);
        Ok(())
    }

    fn about(&self) -> String {
        "/proc/vmstat".to_owned()
    }
}

/// The most disks that are sampled.
const DISKS: usize = 64;

/// The busiest disk, and bytes of all.
struct Disks {
    place: u32,
    source: Source,
    /// Whole disks (a partition's work counts for its disk, too), as /sys lists them.
    whole: Vec<String>,
    before: Before<[disks::Disk; DISKS]>,
}

impl Disks {
    fn open(place: u32) -> io::Result<Disks> {
        let names = std::fs::read_dir("/sys/block")?
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok());
        Ok(Disks {
            place,
            source: Source::open_lines("/proc/diskstats")?,
            whole: names.take(DISKS).collect(),
            before: Before::default(),
        })
    }
}

impl Probe for Disks {
    fn sample(&mut self, into: &mut Tick) -> io::Result<()> {
        let text = into.read(&self.source)?;
        let mut now = [disks::Disk::default(); DISKS];
        for (name, disk) in disks::parse(text.bytes()) {
            let at = self.whole.iter().position(|known| known.as_bytes() == name);
            if let Some(place) = at.and_then(|at| now.get_mut(at)) {
                *place = disk;
            }
        }
        if let Some((before, span)) = self.before.replace(text.at, now) {
            let (mut busy, mut read, mut written) = (0.0_f64, 0, 0);
            for (then, now) in before.iter().zip(&now) {
                let ms = now.busy_ms.saturating_sub(then.busy_ms);
                busy = busy.max(span.share(ms.saturating_mul(1_000_000)));
                read += now.read_bytes.saturating_sub(then.read_bytes);
                written += now.written_bytes.saturating_sub(then.written_bytes);
            }
            into.say(self.place, "disk_busy", span, busy.min(1.0));
            into.say(self.place, "disk_read_bytes", span, read as f64);
            into.say(self.place, "disk_write_bytes", span, written as f64);
        }
        into.done(text);
        Ok(())
    }

    fn about(&self) -> String {
        "/proc/diskstats".to_owned()
    }
}

/// CPUs whose clock rate is read: each reading needs an access to the hardware.
const RATES: usize = 16;
const CPUS: &str = "/sys/devices/system/cpu";

/// Mean clock rate of the first CPUs, if there is a governor, and its maximum.
struct Rate {
    place: u32,
    sources: Vec<Source>,
    most: Option<f64>,
    before: Before<()>,
}

impl Rate {
    fn open(place: u32, cpus: &Path) -> io::Result<Rate> {
        let governed = (0..RATES).map(|cpu| cpus.join(format!("cpu{cpu}/cpufreq")));
        let (mut sources, mut most) = (Vec::new(), Vec::new());
        for cpu in governed {
            if let Ok(source) = Source::open(cpu.join("scaling_cur_freq")) {
                sources.push(source);
                most.extend(sustained(&cpu));
            }
        }
        if sources.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let all_say = most.len() == sources.len();
        Ok(Rate {
            place,
            most: all_say.then(|| mean_hz(&most)),
            sources,
            before: Before::default(),
        })
    }
}

/// The highest rate of a CPU in kHz; for a CPU that exceeds its base rate only while others idle,
/// the base rate.
fn sustained(cpu: &Path) -> Option<u64> {
    ["base_frequency", "cpuinfo_max_freq"]
        .iter()
        .find_map(|name| only(&fs::read(cpu.join(name)).ok()?))
}

fn mean_hz(khz: &[u64]) -> f64 {
    khz.iter().sum::<u64>() as f64 * 1000.0 / khz.len() as f64
}

impl Probe for Rate {
    fn sample(&mut self, into: &mut Tick) -> io::Result<()> {
        let at = sys::steady_ns();
        let mut khz = Vec::with_capacity(RATES);
        for source in &self.sources {
            let text = into.read(source)?;
            khz.extend(only(text.bytes()));
            into.done(text);
        }
        if let Some(((), span)) = self.before.replace(at, ()).filter(|_| !khz.is_empty()) {
            into.say(self.place, "cpu_hz", span, mean_hz(&khz));
            if let Some(most) = self.most {
                into.say(self.place, "cpu_hz_max", span, most);
            }
        }
        Ok(())
    }

    fn about(&self) -> String {
        "the CPUs' clock rate".to_owned()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_load_of_this_host_is_in_shares() {
        let mountinfo = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let mut probes = probes(0, &mountinfo);
        let mut tick = Tick::default();
        for _ in 0..2 {
            tick.samples.clear();
            for probe in &mut probes {
                probe.sample(&mut tick).unwrap();
            }
            sys::sleep_until(sys::steady_ns() + 20_000_000);
        }
        let value = |metric: &str| {
            tick.samples
                .iter()
                .find(|s| s.metric == metric)
                .unwrap()
                .value
        };
        for metric in ["cpu_busy", "cpu_iowait", "cpu_steal", "disk_busy"] {
            assert!((0.0..=1.0).contains(&value(metric)), "{metric}");
        }
        assert!(value("context_switches") > 0.0);
        assert!(tick.samples.iter().all(|s| s.interval >= 20_000_000));
    }

    /// Metric and value of a CPU with these files.
    fn rates(files: &[(&str, &str)]) -> Vec<(&'static str, f64)> {
        let cpus = std::env::temp_dir().join(format!("tailrace-{}-cpufreq", std::process::id()));
        let cpu = cpus.join("cpu0/cpufreq");
        fs::create_dir_all(&cpu).unwrap();
        for (name, khz) in files {
            fs::write(cpu.join(name), format!("{khz}\n")).unwrap();
        }
        let mut tick = Tick::default();
        if let Ok(mut probe) = Rate::open(0, &cpus) {
            for _ in 0..2 {
                probe.sample(&mut tick).unwrap();
            }
        }
        fs::remove_dir_all(cpus).unwrap();
        tick.samples.iter().map(|s| (s.metric, s.value)).collect()
    }

    #[test]
    fn a_clock_rate_comes_with_the_highest_that_lasts() {
        let (now, most) = (
            ("scaling_cur_freq", "1200000"),
            ("cpuinfo_max_freq", "3900000"),
        );
        assert_eq!(
            rates(&[now, most]),
            [("cpu_hz", 1.2e9), ("cpu_hz_max", 3.9e9)]
        );
        let base = ("base_frequency", "2400000");
        assert_eq!(rates(&[now, most, base])[1], ("cpu_hz_max", 2.4e9));
        assert_eq!(rates(&[now]), [("cpu_hz", 1.2e9)]);
        assert_eq!(rates(&[most]), []);
    }
}
