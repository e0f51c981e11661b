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
mod tests;
