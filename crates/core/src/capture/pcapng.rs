//! The pcapng format: blocks of (type, length, body, length again), grouped into sections.
//!
//! The repeated length makes damage easy to notice and the next sound block easy to recognise. Source:
//! draft-ietf-opsawg-pcapng.

use std::collections::HashMap;

use super::link::Link;
use super::packet::{nanoseconds, u16_at, u32_at, Packet, Step, PACKET_MAX, TIME_MAX};
use super::report::InterfaceReport;
use super::tls::Keys;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;
const SECRETS: u32 = 10;
/// The lines of a TLS key log.
const TLS_KEY_LOG: u32 = 0x544c_534b;
/// Name resolution, journal, decryption secrets, custom blocks: accepted when found again after
/// damage.
const OTHERS: [u32; 5] = [4, 9, SECRETS, 0xbad, 0x4000_0bad];

/// The largest plausible block, as in Wireshark.
const BLOCK_MAX: u32 = 16 << 20;
/// A file that describes more interfaces than this is damaged or hostile.
const INTERFACES_MAX: usize = 4096;

#[derive(Default)]
pub struct PcapNg {
    big_endian: bool,
    /// Of this section; a packet names one by its index.
    interfaces: Vec<Interface>,
    /// Of the whole file: an interface described again in a later section is the same one.
    pub reports: Vec<InterfaceReport>,
    known: HashMap<(usize, u16, String), u16>,
    /// Of TLS sessions.
    pub secrets: Keys,
    last_time: i64,
    scanning: bool,
}

struct Interface {
    number: u16,
    link: Link,
    snaplen: u32,
    ticks: Ticks,
}

/// The unit of a packet's time.
#[derive(Clone, Copy)]
enum Ticks {
    /// Each is this many nanoseconds, from the epoch.
    Whole(u64),
    Other {
        per_second: u128,
        offset: i64,
    },
}

impl Ticks {
    #[inline]
    fn time(self, count: u64) -> i64 {
        match self {
            Ticks::Whole(each) => count
                .checked_mul(each)
                .map_or(TIME_MAX, |t| t.min(TIME_MAX as u64) as i64),
            Ticks::Other { per_second, offset } => nanoseconds(count, per_second, offset),
        }
    }
}

impl PcapNg {
    /// None when `header` does not begin a section.
    pub fn open(header: &[u8]) -> Option<PcapNg> {
        let big_endian = section_order(header)?;
        Some(PcapNg {
            big_endian,
            ..PcapNg::default()
        })
    }

    /// Classifies the bytes at the front of the window.
    #[inline]
    pub fn step(&mut self, bytes: &[u8], ended: bool) -> Step {
        if self.scanning {
            return self.scan(bytes, ended);
        }
        let order = section_order(bytes).unwrap_or(self.big_endian);
        let (Some(kind), Some(length)) = (u32_at(bytes, 0, order), u32_at(bytes, 4, order)) else {
            return Step::Need(12);
        };
        if kind == SECTION && bytes.len() < 12 {
            return Step::Need(12);
        }
        let believable = (12..=BLOCK_MAX).contains(&length) && length % 4 == 0;
        let taken = length as usize;
        if !believable || (kind == SECTION && section_order(bytes).is_none()) {
            return self.damaged(bytes);
        }
        if bytes.len() < taken {
            // The reader does not wait for a length that no block of this kind has; a length that
            // extends beyond the end of the file is wrong if blocks follow before.
            let endless = kind == PACKET && length > PACKET_MAX + (1 << 16);
            let follows = |at| sound(bytes.get(at..).unwrap_or_default(), order) == Some(true);
            return match endless || (ended && (4..bytes.len()).any(follows)) {
                true => self.damaged(bytes),
                false => Step::Need(taken),
            };
        }
        if u32_at(bytes, taken - 4, order) != Some(length) {
            // A wrong trailer alone is ignored if the next block is sound.
            let next = bytes.get(taken..).unwrap_or_default();
            match sound(next, order) {
                _ if ended && next.is_empty() => {}
                Some(true) => {}
                None if next.len() >= 12 => {}
                None if !ended => return Step::Need(taken + 12),
                _ => return self.damaged(bytes),
            }
        }
        let body = bytes.get(8..taken - 4).unwrap_or_default();
        self.block(kind, order, body, taken)
    }

    fn damaged(&mut self, bytes: &[u8]) -> Step {
        self.scanning = true;
        Step::Lost {
            taken: 4.min(bytes.len()),
            reason: DAMAGED,
        }
    }

    /// Looks for the next block whose two lengths agree.
    fn scan(&mut self, bytes: &[u8], ended: bool) -> Step {
        for at in 0..bytes.len().saturating_sub(11) {
            let rest = bytes.get(at..).unwrap_or_default();
            match sound(rest, self.big_endian) {
                Some(false) => {}
                _ if at > 0 => {
                    return Step::Lost {
                        taken: at,
                        reason: DAMAGED,
                    }
                }
                None if ended => {}
                None => {
                    return Step::Need(
                        u32_at(rest, 4, self.big_endian).map_or(12, |n| n.min(BLOCK_MAX) as usize),
                    )
                }
                Some(true) => {
                    self.scanning = false;
                    return self.step(bytes, ended);
                }
            }
        }
        match bytes.len().saturating_sub(11) {
            0 => Step::Need(12),
            taken => Step::Lost {
                taken,
                reason: DAMAGED,
            },
        }
    }

    #[inline]
    fn block(&mut self, kind: u32, order: bool, body: &[u8], taken: usize) -> Step {
        let word = |at: usize| u32_at(body, at, order).unwrap_or(0);
        match kind {
            PACKET if body.len() >= 20 => {
                let ticks = u64::from(word(4)) << 32 | u64::from(word(8));
                self.packet(
                    word(0),
                    Some(ticks),
                    word(12),
                    word(16),
                    20,
                    body.len(),
                    taken,
                )
            }
            OLD_PACKET if body.len() >= 20 => {
                let interface = u16_at(body, 0, order).unwrap_or(u16::MAX);
                let ticks = u64::from(word(4)) << 32 | u64::from(word(8));
                self.packet(
                    interface.into(),
                    Some(ticks),
                    word(12),
                    word(16),
                    20,
                    body.len(),
                    taken,
                )
            }
            SIMPLE_PACKET if body.len() >= 4 => {
                let wire = word(0);
                let snaplen = self.interfaces.first().map_or(0, |i| {
                    if i.snaplen == 0 {
                        u32::MAX
                    } else {
                        i.snaplen
                    }
                });
                let captured = wire.min(snaplen).min(body.len() as u32 - 4);
                self.packet(0, None, captured, wire, 4, body.len(), taken)
            }
            PACKET | OLD_PACKET | SIMPLE_PACKET => Step::Lost {
                taken,
                reason: "packet blocks too short",
            },
            SECTION => {
                self.big_endian = order;
                self.interfaces.clear();
                Step::Skip { taken }
            }
            INTERFACE => self.interface(body, order, taken),
            STATISTICS => {
                self.statistics(body, order);
                Step::Skip { taken }
            }
            SECRETS => {
                if word(0) == TLS_KEY_LOG {
                    let text = body.get(8..).unwrap_or(&[]);
                    let length = text.len().min(word(4) as usize);
                    self.secrets.add(&text[..length]);
                }
                Step::Skip { taken }
            }
            _ => Step::Skip { taken },
        }
    }

    #[inline]
    #[allow(clippy::too_many_arguments)] // the fields of three kinds of packet block
    fn packet(
        &mut self,
        interface: u32,
        ticks: Option<u64>,
        captured: u32,
        wire: u32,
        head: usize,
        body: usize,
        taken: usize,
    ) -> Step {
        let Some(interface) = self.interfaces.get(interface as usize) else {
            return Step::Lost {
                taken,
                reason: "packets of an interface that was not described",
            };
        };
        if captured > PACKET_MAX || captured as usize > body - head {
            return Step::Lost {
                taken,
                reason: "packets longer than the block that holds them",
            };
        }
        let time = ticks.map_or(self.last_time, |count| interface.ticks.time(count));
        self.last_time = time;
        let packet = Packet {
            time,
            at: 8 + head,
            captured,
            wire,
            link: interface.link,
            interface: interface.number,
            untimed: ticks.is_none(),
            turn: 0,
        };
        Step::Packet { taken, packet }
    }

    fn interface(&mut self, body: &[u8], order: bool, taken: usize) -> Step {
        let (Some(link), Some(snaplen)) = (u16_at(body, 0, order), u32_at(body, 4, order)) else {
            return Step::Lost {
                taken,
                reason: "interface descriptions too short",
            };
        };
        if self.interfaces.len() >= INTERFACES_MAX || self.reports.len() >= INTERFACES_MAX {
            return Step::Lost {
                taken,
                reason: "more interfaces than any capture has",
            };
        }
        let (mut name, mut resolution, mut offset) = (String::new(), 6, 0);
        for (code, value) in Options::new(body.get(8..).unwrap_or_default(), order) {
            match (code, value) {
                (2, value) => {
                    name =
                        String::from_utf8_lossy(value.get(..value.len().min(64)).unwrap_or(value))
                            .into_owned()
                }
                (9, [value, ..]) => resolution = *value,
                (14, value) => offset = seconds(value, order),
                _ => {}
            }
        }
        let ticks = ticks(resolution, offset);
        let reports = &mut self.reports;
        let number = *self
            .known
            .entry((self.interfaces.len(), link, name.clone()))
            .or_insert_with(|| {
                reports.push(InterfaceReport {
                    name,
                    link,
                    snaplen,
                    dropped_interface: None,
                    dropped_system: None,
                });
                (reports.len() - 1) as u16
            });
        self.interfaces.push(Interface {
            number,
            link: Link::from_number(link),
            snaplen,
            ticks,
        });
        Step::Skip { taken }
    }

    /// Counters run from the beginning of the capture, so the highest counts.
    fn statistics(&mut self, body: &[u8], order: bool) {
        let interface = u32_at(body, 0, order).and_then(|i| self.interfaces.get(i as usize));
        let Some(report) = interface.and_then(|i| self.reports.get_mut(usize::from(i.number)))
        else {
            return;
        };
        for (code, value) in Options::new(body.get(12..).unwrap_or_default(), order) {
            let count = seconds(value, order).max(0) as u64;
            match code {
                5 => report.dropped_interface = report.dropped_interface.max(Some(count)),
                7 => report.dropped_system = report.dropped_system.max(Some(count)),
                _ => {}
            }
        }
    }
}

/// The byte order of the section that `bytes` begin; None if they begin none.
fn section_order(bytes: &[u8]) -> Option<bool> {
    if u32_at(bytes, 0, true)? != SECTION {
        return None;
    }
    match *bytes.get(8..)?.first_chunk::<4>()? {
        [0x1a, 0x2b, 0x3c, 0x4d] => Some(true),
        [0x4d, 0x3c, 0x2b, 0x1a] => Some(false),
        _ => None,
    }
}

/// Whether a block of a known kind begins here, with equal lengths; None if more bytes are needed
/// to decide.
fn sound(bytes: &[u8], big_endian: bool) -> Option<bool> {
    let order = section_order(bytes).unwrap_or(big_endian);
    let (kind, length) = (u32_at(bytes, 0, order)?, u32_at(bytes, 4, order)?);
    let least = match kind {
        SECTION => 28,
        INTERFACE => 20,
        PACKET | OLD_PACKET => 32,
        STATISTICS => 24,
        SIMPLE_PACKET => 16,
        _ if OTHERS.contains(&kind) => 12,
        _ => return Some(false),
    };
    let most = if matches!(kind, PACKET | OLD_PACKET | SIMPLE_PACKET) {
        PACKET_MAX + (1 << 16)
    } else {
        BLOCK_MAX
    };
    if !(least..=most).contains(&length) || length % 4 != 0 {
        return Some(false);
    }
    u32_at(bytes, length as usize - 4, order).map(|trailer| trailer == length)
}

fn ticks(resolution: u8, offset: i64) -> Ticks {
    let power = u32::from(resolution & 0x7f);
    let per_second = match resolution & 0x80 {
        0 => 10u128.checked_pow(power).unwrap_or(u128::MAX),
        _ => 1u128 << power,
    };
    match (resolution, offset) {
        (0..=9, 0) => Ticks::Whole(10u64.pow(9 - power)),
        _ => Ticks::Other { per_second, offset },
    }
}

/// A 64-bit option value.
fn seconds(value: &[u8], order: bool) -> i64 {
    let Some(eight) = value.first_chunk::<8>() else {
        return 0;
    };
    if order {
        i64::from_be_bytes(*eight)
    } else {
        i64::from_le_bytes(*eight)
    }
}

/// The options at the end of a block: (code, value) until the end option or the last byte.
struct Options<'a> {
    bytes: &'a [u8],
    order: bool,
}

impl<'a> Options<'a> {
    fn new(bytes: &'a [u8], order: bool) -> Self {
        Options { bytes, order }
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (code, length) = (
            u16_at(self.bytes, 0, self.order)?,
            usize::from(u16_at(self.bytes, 2, self.order)?),
        );
        if code == 0 {
            return None;
        }
        let value = self.bytes.get(4..4 + length)?;
        self.bytes = self
            .bytes
            .get(4 + length.next_multiple_of(4)..)
            .unwrap_or_default();
        Some((code, value))
    }
}

const DAMAGED: &str = "damaged blocks: skipped to the next sound one";

#[cfg(test)]
mod tests;
