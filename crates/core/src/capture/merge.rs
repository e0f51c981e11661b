//! Several captures as one stream of TCP segments in the order of time.
//!
//! A file is open only while its packets are due, so a hundred files of a rotated capture take the memory of one.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::clocks;
use super::file::CaptureFile;
use super::link::{self, Kinds};
use super::packet::TIME_MAX;
use super::report::{ClockReport, FileReport, SourceReport};
use super::source::Source;
use super::tls::Keys;
use super::Segment;
use crate::error::{Error, Result};

/// How often progress is reported.
const TOLD_EVERY: Duration = Duration::from_millis(200);
/// Packets between two readings of the clock: a fraction of a millisecond.
const LOOK_EVERY: u32 = 4096;

/// How captures are read.
#[derive(Clone, Debug, Default)]
pub struct SourceOptions {
    /// The offset for the clock of each file, in nanoseconds, in the order of the paths; if
    /// missing, it is inferred.
    pub offsets: Vec<Option<i64>>,
    /// Gets the secrets of TLS sessions that the captures themselves hold.
    pub keys: Keys,
    /// Other threads read and unpack the files.
    pub beside: bool,
}

/// Passes every TCP segment and datagram of DNS in `paths` ("-" alone is standard input) to `each`, in the order of
/// time, and reports what was read and what was not. The segment borrows its bytes from the read
/// buffer: nothing is copied.
///
/// `progress(bytes_read, bytes_total)` is called a few times a second, with compressed bytes; the
/// total is 0 when unknown. An error of either callback ends the reading and is returned.
pub fn segments<E, P>(
    paths: &[PathBuf],
    options: &SourceOptions,
    mut progress: P,
    mut each: E,
) -> Result<SourceReport>
where
    E: FnMut(&Segment<'_>) -> Result<()>,
    P: FnMut(u64, u64) -> Result<()>,
{
    check(paths)?;
    let mut waiting = schedule(paths, options, &mut progress)?;
    let total = waiting.iter().map(|plan| plan.size).sum();
    let mut bar = Bar {
        progress,
        total,
        done: 0,
        packets: 0,
        told: Instant::now(),
    };
    let mut open: Vec<Reading> = Vec::new();
    let mut reports: Vec<(u16, FileReport)> = Vec::new();
    loop {
        open_due(&mut waiting, &mut open, options)?;
        let earliest = open
            .iter()
            .enumerate()
            .min_by_key(|(_, reading)| (reading.head, reading.number));
        let Some(at) = earliest.map(|(at, _)| at) else {
            break;
        };
        let others = open
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != at)
            .filter_map(|(_, other)| other.head);
        let until = others
            .chain(waiting.last().map(|plan| plan.begin))
            .min()
            .unwrap_or(i64::MAX);
        let Some(reading) = open.get_mut(at) else {
            break;
        };
        reading.deliver(until, &mut bar, &mut each)?;
        if reading.head.is_none() {
            reading.file.go_on()?;
            let reading = open.swap_remove(at);
            bar.done += reading.file.progress().0;
            reports.push((reading.number, reading.finish()));
        }
    }
    (bar.progress)(bar.done, bar.total)?;
    reports.sort_by_key(|(number, _)| *number);
    Ok(SourceReport {
        files: reports.into_iter().map(|(_, report)| report).collect(),
    })
}

/// The same for one capture that `stream` yields, under the name `path`.
pub fn segments_from<E>(
    stream: Box<dyn Read + Send>,
    path: &Path,
    mut each: E,
) -> Result<FileReport>
where
    E: FnMut(&Segment<'_>) -> Result<()>,
{
    let file = CaptureFile::new(Source::new(path, stream, 0)?, 0)?;
    let clock = ClockReport::default();
    let mut reading = Reading::start(
        Plan {
            number: 0,
            path: path.to_owned(),
            begin: 0,
            size: 0,
            clock,
            file: Some(file),
        },
        &SourceOptions::default(),
    )?;
    let mut bar = Bar {
        progress: |_, _| Ok(()),
        total: 0,
        done: 0,
        packets: 0,
        told: Instant::now(),
    };
    reading.deliver(i64::MAX, &mut bar, &mut each)?;
    Ok(reading.finish())
}

fn check(paths: &[PathBuf]) -> Result<()> {
    let standard_input = paths.iter().any(|path| path.as_os_str() == "-");
    match paths.len() {
        0 => Err(Error::Options("no capture was given".to_string())),
        2.. if standard_input => Err(Error::Options(
            "standard input (\"-\") can only be read alone".to_string(),
        )),
        count if count > usize::from(u16::MAX) => {
            Err(Error::Options(format!("{count} captures are too many")))
        }
        _ => Ok(()),
    }
}

/// A file that will be read, from the moment its first packet is due.
struct Plan {
    number: u16,
    path: PathBuf,
    begin: i64,
    size: u64,
    clock: ClockReport,
    /// Kept open if it is the only one: standard input cannot be opened twice.
    file: Option<CaptureFile>,
}

/// All files, with the one that begins last first.
fn schedule<P>(paths: &[PathBuf], options: &SourceOptions, progress: &mut P) -> Result<Vec<Plan>>
where
    P: FnMut(u64, u64) -> Result<()>,
{
    if let [path] = paths {
        let file = CaptureFile::open(path, 0)?;
        let clock = clocks::given(options.offsets.first().copied().flatten());
        let size = file.progress().1;
        return Ok(vec![Plan {
            number: 0,
            path: path.clone(),
            begin: 0,
            size,
            clock,
            file: Some(file),
        }]);
    }
    let mut plans = Vec::new();
    for (number, path) in (0..).zip(paths) {
        let mut file = CaptureFile::open_among(path, number)?;
        let begin = file.peek().unwrap_or(TIME_MAX);
        let clock = ClockReport::default();
        plans.push(Plan {
            number,
            path: path.clone(),
            begin,
            size: file.progress().1,
            clock,
            file: None,
        });
    }
    let total = plans.iter().map(|plan| plan.size).sum();
    let clocks = clocks::align(paths, &options.offsets, &mut || progress(0, total))?;
    for (plan, clock) in plans.iter_mut().zip(clocks) {
        plan.begin = clock.shift(plan.begin);
        plan.clock = clock;
    }
    plans.sort_by_key(|plan| std::cmp::Reverse((plan.begin, plan.number)));
    Ok(plans)
}

/// Opens the files whose first packet comes before all packets of the open ones.
fn open_due(
    waiting: &mut Vec<Plan>,
    open: &mut Vec<Reading>,
    options: &SourceOptions,
) -> Result<()> {
    loop {
        let due = open.iter().filter_map(|reading| reading.head).min();
        match waiting.pop() {
            Some(plan) if due.is_none_or(|due| plan.begin <= due) => {
                open.push(Reading::start(plan, options)?)
            }
            Some(plan) => {
                waiting.push(plan);
                return Ok(());
            }
            None => return Ok(()),
        }
    }
}

/// A file that is being read.
struct Reading {
    number: u16,
    file: CaptureFile,
    clock: ClockReport,
    /// Time of the next packet, on the clock of the first capture.
    head: Option<i64>,
    segments: u64,
    kinds: Kinds,
    span: Option<(i64, i64)>,
}

impl Reading {
    fn start(plan: Plan, options: &SourceOptions) -> Result<Reading> {
        let mut file = match plan.file {
            Some(file) => file,
            None => CaptureFile::open_among(&plan.path, plan.number)?,
        };
        file.share(&options.keys);
        if options.beside {
            file.read_beside();
        }
        let head = file.peek().map(|time| plan.clock.shift(time));
        let (number, clock) = (plan.number, plan.clock);
        Ok(Reading {
            number,
            file,
            clock,
            head,
            segments: 0,
            kinds: Kinds::default(),
            span: None,
        })
    }

    /// Passes on packets up to the time `until`.
    fn deliver<E, P>(&mut self, until: i64, bar: &mut Bar<P>, each: &mut E) -> Result<()>
    where
        E: FnMut(&Segment<'_>) -> Result<()>,
        P: FnMut(u64, u64) -> Result<()>,
    {
        while let Some(time) = self.head.filter(|time| *time <= until) {
            if let Some((mut packet, bytes)) = self.file.take() {
                packet.time = time;
                let segment = link::segment(&packet, bytes, self.number, &mut self.kinds);
                if let Some(segment) = segment {
                    self.segments += u64::from(!segment.datagram);
                    each(&segment)?;
                }
            }
            let (begin, end) = self.span.unwrap_or((time, time));
            self.span = Some((begin.min(time), end.max(time)));
            bar.look(self.file.progress().0)?;
            self.head = self.file.peek().map(|time| self.clock.shift(time));
        }
        Ok(())
    }

    fn finish(self) -> FileReport {
        let mut report = self.file.finish();
        report.segments = self.segments;
        (report.not_tcp, report.tunnels) = (self.kinds.not_tcp(), self.kinds.tunnels());
        report.quic_connections = self.kinds.quic_connections();
        (report.begin, report.end) = self.span.unzip();
        report.clock = self.clock;
        report
    }
}

struct Bar<P> {
    progress: P,
    total: u64,
    /// Bytes of the files that are finished.
    done: u64,
    packets: u32,
    told: Instant,
}

impl<P: FnMut(u64, u64) -> Result<()>> Bar<P> {
    #[inline]
    fn look(&mut self, read: u64) -> Result<()> {
        self.packets += 1;
        if self.packets % LOOK_EVERY == 0 && self.told.elapsed() >= TOLD_EVERY {
            self.told = Instant::now();
            return (self.progress)(self.done + read, self.total);
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::report::ClockBasis;
    use super::super::testing::{pcap, tcp, Record, Seen, Tcp, MS, S};
    use super::*;

    const BEGIN: i64 = 1_700_000_000 * S;

    /// Files that are gone when the test ends.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("tailrace-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Folder(path)
        }
        fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
            let path = self.0.join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn packet(i: i64) -> Tcp {
        tcp("10.0.0.1:4000", "10.0.0.2:80")
            .at(BEGIN + i * MS)
            .seq(i as u32)
            .payload([7; 50])
    }

    fn file(packets: impl Iterator<Item = i64>) -> Vec<u8> {
        pcap(&packets.map(|i| packet(i).record()).collect::<Vec<Record>>())
    }

    fn all(paths: &[PathBuf]) -> (Vec<Seen>, SourceReport) {
        let mut seen = Vec::new();
        let report = segments(
            paths,
            &SourceOptions::default(),
            |_, _| Ok(()),
            |segment| {
                seen.push(Seen::of(segment));
                Ok(())
            },
        );
        (seen, report.unwrap())
    }

    #[test]
    fn captures_are_merged_by_time_and_distinguished() {
        let folder = Folder::new("merge");
        let even = folder.write("even", &file((0..2000).step_by(2)));
        let odd = folder.write("odd", &file((1..2000).step_by(2)));
        let (seen, report) = all(&[even, odd]);
        let expected: Vec<Seen> = (0..2000)
            .map(|i| packet(i).file((i % 2) as u16).seen())
            .collect();
        assert!(seen == expected);
        assert_eq!(
            report.files.iter().map(|f| f.segments).collect::<Vec<_>>(),
            [1000, 1000]
        );
        assert_eq!(report.files[1].clock.basis, ClockBasis::Unknown);
    }

    #[test]
    fn rotated_files_are_read_in_their_order_whatever_the_order_of_the_names() {
        let folder = Folder::new("rotation");
        let paths: Vec<PathBuf> = [3i64, 0, 4, 1, 2]
            .iter()
            .map(|part| folder.write(&part.to_string(), &file(part * 100..part * 100 + 100)))
            .collect();
        let (seen, report) = all(&paths);
        assert!(seen
            .iter()
            .map(|s| s.time)
            .eq((0..500).map(|i| BEGIN + i * MS)));
        assert!(report.files[1..]
            .iter()
            .all(|f| f.clock.basis == ClockBasis::Rotation));
        assert!(report.files.iter().all(|f| f.clock.offset_ns == 0));
    }

    #[test]
    fn a_given_offset_is_used() {
        let folder = Folder::new("given");
        let paths = [
            folder.write("a", &file(0..10)),
            folder.write("b", &file(0..10)),
        ];
        let options = SourceOptions {
            offsets: vec![None, Some(S)],
            ..SourceOptions::default()
        };
        let mut last = 0;
        let report = segments(
            &paths,
            &options,
            |_, _| Ok(()),
            |segment| {
                last = segment.time;
                Ok(())
            },
        );
        assert_eq!(last, BEGIN + 9 * MS + S);
        assert_eq!(report.unwrap().files[1].clock.basis, ClockBasis::Given);
    }

    #[test]
    fn an_empty_file_among_others_is_noted_and_no_error() {
        let folder = Folder::new("empty");
        let (seen, report) = all(&[folder.write("a", &file(0..10)), folder.write("b", b"")]);
        assert_eq!(seen.len(), 10);
        assert!(report.files[1].losses[0].reason.contains("empty"));
        assert!(segments(
            &[folder.write("c", b"")],
            &SourceOptions::default(),
            |_, _| Ok(()),
            |_| Ok(())
        )
        .is_err());
    }

    #[test]
    fn what_cannot_be_read_is_an_error_that_names_the_file() {
        let read = |paths: &[PathBuf]| {
            let result = segments(paths, &SourceOptions::default(), |_, _| Ok(()), |_| Ok(()));
            result.unwrap_err().to_string()
        };
        let folder = Folder::new("refused");
        assert!(read(&[folder.0.join("nothing")]).contains("nothing"));
        assert!(read(std::slice::from_ref(&folder.0)).contains("refused"));
        assert!(read(&[PathBuf::from("-"), PathBuf::from("-")]).contains("standard input"));
        assert!(read(&[]).contains("no capture"));
        let text = folder.write("text", b"neither pcap nor pcapng, but words");
        assert!(read(&[folder.write("a", &file(0..10)), text]).contains("text"));
    }

    #[test]
    fn a_callback_that_fails_ends_the_reading() {
        let folder = Folder::new("stop");
        let path = folder.write("a", &file(0..10));
        let mut count = 0;
        let stopped = segments(
            &[path],
            &SourceOptions::default(),
            |_, _| Ok(()),
            |_| {
                count += 1;
                if count == 3 {
                    Err(Error::Interrupted)
                } else {
                    Ok(())
                }
            },
        );
        assert!(matches!(stopped, Err(Error::Interrupted)));
        assert_eq!(count, 3);
    }
}
