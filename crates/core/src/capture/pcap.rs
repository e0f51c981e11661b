//! The pcap format: a file header, then records of (seconds, fraction, captured length, wire
//! length, bytes).
//!
//! A record has no marker, so damage shows only as an implausible header. The reader then looks for
//! the next place from which [`CHAIN`] headers in a row are plausible, and reports the bytes
//! between as lost. Source: draft-ietf-opsawg-pcap.
//!
//! Files may follow one another, as `cat` puts them. The header of a further one is no plausible
//! record: its magic number is a time in 2055 or later, with a captured length of 0.

use super::link::Link;
use super::packet::{u16_at, u32_at, Packet, Step, PACKET_MAX, TIME_MAX};

pub const HEADER: usize = 24;
const RECORD: usize = 16;
/// Headers in a row that must be plausible. Random bytes pass one with a probability below 2^-40
/// (length, fraction, time).
const CHAIN: usize = 3;
/// The same number if they do not even continue from the time before the damage.
const CHAIN_ELSEWHERE: usize = 8;
/// tcpdump's largest snap length: a file may contain this, whatever its header says.
const SNAPLEN_MAX: u32 = 262_144;
/// Two neighbouring records further apart than this are checked twice.
const APART: i64 = 86_400;
/// The shortest packet that holds anything: an Ethernet header.
const PACKET_MIN: u32 = 14;

pub struct Pcap {
    big_endian: bool,
    /// Fractions in a second: a million or a thousand million.
    fractions: u32,
    /// Some programs write more than a second of them. Wireshark adds up what fits into 32 bits of
    /// nanoseconds.
    fractions_most: u32,
    pub link: Link,
    pub link_number: u16,
    pub snaplen: u32,
    /// No record may be longer; one longer than `usual` is checked twice.
    limit: u32,
    usual: u32,
    last_seconds: Option<i64>,
    scanning: bool,
}

#[derive(Clone, Copy)]
struct Record {
    seconds: u32,
    fraction: u32,
    captured: u32,
    wire: u32,
}

enum Chain {
    Holds,
    Breaks,
    Need(usize),
}

/// What is wrong with a file that is not a readable pcap.
pub type Refusal = (String, &'static str);

impl Pcap {
    /// Reads the file header, for packets of a link type that is read. None if it is not that of a
    /// pcap.
    pub fn open(header: &[u8]) -> Option<Result<Pcap, Refusal>> {
        let opened = Pcap::any(header)?;
        Some(opened.and_then(|pcap| match pcap.link {
            Link::Unknown => Err((
                format!("packets of link type {}, which are not read", pcap.link_number),
                "Ethernet, Linux cooked, raw IP, loopback and PPP are; capture on such an interface",
            )),
            _ => Ok(pcap),
        }))
    }

    /// The same for packets of any link type.
    fn any(header: &[u8]) -> Option<Result<Pcap, Refusal>> {
        let (big_endian, fractions) = match *header.first_chunk::<4>()? {
            [0xa1, 0xb2, 0xc3, 0xd4] => (true, 1_000_000),
            [0xd4, 0xc3, 0xb2, 0xa1] => (false, 1_000_000),
            [0xa1, 0xb2, 0x3c, 0x4d] => (true, 1_000_000_000),
            [0x4d, 0x3c, 0xb2, 0xa1] => (false, 1_000_000_000),
            [0xa1, 0xb2, 0xcd, 0x34] | [0x34, 0xcd, 0xb2, 0xa1] => {
                return refuse("a pcap of Kuznetsov's modified kind")
            }
            [0x1c, 0x00, 0x01, 0xab | 0xac] | [0xab | 0xac, 0x01, 0x00, 0x1c] => {
                return refuse("a pcap of Ixia's kind");
            }
            _ => return None,
        };
        let (Some(snaplen), Some(network), Some(major)) = (
            u32_at(header, 16, big_endian),
            u32_at(header, 20, big_endian),
            u16_at(header, 4, big_endian),
        ) else {
            let found = format!("a pcap header cut after {} of {HEADER} bytes", header.len());
            return Some(Err((
                found,
                "the capture was never written to disk; take it again",
            )));
        };
        if major != 2 {
            return refuse("a pcap of a version other than 2");
        }
        // The upper bits of the link type give the length of a frame check sequence (libpcap's
        // LT_LINKTYPE).
        let link_number = (network & 0xffff) as u16;
        let limit = snaplen.clamp(SNAPLEN_MAX, PACKET_MAX);
        Some(Ok(Pcap {
            big_endian,
            fractions,
            fractions_most: i32::MAX as u32 / (1_000_000_000 / fractions),
            link: Link::from_number(link_number),
            link_number,
            snaplen,
            limit,
            usual: if snaplen == 0 {
                limit
            } else {
                snaplen.min(limit)
            },
            last_seconds: None,
            scanning: false,
        }))
    }

    /// Classifies the bytes at the front of the window.
    #[inline]
    pub fn step(&mut self, bytes: &[u8], ended: bool) -> Step {
        if self.scanning {
            return self.scan(bytes, ended);
        }
        let Some(record) = self.record(bytes, 0) else {
            return Step::Need(RECORD);
        };
        if !self.is_usual(record) {
            match self.further(bytes, ended) {
                Chain::Holds => return self.go_over(bytes),
                Chain::Need(count) => return Step::Need(count),
                Chain::Breaks => {}
            }
            match self.follows(bytes, ended, record) {
                Chain::Holds => {}
                Chain::Need(count) => return Step::Need(count),
                Chain::Breaks => return self.damaged(),
            }
        }
        let taken = RECORD + record.captured as usize;
        if bytes.len() < taken {
            if ended && self.goes_on(bytes) {
                return self.damaged();
            }
            return Step::Need(taken);
        }
        match self.record(bytes, taken) {
            None if !ended => return Step::Need(taken + RECORD),
            Some(next) if !self.is_usual(next) => {
                if let Some(taken) = self.torn(bytes, taken, ended) {
                    return Step::Lost {
                        taken,
                        reason: TORN,
                    };
                }
            }
            _ => {}
        }
        self.last_seconds = Some(i64::from(record.seconds));
        let scale = i64::from(1_000_000_000 / self.fractions);
        let time = i64::from(record.seconds) * 1_000_000_000 + i64::from(record.fraction) * scale;
        let packet = Packet {
            time: time.min(TIME_MAX),
            at: RECORD,
            captured: record.captured,
            wire: record.wire,
            link: self.link,
            interface: 0,
            untimed: false,
            turn: 0,
        };
        Step::Packet { taken, packet }
    }

    /// Whether nothing about a record needs a second look.
    #[inline]
    fn is_usual(&self, record: Record) -> bool {
        let near = self
            .last_seconds
            .is_none_or(|last| (i64::from(record.seconds) - last).abs() < APART);
        let fits = (1..=self.usual).contains(&record.captured) && record.captured <= record.wire;
        near && fits && record.fraction < self.fractions
    }

    /// Whether the header of a further file begins here.
    fn further(&self, bytes: &[u8], ended: bool) -> Chain {
        match Pcap::any(bytes) {
            Some(Ok(_)) => Chain::Holds,
            Some(Err(_)) if bytes.len() < HEADER && !ended => Chain::Need(HEADER),
            _ => Chain::Breaks,
        }
    }

    /// Goes on with the further file whose header is at the front. Its times may be any. Packets of
    /// a link type that is not read count as such.
    fn go_over(&mut self, bytes: &[u8]) -> Step {
        if let Some(Ok(next)) = Pcap::any(bytes) {
            *self = Pcap {
                link_number: self.link_number,
                snaplen: self.snaplen,
                ..next
            };
        }
        Step::Skip { taken: HEADER }
    }

    /// Where a further file begins inside the record at the front, which is `length` bytes long: the
    /// file before it ended in the middle of this record. Records must follow its header, since a
    /// packet may hold one, too.
    #[cold]
    fn torn(&self, bytes: &[u8], length: usize, ended: bool) -> Option<usize> {
        (1..length).find(|&at| {
            let rest = bytes.get(at..).unwrap_or_default();
            let Some(Ok(next)) = Pcap::any(rest) else {
                return false;
            };
            let records = rest.get(HEADER..).unwrap_or_default();
            let follows = [
                next.further(records, ended),
                next.chain(records, ended, None, true, CHAIN),
            ];
            follows.iter().any(|found| !matches!(found, Chain::Breaks))
        })
    }

    /// Whether records follow an unusual one: at about its time, or else, with any times (`steps`
    /// checks them), so many that their lengths are sound.
    fn follows(&self, bytes: &[u8], ended: bool, record: Record) -> Chain {
        match self.chain(bytes, ended, Some(i64::from(record.seconds)), false, CHAIN) {
            Chain::Breaks if record.fraction < self.fractions => {
                self.chain(bytes, ended, None, true, CHAIN_ELSEWHERE)
            }
            found => found,
        }
    }

    fn damaged(&mut self) -> Step {
        self.scanning = true;
        Step::Lost {
            taken: 1,
            reason: DAMAGED,
        }
    }

    /// Whether records follow inside a record that extends beyond the end of the file: then its
    /// length is wrong.
    fn goes_on(&self, bytes: &[u8]) -> bool {
        let holds = |at| {
            let rest = bytes.get(at..).unwrap_or_default();
            matches!(
                self.chain(rest, true, self.last_seconds, true, CHAIN),
                Chain::Holds
            )
        };
        (1..bytes.len().saturating_sub(RECORD)).any(holds)
    }

    #[inline]
    fn record(&self, bytes: &[u8], at: usize) -> Option<Record> {
        let head = bytes.get(at..)?.first_chunk::<RECORD>()?;
        let word = |i: usize| u32_at(head, i, self.big_endian).unwrap_or(0);
        Some(Record {
            seconds: word(0),
            fraction: word(4),
            captured: word(8),
            wire: word(12),
        })
    }

    /// Looks for the next place from which a chain of records holds, or at which a further file
    /// begins.
    fn scan(&mut self, bytes: &[u8], ended: bool) -> Step {
        for at in 0..=bytes.len().saturating_sub(RECORD) {
            let rest = bytes.get(at..).unwrap_or_default();
            match self.found(rest, ended) {
                Chain::Breaks => {}
                _ if at > 0 => {
                    return Step::Lost {
                        taken: at,
                        reason: DAMAGED,
                    }
                }
                Chain::Need(count) => return Step::Need(count),
                Chain::Holds => {
                    self.scanning = false;
                    return self.step(bytes, ended);
                }
            }
        }
        match bytes.len().saturating_sub(RECORD - 1) {
            0 => Step::Need(RECORD),
            taken => Step::Lost {
                taken,
                reason: DAMAGED,
            },
        }
    }

    /// Whether records continue here: from the time before the damage or, if that time was wrong,
    /// from any.
    fn found(&self, bytes: &[u8], ended: bool) -> Chain {
        match self.further(bytes, ended) {
            Chain::Breaks => {}
            found => return found,
        }
        match self.chain(bytes, ended, self.last_seconds, true, CHAIN) {
            Chain::Breaks => {
                let own = self
                    .record(bytes, 0)
                    .map(|record| i64::from(record.seconds));
                self.chain(bytes, ended, own, true, CHAIN_ELSEWHERE)
            }
            found => found,
        }
    }

    /// Whether records follow one another from the front of `bytes`, around the time `near` if it
    /// is known.
    fn chain(
        &self,
        bytes: &[u8],
        ended: bool,
        near: Option<i64>,
        strict: bool,
        length: usize,
    ) -> Chain {
        let mut at = 0;
        for _ in 0..length {
            if ended && at == bytes.len() && at > 0 {
                return Chain::Holds;
            }
            let Some(record) = self.record(bytes, at) else {
                return match ended {
                    false => Chain::Need(at + RECORD),
                    // The rest is the torn end of a file that was sound so far.
                    true if at > 0 && at <= bytes.len() => Chain::Holds,
                    true => Chain::Breaks,
                };
            };
            if !self.plausible(record, near, strict) {
                return Chain::Breaks;
            }
            at += RECORD + record.captured as usize;
        }
        Chain::Holds
    }

    fn plausible(&self, record: Record, near: Option<i64>, strict: bool) -> bool {
        let length =
            (1..=self.limit).contains(&record.captured) && (1..=PACKET_MAX).contains(&record.wire);
        let time = near.is_none_or(|near| (i64::from(record.seconds) - near).abs() < APART);
        let exact = record.captured >= PACKET_MIN && record.captured <= record.wire;
        let fraction = match strict {
            true => record.fraction < self.fractions,
            false => record.fraction <= self.fractions_most,
        };
        length && time && fraction && (exact || !strict)
    }
}

const TORN: &str = "records cut by the beginning of a further file";
const DAMAGED: &str =
    "damaged record headers: skipped to the next place where records follow one another";

fn refuse(found: &str) -> Option<Result<Pcap, Refusal>> {
    Some(Err((
        found.to_string(),
        "convert it with Wireshark's `editcap -F pcapng IN OUT`",
    )))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::testing::{
        pcap, pcap_styled, read, tcp, PcapStyle, Record, Seen, Tcp, MS, S,
    };
    use super::*;

    const BEGIN: i64 = 1_700_000_000 * S;

    fn packets(count: u32) -> Vec<Tcp> {
        let packet = |i| {
            tcp("10.0.0.1:4000", "10.0.0.2:80")
                .at(BEGIN + i64::from(i) * MS)
                .seq(i)
                .payload([7; 300])
        };
        (0..count).map(packet).collect()
    }

    fn records(packets: &[Tcp]) -> Vec<Record> {
        packets.iter().map(Tcp::record).collect()
    }

    fn seen(packets: &[Tcp]) -> Vec<Seen> {
        packets.iter().map(Tcp::seen).collect()
    }

    #[test]
    fn both_byte_orders_and_both_resolutions_are_read() {
        let sent = packets(5);
        for (big_endian, nanoseconds) in
            [(false, false), (false, true), (true, false), (true, true)]
        {
            let style = PcapStyle {
                big_endian,
                nanoseconds,
                ..PcapStyle::default()
            };
            let (got, report) = read(&pcap_styled(style, &records(&sent))).unwrap();
            assert_eq!(got, seen(&sent));
            assert_eq!(
                (report.packets, report.segments, report.lost_bytes),
                (5, 5, 0)
            );
            assert_eq!(
                (report.begin, report.end),
                (Some(BEGIN), Some(BEGIN + 4 * MS))
            );
        }
    }

    fn later(packets: &[Tcp], days: i64) -> Vec<Tcp> {
        let time = BEGIN + days * 86_400 * S;
        packets
            .iter()
            .map(|packet| packet.clone().at(time))
            .collect()
    }

    #[test]
    fn files_that_follow_one_another_are_one_capture() {
        let (sent, other) = (packets(9), later(&packets(9), 90));
        let style = PcapStyle {
            big_endian: true,
            nanoseconds: false,
            ..PcapStyle::default()
        };
        let (first, second) = (pcap(&records(&sent)), pcap_styled(style, &records(&other)));
        for empty in [0, 1, 3] {
            let files = [
                pcap(&[]).repeat(empty),
                first.clone(),
                pcap(&[]),
                second.clone(),
            ];
            let (got, report) = read(&files.concat()).unwrap();
            assert_eq!(got, [seen(&sent), seen(&other)].concat(), "{empty}");
            assert_eq!((report.lost_bytes, report.losses.len()), (0, 0), "{empty}");
        }
    }

    #[test]
    fn a_file_torn_before_the_next_one_costs_its_last_record_only() {
        let (sent, other) = (packets(9), later(&packets(9), 90));
        let (first, second) = (pcap(&records(&sent)), pcap(&records(&other)));
        let record = (first.len() - HEADER) / 9;
        for cut in (1..record).step_by(5) {
            for following in [second.clone(), [pcap(&[]), second.clone()].concat()] {
                let torn = &first[..first.len() - cut];
                let (got, report) = read(&[torn, &following].concat()).unwrap();
                assert_eq!(got, [seen(&sent[..8]), seen(&other)].concat(), "{cut}");
                assert_eq!(report.lost_bytes, (record - cut) as u64, "{cut}");
            }
        }
    }

    #[test]
    fn a_packet_that_holds_a_capture_is_a_packet() {
        let inner = pcap(&records(&packets(2)));
        let outer: Vec<Tcp> = packets(9)
            .into_iter()
            .map(|packet| packet.payload(inner.clone()))
            .collect();
        let (got, report) = read(&pcap(&records(&outer))).unwrap();
        assert_eq!((got, report.lost_bytes), (seen(&outer), 0));
    }

    #[test]
    fn a_further_file_of_a_link_type_that_is_not_read_counts_as_such() {
        let style = PcapStyle {
            link: 127,
            ..PcapStyle::default()
        };
        let sent = packets(9);
        let other = later(&sent, 90);
        let odd = pcap_styled(style, &records(&sent));
        let files = [pcap(&records(&sent)), odd, pcap(&records(&other))];
        let (got, report) = read(&files.concat()).unwrap();
        assert_eq!(got, [seen(&sent), seen(&other)].concat());
        assert_eq!(report.not_tcp.values().sum::<u64>(), 9);
    }

    #[test]
    fn modified_kinds_are_refused_in_words() {
        let mut bytes = pcap(&[]);
        bytes[..4].copy_from_slice(&[0x34, 0xcd, 0xb2, 0xa1]);
        let error = read(&bytes).unwrap_err().to_string();
        assert!(
            error.contains("Kuznetsov") && error.contains("editcap"),
            "{error}"
        );
    }

    #[test]
    fn a_link_type_that_is_not_read_is_refused_in_words() {
        let style = PcapStyle {
            link: 127,
            ..PcapStyle::default()
        };
        let error = read(&pcap_styled(style, &[])).unwrap_err().to_string();
        assert!(
            error.contains("link type 127") && error.contains("Ethernet"),
            "{error}"
        );
    }

    #[test]
    fn what_is_no_capture_is_refused_in_words() {
        assert!(read(b"").unwrap_err().to_string().contains("empty"));
        assert!(read(b"time,place,metric\n1,2,3\n")
            .unwrap_err()
            .to_string()
            .contains("no packet capture"));
        assert!(read(&pcap(&[])[..20])
            .unwrap_err()
            .to_string()
            .contains("cut after 20"));
    }

    #[test]
    fn a_file_without_packets_is_a_capture() {
        let (got, report) = read(&pcap(&[])).unwrap();
        assert_eq!((got.len(), report.packets, report.losses.len()), (0, 0, 0));
    }

    #[test]
    fn a_cut_file_yields_what_came_before_and_where_it_ends() {
        let sent = packets(10);
        let bytes = pcap(&records(&sent));
        let (got, report) = read(&bytes[..bytes.len() - 7]).unwrap();
        assert_eq!(got, seen(&sent[..9]));
        let record = (bytes.len() - HEADER) / 10;
        assert_eq!(report.losses[0].offset, (HEADER + 9 * record) as u64);
        assert_eq!(report.losses[0].bytes, record as u64 - 7);
        assert!(report.losses[0].reason.contains("middle of a record"));
    }

    #[test]
    fn insane_lengths_and_torn_headers_cost_only_their_record() {
        let sent = packets(20);
        let clean = pcap(&records(&sent));
        let record = (clean.len() - HEADER) / 20;
        let at = HEADER + 10 * record;
        for (offset, value) in [(8, [0xff; 4]), (8, [0xff, 0xff, 3, 0]), (4, [0xff; 4])] {
            let mut bytes = clean.clone();
            bytes[at + offset..at + offset + 4].copy_from_slice(&value);
            let (got, report) = read(&bytes).unwrap();
            let kept = [seen(&sent[..10]), seen(&sent[11..])].concat();
            assert_eq!(got, kept, "{offset} {value:?}");
            assert_eq!(
                (report.losses[0].offset, report.losses[0].bytes),
                (at as u64, record as u64)
            );
        }
    }

    #[test]
    fn a_fraction_of_more_than_a_second_is_added_up() {
        let sent = packets(20);
        for (nanoseconds, carried) in [(false, 1_000_250_u32), (true, 2_000_000_007)] {
            let style = PcapStyle {
                nanoseconds,
                ..PcapStyle::default()
            };
            let bytes = pcap_styled(style, &records(&sent));
            let record = (bytes.len() - HEADER) / 20;
            for which in [vec![10], vec![19], (0..20).collect()] {
                let mut bytes = bytes.clone();
                for number in &which {
                    let at = HEADER + number * record + 4;
                    bytes[at..at + 4].copy_from_slice(&carried.to_le_bytes());
                }
                let (got, report) = read(&bytes).unwrap();
                assert_eq!((got.len(), report.lost_bytes), (20, 0), "{which:?}");
                let unit = if nanoseconds { 1 } else { 1000 };
                let late = BEGIN + i64::from(carried) * unit;
                let times = got.iter().filter(|packet| packet.time == late);
                assert_eq!(times.count(), which.len(), "{which:?}");
            }
        }
    }

    #[test]
    fn a_packet_a_week_is_no_damage() {
        let mut sent = packets(20);
        for (week, packet) in (0..).zip(&mut sent) {
            packet.time += week * 7 * APART * S;
        }
        let (got, report) = read(&pcap(&records(&sent))).unwrap();
        assert_eq!((got, report.lost_bytes), (seen(&sent), 0));
        assert_eq!(report.times_repaired, 0);
    }

    #[test]
    fn a_length_too_short_cuts_its_packet_and_loses_the_rest_of_it() {
        let sent = packets(20);
        let mut bytes = pcap(&records(&sent));
        let record = (bytes.len() - HEADER) / 20;
        let at = HEADER + 10 * record;
        bytes[at + 8..at + 12].copy_from_slice(&256u32.to_le_bytes());
        let (got, report) = read(&bytes).unwrap();
        assert_eq!(got.len(), 20);
        assert_eq!((got[10].len, got[10].payload.len()), (300, 202));
        assert_eq!(
            (report.losses[0].offset, report.lost_bytes),
            ((at + RECORD + 256) as u64, 98)
        );
    }

    #[test]
    fn bytes_missing_anywhere_cost_little() {
        let sent = packets(40);
        let clean = pcap(&records(&sent));
        let record = (clean.len() - HEADER) / 40;
        for at in 0..record {
            for missing in [1, 2, 4, 8, 12] {
                let mut bytes = clean.clone();
                bytes.drain(HEADER + 10 * record + at..HEADER + 10 * record + at + missing);
                let (got, _) = read(&bytes).unwrap();
                assert!(
                    got.len() >= 38,
                    "{} left without {missing} bytes at {at}",
                    got.len()
                );
            }
        }
    }

    #[test]
    fn a_hole_of_zeros_is_skipped() {
        let sent = packets(20);
        let clean = pcap(&records(&sent));
        let at = HEADER + 10 * (clean.len() - HEADER) / 20;
        let bytes = [&clean[..at], &[0; 4096], &clean[at..]].concat();
        let (got, report) = read(&bytes).unwrap();
        assert_eq!(got, seen(&sent));
        assert_eq!(
            (report.losses[0].offset, report.lost_bytes),
            (at as u64, 4096)
        );
    }

    #[test]
    fn odd_but_consistent_files_are_believed() {
        let mut odd = records(&packets(20));
        odd.iter_mut().for_each(|record| record.wire = 60);
        let style = PcapStyle {
            snaplen: 96,
            ..PcapStyle::default()
        };
        let (got, report) = read(&pcap_styled(style, &odd)).unwrap();
        assert_eq!((got.len(), report.lost_bytes), (20, 0));
    }

    #[test]
    fn packets_days_apart_are_believed() {
        let mut sent = packets(20);
        sent[10..]
            .iter_mut()
            .for_each(|packet| packet.time += 10 * 86_400 * S);
        let (got, report) = read(&pcap(&records(&sent))).unwrap();
        assert_eq!(
            (got, report.lost_bytes, report.times_repaired),
            (seen(&sent), 0, 0)
        );
    }
}
