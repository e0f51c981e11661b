//! One cgroup, of version 1 or 2 or (on hosts that mount both) partly of each: CPU, quota,
//! pressure, bytes.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use super::pressure::{PressureProbe, RESOURCES};
use super::throttled::ThrottledProbe;
use super::{Before, Probe, Source, Tick};
use crate::host::formats::{cgroup, cpus, only};
use crate::host::mounts;

/// Directories of one cgroup, one per hierarchy that has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cgroup {
    directories: Vec<PathBuf>,
}

impl Cgroup {
    /// `path` is a directory of one hierarchy (`/sys/fs/cgroup/cpu/web`), or a name below them, with a slash before it
    /// (as in `/proc/PID/cgroup`) or without. Hierarchies are what `mountinfo` lists.
    pub fn find(path: &Path, mountinfo: &str) -> io::Result<Cgroup> {
        let mounts: Vec<&Path> = mountinfo.lines().filter_map(mounts::hierarchy).collect();
        let inside = |mount: &&Path| {
            let at = mounts::below(mounts::root(), path);
            at.strip_prefix(mount).map(Path::to_owned).ok()
        };
        let below = || path.strip_prefix("/").unwrap_or(path).to_owned();
        let relative = mounts.iter().find_map(inside).unwrap_or_else(below);
        let all = mounts.iter().map(|mount| mount.join(&relative));
        let directories: Vec<PathBuf> = all.filter(|directory| directory.is_dir()).collect();
        if directories.is_empty() {
            let known = mounts.iter().map(|mount| mounts::shown(mount));
            let known = known.collect::<Vec<_>>().join(", ");
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("it is in none of the mounted hierarchies ({known})"),
            ));
        }
        Ok(Cgroup { directories })
    }

    /// The cgroup that accounts for a process' CPU time; None: all processes of the host are in it,
    /// or it is not mounted.
    pub fn of_process(pid: i32, mountinfo: &str) -> Option<Cgroup> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        Cgroup::find(Path::new(cpu_group(&text)?), mountinfo).ok()
    }

    fn file(&self, name: &str) -> Option<PathBuf> {
        let mut all = self
            .directories
            .iter()
            .map(|directory| directory.join(name));
        all.find(|file| file.is_file())
    }

    /// Everything in it that can be sampled.
    pub fn probes(&self, place: u32) -> io::Result<Vec<Box<dyn Probe>>> {
        let mut probes: Vec<Box<dyn Probe>> = Vec::new();
        if let Some(probe) = self.cpu(place)? {
            probes.push(Box::new(probe));
        }
        if let Some(probe) = self.throttled(place)? {
            probes.push(Box::new(probe));
        }
        probes.extend(self.pressure(place));
        let io = self.file("io.stat");
        if let Some(file) = io.or_else(|| self.file("blkio.throttle.io_service_bytes")) {
            probes.push(Box::new(Reader::open(place, &file, Kind::Bytes)?));
        }
        Ok(probes)
    }

    /// What withheld the CPU from a server in it: a quota and, if it contains only that server, its
    /// pressure.
    pub fn held_back(&self, place: u32, server: i32) -> Vec<Box<dyn Probe>> {
        // A group that cannot be read counts as one without a quota.
        let quota = self.throttled(place).ok().flatten();
        let quota = quota.map(|probe| Box::new(probe) as Box<dyn Probe>);
        let alone = self.is_alone(server);
        let pressure = alone.then(|| self.pressure(place)).into_iter().flatten();
        quota.into_iter().chain(pressure).collect()
    }

    /// Whether all processes that its pressure covers have the server's name.
    fn is_alone(&self, server: i32) -> bool {
        let name = |pid: &str| std::fs::read(format!("/proc/{pid}/comm")).ok();
        let own = name(&server.to_string());
        let group = self.file("cpu.pressure");
        let members = group
            .and_then(|file| std::fs::read_to_string(file.with_file_name("cgroup.procs")).ok());
        let members = members.unwrap_or_default();
        let is_in = members.lines().any(|pid| pid == server.to_string());
        is_in && members.lines().all(|pid| name(pid) == own)
    }

    fn pressure(&self, place: u32) -> Vec<Box<dyn Probe>> {
        let files = RESOURCES.into_iter().filter_map(|(resource, some, full)| {
            let file = self.file(&format!("{resource}.pressure"))?;
            // Pressure may be switched off at boot: the file exists and cannot be read.
            let probe = PressureProbe::open(place, &file, (some, full)).ok()?;
            Some(Box::new(probe) as Box<dyn Probe>)
        });
        files.collect()
    }

    /// CPUs that it may use.
    pub fn cpus(&self) -> Option<BTreeSet<u32>> {
        let files = [
            "cpuset.cpus.effective",
            "cpuset.effective_cpus",
            "cpuset.cpus",
        ];
        let mut texts = files
            .iter()
            .filter_map(|name| std::fs::read(self.file(name)?).ok());
        texts.find_map(|text| cpus::list(&text))
    }

    /// Its CPU time: nanoseconds of version 1 in preference to microseconds of version 2.
    pub fn cpu(&self, place: u32) -> io::Result<Option<Reader>> {
        match self.file("cpuacct.usage") {
            Some(file) => Reader::open(place, &file, Kind::Usage).map(Some),
            None => {
                let file = self.stat_with(|text| cgroup::used_ns(text).is_some())?;
                file.map(|file| Reader::open(place, &file, Kind::UsageInStat))
                    .transpose()
            }
        }
    }

    /// How long a quota held it back: its own, or else that of the nearest group around it that has one.
    pub fn throttled(&self, place: u32) -> io::Result<Option<ThrottledProbe>> {
        let own = self.stat_with(|text| cgroup::throttled(text).is_some())?;
        let file = own.map(|own| limited(&own).unwrap_or(own));
        file.map(|file| ThrottledProbe::open(place, &file))
            .transpose()
    }

    /// The `cpu.stat` of the hierarchy that has it.
    fn stat_with(&self, has: fn(&[u8]) -> bool) -> io::Result<Option<PathBuf>> {
        let files = self.directories.iter().map(|d| d.join("cpu.stat"));
        for file in files.filter(|file| file.is_file()) {
            if has(&std::fs::read(&file)?) {
                return Ok(Some(file));
            }
        }
        Ok(None)
    }
}

/// The `cpu.stat` of the nearest group that has a quota: that of this file, or one around it.
fn limited(cpu_stat: &Path) -> Option<PathBuf> {
    let around = cpu_stat.ancestors().skip(1);
    let mut around = around.take_while(|group| group.join("cpu.stat").is_file());
    let has_quota = |group: &&Path| {
        let files = ["cpu.cfs_quota_us", "cpu.max"].map(|name| group.join(name));
        let mut texts = files.iter().filter_map(|file| std::fs::read(file).ok());
        texts.any(|text| cgroup::has_quota(&text))
    };
    Some(around.find(has_quota)?.join("cpu.stat"))
}

/// The path, below the hierarchies, of the cgroup in a `/proc/PID/cgroup` that accounts for CPU
/// time. Format: cgroups(7).
fn cpu_group(text: &str) -> Option<&str> {
    let lines = text.lines();
    let mut named = lines.filter_map(|line| line.split_once(':')?.1.split_once(':'));
    // That of version 1 with this controller; else that of version 2, which lists none.
    let has_cpu = |(list, _): &(&str, &str)| list.split(',').any(|each| each == "cpu");
    let cpu = named.clone().find(has_cpu);
    let (_, name) = cpu.or_else(|| named.find(|(list, _)| list.is_empty()))?;
    (name != "/").then_some(name)
}

#[derive(Clone, Copy)]
enum Kind {
    Usage,
    UsageInStat,
    Bytes,
}

/// Reads one file of a cgroup. CPU use is in CPUs: 1.5 is one and a half.
pub struct Reader {
    place: u32,
    source: Source,
    kind: Kind,
    before: Before<(u64, u64)>,
    path: String,
}

impl Reader {
    fn open(place: u32, path: &Path, kind: Kind) -> io::Result<Reader> {
        Ok(Reader {
            place,
            source: Source::open(path)?,
            kind,
            before: Before::default(),
            path: path.display().to_string(),
        })
    }

    fn parse(&self, text: &[u8]) -> Option<(u64, u64)> {
        match self.kind {
            Kind::Usage => only(text).map(|ns| (ns, 0)),
            Kind::UsageInStat => cgroup::used_ns(text).map(|ns| (ns, 0)),
            Kind::Bytes => Some(cgroup::io_bytes(text)),
        }
    }
}

impl Probe for Reader {
    fn sample(&mut self, into: &mut Tick) -> io::Result<()> {
        let text = into.read(&self.source)?;
        if let Some(now) = self.parse(text.bytes()) {
            if let Some((before, span)) = self.before.replace(text.at, now) {
                let change = now.0.saturating_sub(before.0);
                let place = self.place;
                match self.kind {
                    Kind::Usage | Kind::UsageInStat => {
                        into.say(place, "cpu_busy", span, span.share(change));
                    }
                    Kind::Bytes => {
                        let written = now.1.saturating_sub(before.1);
                        into.say(place, "disk_read_bytes", span, change as f64);
                        into.say(place, "disk_write_bytes", span, written as f64);
                    }
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
    use super::*;

    #[test]
    fn a_cgroup_is_found_in_every_hierarchy_that_has_it() {
        let root = std::env::temp_dir().join(format!("tailrace-{}-cgroup", std::process::id()));
        for directory in ["cpu/tb/web", "unified/tb/web", "memory"] {
            std::fs::create_dir_all(root.join(directory)).unwrap();
        }
        let line = |name: &str, kind: &str| {
            let at = root.join(name);
            format!("32 31 0:29 / {} rw,relatime - {kind} x rw\n", at.display())
        };
        let mounts = [
            line("cpu", "cgroup"),
            line("memory", "cgroup"),
            line("unified", "cgroup2"),
            line("etc", "ext4"),
        ];
        let mountinfo = mounts.concat();
        let expected = Cgroup {
            directories: vec![root.join("cpu/tb/web"), root.join("unified/tb/web")],
        };
        assert_eq!(
            Cgroup::find(Path::new("tb/web"), &mountinfo).unwrap(),
            expected
        );
        for same in [root.join("unified/tb/web"), "/tb/web".into()] {
            assert_eq!(Cgroup::find(&same, &mountinfo).unwrap(), expected);
        }
        std::fs::write(root.join("cpu/tb/web/cpuset.cpus"), "1-2\n").unwrap();
        let found = Cgroup::find(Path::new("tb/web"), &mountinfo).unwrap();
        assert_eq!(found.cpus(), Some(BTreeSet::from([1, 2])));
        for wrong in ["tb/gone", "/somewhere/else"] {
            let nowhere =
                Cgroup::find(Path::new(wrong), &mountinfo).map_err(|error| error.to_string());
            assert!(
                nowhere.is_err_and(|said| said.contains("none of the mounted hierarchies")),
                "{wrong}"
            );
        }
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn the_cpu_time_of_a_process_is_given_to_one_of_its_cgroups() {
        let mixed = "4:memory:/m\n3:cpu,cpuacct:/web\n0::/user.slice\n";
        assert_eq!(cpu_group(mixed), Some("/web"));
        assert_eq!(
            cpu_group("0::/system.slice/a:b.service\n"),
            Some("/system.slice/a:b.service")
        );
        assert_eq!(cpu_group("3:cpu:/\n0::/user.slice\n"), None);
        assert_eq!(cpu_group("1:name=systemd:/init.scope\nodd\n"), None);
    }

    #[test]
    fn a_group_without_a_quota_has_that_of_the_group_around_it() {
        let root = std::env::temp_dir().join(format!("tailrace-{}-quota", std::process::id()));
        let group = root.join("pod/app");
        std::fs::create_dir_all(&group).unwrap();
        for (folder, quota) in [(&root, "-1"), (&root.join("pod"), "20000"), (&group, "-1")] {
            std::fs::write(folder.join("cpu.cfs_quota_us"), quota).unwrap();
            std::fs::write(folder.join("cpu.stat"), "throttled_time 0\n").unwrap();
        }
        let stat = |folder: &Path| limited(&folder.join("cpu.stat"));
        assert_eq!(stat(&group), Some(root.join("pod/cpu.stat")));
        assert_eq!(stat(&root), None);
        std::fs::write(group.join("cpu.max"), "50000 100000\n").unwrap();
        assert_eq!(stat(&group), Some(group.join("cpu.stat")));
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn pressure_belongs_to_a_server_that_is_alone_in_its_cgroup() {
        let root = std::env::temp_dir().join(format!("tailrace-{}-alone", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        std::fs::write(root.join("cpu.pressure"), "some total=0\n").unwrap();
        let cgroup = Cgroup {
            directories: vec![root.clone()],
        };
        let own = std::process::id();
        // In the list, 1 is another process, and 0 one of another namespace.
        for (members, probes) in [
            (format!("{own}\n"), 1),
            (format!("{own}\n1\n"), 0),
            (format!("0\n{own}\n"), 0),
            ("1\n".to_owned(), 0),
            (String::new(), 0),
        ] {
            std::fs::write(root.join("cgroup.procs"), &members).unwrap();
            let told = cgroup.held_back(0, i32::try_from(own).unwrap());
            assert_eq!(told.len(), probes, "{members}");
        }
        std::fs::remove_dir_all(root).unwrap();
    }
}
