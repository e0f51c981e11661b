//! One capture file as packets in the order of time, without copying them.
//! ```text
//!            handed out │ held │ not yet parsed │ free
//!  window  ─────────────┼──────┼────────────────┼──────
//! ```
//!
//! Packets are parsed a window at a time into short entries. If a capture stored them slightly out
//! of order, the entries are sorted and the bytes stay in place. The newest entries are held back,
//! because the next window may contain an older one. If a packet comes even later, more is held
//! back for the rest of the file.

use std::path::Path;

use super::packet::{Packet, Step};
use super::pcap::{Pcap, HEADER};
use super::pcapng::PcapNg;
use super::report::{FileReport, InterfaceReport, Loss};
use super::source::Source;
use super::steps::{is_later, Steps};
use super::tls::Keys;
use crate::error::{Error, Result};

/// What is held back at first, in packets and in bytes, whichever is less. Captures of several CPUs
/// or queues swap neighbours by microseconds; 256 KiB are 50 µs on a link of 40 Gbit/s and far more
/// on most.
const HELD_PACKETS: usize = 512;
const HELD_BYTES: usize = 1 << 18;
/// The least number of very large packets that are held back.
const HELD_LEAST: usize = 16;
/// The most that is held back, as a multiple of the first value, and as bytes.
const HELD_SCALE_MAX: usize = 16;

enum Format {
    Pcap(Box<Pcap>),
    PcapNg(Box<PcapNg>),
}

pub struct CaptureFile {
    source: Source,
    format: Format,
    number: u16,
    /// Parsed packets in the order of time; `at` counts from the front of the window and gives the
    /// order in the file.
    packets: Vec<Packet>,
    /// The times that are plausible.
    steps: Steps,
    /// Numbers of `packets` that were passed on, and that may be.
    next: usize,
    ready: usize,
    /// Bytes of the window that were parsed.
    parsed: usize,
    held_scale: usize,
    /// The latest time that was passed on.
    delivered: i64,
    /// Packets that came after a later one, when `packets` was last sorted.
    reordered: u64,
    pub report: FileReport,
}

impl CaptureFile {
    pub fn open(path: &Path, number: u16) -> Result<CaptureFile> {
        CaptureFile::new(Source::open(path)?, number)
    }

    /// The same for one of several files, of which one may be empty: a rotation that has just
    /// begun.
    pub fn open_among(path: &Path, number: u16) -> Result<CaptureFile> {
        let mut source = Source::open(path)?;
        source.fill(HEADER);
        if source.bytes().is_empty() && source.failure().is_none() {
            let mut file = CaptureFile::of(source, Format::PcapNg(Box::default()), 0, number);
            file.lose(0, "the file is empty".to_string());
            return Ok(file);
        }
        CaptureFile::new(source, number)
    }

    /// Recognises the format of `source` by its first bytes.
    pub fn new(mut source: Source, number: u16) -> Result<CaptureFile> {
        source.fill(HEADER);
        source.go_on()?;
        let (format, parsed) = recognise(&source)?;
        Ok(CaptureFile::of(source, format, parsed, number))
    }

    fn of(source: Source, format: Format, parsed: usize, number: u16) -> CaptureFile {
        let report = FileReport {
            path: source.path().display().to_string(),
            compression: source.compression(),
            ..FileReport::default()
        };
        CaptureFile {
            source,
            format,
            number,
            packets: Vec::new(),
            steps: Steps::default(),
            next: 0,
            ready: 0,
            parsed,
            held_scale: 1,
            delivered: 0,
            reordered: 0,
            report,
        }
    }

    /// Time of the next packet, on the file's own clock; None at the end.
    #[inline]
    pub fn peek(&mut self) -> Option<i64> {
        if self.next == self.ready && !self.refill() {
            return None;
        }
        self.packets.get(self.next).map(|packet| packet.time)
    }

    /// The packet whose time [`CaptureFile::peek`] returned, and its captured bytes.
    #[inline]
    pub fn take(&mut self) -> Option<(Packet, &[u8])> {
        let packet = *self.packets.get(..self.ready)?.get(self.next)?;
        self.next += 1;
        self.report.packets += 1;
        self.report.cut += u64::from(packet.captured < packet.wire);
        self.report.untimed += u64::from(packet.untimed);
        if is_later(self.delivered, packet.time) {
            self.report.late += 1;
            self.held_scale = (self.held_scale * 2).min(HELD_SCALE_MAX);
        } else {
            self.delivered = packet.time;
        }
        Some((
            packet,
            self.source
                .bytes()
                .get(packet.at..packet.at + packet.captured as usize)?,
        ))
    }

    /// Secrets that the capture holds go to `keys`.
    pub fn share(&mut self, keys: &Keys) {
        if let Format::PcapNg(pcapng) = &mut self.format {
            keys.add_all(&pcapng.secrets);
            pcapng.secrets = keys.clone();
        }
    }

    /// Fails if the user ended the work while the file was silent.
    pub fn go_on(&self) -> Result<()> {
        self.source.go_on()
    }

    /// From now on, another thread reads and unpacks.
    pub fn read_beside(&mut self) {
        self.source.read_beside();
    }

    /// Compressed bytes read, and the total (0: unknown).
    pub fn progress(&self) -> (u64, u64) {
        self.source.progress()
    }

    /// Decompressed bytes that were parsed.
    pub fn offset(&self) -> u64 {
        self.source.offset() + self.parsed as u64
    }

    /// The report, with what is known only at the end.
    pub fn finish(mut self) -> FileReport {
        self.report.bytes_read = self.source.progress().0;
        self.report.bytes = self.offset();
        self.report.reordered = self.steps.reordered.saturating_sub(self.report.late);
        self.report.times_repaired = self.steps.repaired;
        (self.report.format, self.report.interfaces) = match self.format {
            Format::PcapNg(pcapng) => ("pcapng", pcapng.reports),
            Format::Pcap(pcap) => {
                let (link, snaplen) = (pcap.link_number, pcap.snaplen);
                (
                    "pcap",
                    vec![InterfaceReport {
                        link,
                        snaplen,
                        ..InterfaceReport::default()
                    }],
                )
            }
        };
        self.report
    }

    /// Parses the next window. False when no packet is left.
    fn refill(&mut self) -> bool {
        self.packets.drain(..self.next.min(self.packets.len()));
        (self.next, self.ready) = (0, 0);
        let mut needed = 0;
        loop {
            self.trim();
            self.source.fill(needed);
            needed = self.parse();
            let ended = self.source.ended();
            let suspects = self.steps.suspects();
            let oldest = suspects.first().map_or(self.parsed, |packet| packet.at);
            if ended || self.parsed - oldest > HELD_BYTES * HELD_SCALE_MAX {
                self.steps.settle(&mut self.packets);
            }
            let cutoff = if ended { usize::MAX } else { self.cutoff() };
            if self.reordered != self.steps.reordered {
                self.packets
                    .sort_by_key(|packet| (packet.turn, packet.time));
                self.reordered = self.steps.reordered;
            }
            self.ready = self
                .packets
                .iter()
                .rposition(|packet| packet.at < cutoff)
                .map_or(0, |last| last + 1);
            if ended || self.ready > 0 {
                return self.ready > 0;
            }
        }
    }

    /// Releases the part of the window that contains no pending packet.
    fn trim(&mut self) {
        let waiting = self
            .packets
            .iter()
            .chain(self.steps.suspects())
            .map(|packet| packet.at);
        let unused = waiting.min().unwrap_or(self.parsed).min(self.parsed);
        self.source.consume(unused);
        self.parsed -= unused;
        for packet in self.packets.iter_mut().chain(self.steps.suspects_mut()) {
            packet.at -= unused;
        }
    }

    /// Packets from here on in the window are held back.
    fn cutoff(&self) -> usize {
        let nth_last = |n: usize| match self.packets.len().checked_sub(n) {
            Some(index) => self.packets.get(index).map_or(0, |packet| packet.at),
            None => 0,
        };
        let bytes_before = |count: usize| self.parsed.saturating_sub(count);
        let most = bytes_before(HELD_BYTES * HELD_SCALE_MAX);
        if !self.steps.is_settled() {
            return most;
        }
        nth_last(HELD_PACKETS * self.held_scale)
            .max(bytes_before(HELD_BYTES * self.held_scale))
            .min(nth_last(HELD_LEAST))
            .max(most)
    }

    /// Parses the window; returns how much of it must be present to continue.
    fn parse(&mut self) -> usize {
        loop {
            let ended = self.source.ended();
            let rest = self.source.bytes().get(self.parsed..).unwrap_or_default();
            let left = rest.len();
            let step = match &mut self.format {
                Format::Pcap(pcap) => pcap.step(rest, ended),
                Format::PcapNg(pcapng) => pcapng.step(rest, ended),
            };
            match step {
                Step::Packet { taken, mut packet } => {
                    packet.at += self.parsed;
                    self.parsed += taken;
                    self.steps.take(packet, &mut self.packets);
                }
                Step::Skip { taken } => self.parsed += taken,
                Step::Lost { taken, reason } => {
                    self.lose(taken, reason.to_string());
                    self.parsed += taken;
                }
                Step::Need(count) if !ended => return self.parsed + count,
                Step::Need(_) => {
                    match self.source.failure().map(str::to_string) {
                        Some(failure) => self.lose(left, failure),
                        None if left > 0 => {
                            self.lose(left, "the file ends in the middle of a record".to_string())
                        }
                        None => {}
                    }
                    self.parsed += left;
                    return 0;
                }
            }
        }
    }

    fn lose(&mut self, bytes: usize, reason: String) {
        let offset = self.source.offset() + self.parsed as u64;
        self.report.lose(Loss {
            file: self.number,
            offset,
            bytes: bytes as u64,
            reason,
        });
    }
}

/// The format by its first bytes, and how many of them are its header.
fn recognise(source: &Source) -> Result<(Format, usize)> {
    let (found, hint) = match (Pcap::open(source.bytes()), PcapNg::open(source.bytes())) {
        (Some(Ok(pcap)), _) => return Ok((Format::Pcap(Box::new(pcap)), HEADER)),
        (_, Some(pcapng)) => return Ok((Format::PcapNg(Box::new(pcapng)), 0)),
        (Some(Err(refusal)), None) => refusal,
        (None, None) => {
            let found = match (source.bytes(), source.failure()) {
                (_, Some(failure)) => failure.to_string(),
                ([], None) => "the file is empty".to_string(),
                _ => "this is no packet capture (neither pcap nor pcapng)".to_string(),
            };
            (found, "give a capture as tcpdump or Wireshark write it")
        }
    };
    Err(Error::Format {
        path: source.path().to_owned(),
        offset: 0,
        found,
        hint,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{pcap, read, tcp, PcapNg, Record, Tcp, MS, S, US};

    const BEGIN: i64 = 1_700_000_000 * S;

    fn packets(count: i64) -> Vec<Tcp> {
        let packet = |i| {
            tcp("10.0.0.1:4000", "10.0.0.2:80")
                .at(BEGIN + i * MS)
                .seq(i as u32)
                .payload([7; 90])
        };
        (0..count).map(packet).collect()
    }

    fn file(packets: &[Tcp]) -> Vec<u8> {
        pcap(&packets.iter().map(Tcp::record).collect::<Vec<Record>>())
    }

    fn ng(packets: &[Tcp]) -> Vec<u8> {
        let head = PcapNg::new(true).interface(1, 0, &[]);
        packets
            .iter()
            .fold(head, |file, p| {
                file.packet(0, (p.time / US) as u64, &p.record())
            })
            .bytes
    }

    #[test]
    fn packets_slightly_out_of_order_are_put_in_order_across_windows() {
        let mut sent = packets(50_000);
        for at in (0..sent.len() - 300).step_by(500) {
            sent.swap(at, at + 300);
        }
        let (got, report) = read(&file(&sent)).unwrap();
        assert!(got.iter().map(|s| i64::from(s.seq)).eq(0..50_000));
        assert_eq!(report.late, 0);
        assert!(report.reordered >= 100);
    }

    #[test]
    fn late_packets_are_still_passed_on_and_counted() {
        let mut sent = packets(50_000);
        let first = sent.remove(0);
        sent.insert(8_000, first);
        let (got, report) = read(&file(&sent)).unwrap();
        assert_eq!((got.len(), report.late), (50_000, 1));
    }

    #[test]
    fn absurd_times_are_replaced_by_those_of_the_neighbours() {
        let mut sent = packets(100);
        sent[40].time = 4_000_000_000 * S;
        sent[41].time = 0;
        sent[70].time = S;
        let (got, report) = read(&ng(&sent)).unwrap();
        assert!(got.iter().map(|s| i64::from(s.seq)).eq(0..100));
        assert!(got.windows(2).all(|pair| pair[0].time <= pair[1].time));
        assert_eq!((report.times_repaired, got[40].time), (3, sent[39].time));
    }

    #[test]
    fn a_capture_that_goes_on_after_a_week_is_believed() {
        let mut sent = packets(100);
        sent[50..].iter_mut().for_each(|p| p.time += 7 * 86_400 * S);
        let (got, report) = read(&file(&sent)).unwrap();
        assert!(got.iter().zip(&sent).all(|(a, b)| a.time == b.time));
        assert_eq!((report.times_repaired, report.reordered), (0, 0));
    }

    #[test]
    fn a_long_damage_is_passed_with_packets_before_and_after() {
        let sent = packets(40);
        let clean = file(&sent);
        let middle = 24 + (clean.len() - 24) / 2;
        let garbage: Vec<u8> = (0..8_000_000u32)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        let (got, report) = read(&[&clean[..middle], &garbage, &clean[middle..]].concat()).unwrap();
        assert!(got.len() >= 40, "{}", got.len());
        assert!(report.lost_bytes > 7_990_000);
    }

    #[derive(Clone, Debug)]
    enum Harm {
        Cut(prop::sample::Index),
        Flip(prop::sample::Index, u8),
        Word(prop::sample::Index, u32),
        Double(prop::sample::Index, prop::sample::Index),
        Drop(prop::sample::Index, u8),
    }

    fn harm() -> impl Strategy<Value = Harm> {
        prop_oneof![
            any::<prop::sample::Index>().prop_map(Harm::Cut),
            (any::<prop::sample::Index>(), any::<u8>()).prop_map(|(at, bit)| Harm::Flip(at, bit)),
            (any::<prop::sample::Index>(), any::<u32>())
                .prop_map(|(at, word)| Harm::Word(at, word)),
            (any::<prop::sample::Index>(), any::<prop::sample::Index>())
                .prop_map(|(a, b)| Harm::Double(a, b)),
            (any::<prop::sample::Index>(), any::<u8>())
                .prop_map(|(at, count)| Harm::Drop(at, count)),
        ]
    }

    fn apply(bytes: &mut Vec<u8>, harm: Harm) {
        if bytes.is_empty() {
            return;
        }
        match harm {
            Harm::Cut(at) => bytes.truncate(at.index(bytes.len())),
            Harm::Flip(at, bit) => {
                let at = at.index(bytes.len());
                bytes[at] ^= 1 << (bit % 8);
            }
            Harm::Word(at, word) => {
                let at = at.index(bytes.len());
                let end = bytes.len().min(at + 4);
                bytes[at..end].copy_from_slice(&word.to_le_bytes()[..end - at]);
            }
            Harm::Double(a, b) => {
                let (a, b) = (a.index(bytes.len()), b.index(bytes.len()));
                let part = bytes[a.min(b)..a.max(b)].to_vec();
                bytes.splice(a..a, part);
            }
            Harm::Drop(at, count) => {
                let at = at.index(bytes.len());
                let end = bytes.len().min(at + usize::from(count));
                bytes.drain(at..end);
            }
        }
    }

    proptest! {
        /// Whatever happened to a file: it is read to its end, nothing is invented, and all bytes
        /// are accounted for.
        #[test]
        fn harmed_files_are_read_to_the_end(harms in prop::collection::vec(harm(), 1..6), which in 0..2) {
            let sent = packets(30);
            let mut bytes = if which == 0 { file(&sent) } else { ng(&sent) };
            harms.into_iter().for_each(|harm| apply(&mut bytes, harm));
            if let Ok((got, report)) = read(&bytes) {
                prop_assert_eq!(report.bytes, bytes.len() as u64);
                prop_assert!(report.lost_bytes <= report.bytes);
                prop_assert!(got.len() <= bytes.len() / 36);
                prop_assert!(got.iter().all(|s| s.payload.len() <= s.len as usize));
                prop_assert!(got.iter().all(|s| (0..=super::super::packet::TIME_MAX).contains(&s.time)));
            }
        }

        /// One flipped bit costs a packet or two, not the rest of the file.
        #[test]
        fn a_flipped_bit_costs_little(at in any::<prop::sample::Index>(), bit in 0u8..8, which in 0..2) {
            let sent = packets(30);
            let mut bytes = if which == 0 { file(&sent) } else { ng(&sent) };
            let begin = if which == 0 { 24 } else { PcapNg::new(true).interface(1, 0, &[]).bytes.len() };
            let at = begin + at.index(bytes.len() - begin);
            bytes[at] ^= 1 << bit;
            let (got, _) = read(&bytes).unwrap();
            prop_assert!(got.len() >= 27, "{} of 30 after bit {} of byte {}", got.len(), bit, at);
        }
    }
}
