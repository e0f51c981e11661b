//! Steps in time: the capture was idle, its clock was set, or records are damaged.
//! ```text
//! … 10:00:01  10:00:02  1970  1970  10:00:02 …     the old time goes on: those between are damaged
//! … 10:00:02  15:30:00  15:30:00  15:30:01 …       the new time goes on: it is believed after some packets
//! 1970  1970  2026  2026  2026  2026 …             more than a year apart: the few are damaged, and believed only if
//!                                                  they are many
//! ```
//!
//! A damaged time is replaced by that of the neighbours, so that the bytes of its packet are kept.

use super::packet::Packet;

/// A step of this size means that a capture was idle or its clock was set, or that a record is
/// damaged.
pub const ABSURD: i64 = 10 * 1_000_000_000;
/// No capture is idle for this long: times so far apart do not belong to one capture, whichever is
/// right.
const FAR: i64 = 365 * 86_400 * 1_000_000_000;
/// Damaged times are few in a row, and then the old time continues; a step is believed if more
/// packets follow. The numbers for a step within a year, and beyond: what a file repair tool, or a
/// host without a clock at its start, produces.
const SUSPECTS: usize = 16;
const SUSPECTS_FAR: usize = 1024;
/// Suspects that agree with nothing, not even with each other, are damaged when there are this
/// many.
const SUSPECTS_MAX: usize = 4 * SUSPECTS_FAR;

#[derive(Default)]
pub struct Steps {
    /// The latest time that is believed.
    before: Option<i64>,
    /// Packets since the last step beyond a year.
    run: usize,
    /// The newest packets, whose times stepped: they are held until it is decided whether to
    /// believe them.
    suspects: Vec<Packet>,
    /// How often the clock was set back.
    turn: u32,
    /// Of the suspects, the last this many agree with each other.
    agree: usize,
    /// Times that were replaced, and packets that came after one with a later time.
    pub repaired: u64,
    pub reordered: u64,
}

impl Steps {
    pub fn suspects(&self) -> &[Packet] {
        &self.suspects
    }

    pub fn suspects_mut(&mut self) -> &mut [Packet] {
        &mut self.suspects
    }

    /// Takes the next packet of the file; settled packets go to the end of `packets`, which holds
    /// the earlier ones.
    #[inline]
    pub fn take(&mut self, packet: Packet, packets: &mut Vec<Packet>) {
        let before = self.before.unwrap_or(packet.time);
        if (packet.time - before).abs() > ABSURD {
            self.suspect(packet, packets);
            return;
        }
        if !self.suspects.is_empty() {
            self.replace(before, packet.time, packets);
        }
        self.believe(packet, packets);
    }

    #[inline]
    fn believe(&mut self, packet: Packet, packets: &mut Vec<Packet>) {
        let before = self.before.unwrap_or(packet.time);
        if is_later(before, packet.time) {
            self.reordered += 1;
        } else {
            self.turn += u32::from(packet.time < before);
            self.before = Some(packet.time);
        }
        self.run += 1;
        let turn = self.turn;
        packets.push(Packet { turn, ..packet });
    }

    /// Whether so many packets agree on the time that those before them must be the damaged ones.
    pub fn is_settled(&self) -> bool {
        self.run >= SUSPECTS_FAR
    }

    fn suspect(&mut self, packet: Packet, packets: &mut Vec<Packet>) {
        let agrees = self
            .suspects
            .last()
            .is_none_or(|last| !is_far(last.time, packet.time));
        self.agree = if agrees { self.agree + 1 } else { 1 };
        self.suspects.push(packet);
        let far = self
            .before
            .is_some_and(|before| is_far(before, packet.time));
        let enough = if far { SUSPECTS_FAR } else { SUSPECTS };
        if self.agree > enough || self.suspects.len() > SUSPECTS_MAX {
            self.settle(packets);
        }
    }

    /// Nothing more is awaited: decides which times are right.
    pub fn settle(&mut self, packets: &mut Vec<Packet>) {
        let (Some(before), Some(last)) = (self.before, self.suspects.last().copied()) else {
            return;
        };
        let far = is_far(before, last.time);
        if far && self.agree <= SUSPECTS_FAR && self.run >= self.agree {
            return self.replace(before, i64::MAX, packets);
        }
        let strays = self.suspects.len().saturating_sub(self.agree);
        let first = self
            .suspects
            .get(strays)
            .map_or(last.time, |packet| packet.time);
        let mut damaged = Vec::new();
        if far && self.run < self.agree.min(SUSPECTS_FAR) {
            // The few before, none of which was passed on.
            damaged.extend(packets.iter_mut());
        }
        damaged.extend(self.suspects.iter_mut().take(strays));
        self.repaired += damaged.len() as u64;
        for packet in damaged {
            packet.time = first;
        }
        if far {
            (self.run, self.before) = (0, Some(first));
        }
        self.go_on(packets);
    }

    /// The suspects are right.
    fn go_on(&mut self, packets: &mut Vec<Packet>) {
        self.agree = 0;
        for packet in std::mem::take(&mut self.suspects) {
            self.believe(packet, packets);
        }
    }

    /// The suspects are damaged: they lie between these times, with their own distances if these
    /// are plausible.
    fn replace(&mut self, before: i64, until: i64, packets: &mut Vec<Packet>) {
        self.agree = 0;
        let first = self.suspects.first().map_or(before, |packet| packet.time);
        let mut time = before;
        for packet in self.suspects.drain(..) {
            let apart = packet.time.saturating_sub(first);
            if (0..=ABSURD).contains(&apart) {
                time = before
                    .saturating_add(apart)
                    .min(until.max(before))
                    .max(time);
            }
            self.repaired += 1;
            let turn = self.turn;
            packets.push(Packet {
                time,
                turn,
                ..packet
            });
        }
    }
}

fn is_far(one: i64, other: i64) -> bool {
    one.abs_diff(other) > FAR.unsigned_abs()
}

/// Whether `seen` is later than `time` by a plausible amount; a time further back is a new
/// beginning.
#[inline]
pub fn is_later(seen: i64, time: i64) -> bool {
    seen > time && seen - time <= ABSURD
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::report::FileReport;
    use super::super::testing::{pcap, read, tcp, Record, Seen, Tcp, MS, S};

    const NOW: i64 = 1_700_000_000 * S;
    const YEAR: i64 = 365 * 86_400 * S;

    /// A file whose packets have these times.
    fn file(times: impl IntoIterator<Item = i64>) -> (Vec<Seen>, FileReport) {
        let packet = |(number, time): (u32, i64)| {
            let packet = tcp("10.0.0.1:4000", "10.0.0.2:80").at(time).seq(number);
            Tcp::record(&packet.payload([7; 20]))
        };
        let records: Vec<Record> = (0..).zip(times).map(packet).collect();
        read(&pcap(&records)).unwrap()
    }

    fn from(begin: i64, count: i64) -> impl Iterator<Item = i64> {
        (0..count).map(move |i| begin + i * MS)
    }

    #[test]
    fn a_few_packets_of_another_age_are_damaged_wherever_they_are() {
        for (before, after) in [(0, 2000), (700, 700), (2000, 0), (0, 20), (10, 10), (20, 0)] {
            for strange in [S, NOW + 20 * YEAR] {
                let eight = from(strange, 8);
                let after = from(NOW + before * MS, after);
                let (got, report) = file(from(NOW, before).chain(eight).chain(after));
                assert_eq!(report.times_repaired, 8, "{before} {strange}");
                assert!(got.iter().all(|packet| (packet.time - NOW).abs() < 10 * S));
                let numbers = got.iter().map(|packet| i64::from(packet.seq));
                assert!(numbers.eq(0..got.len() as i64), "{before} {strange}");
            }
        }
    }

    #[test]
    fn a_host_that_starts_without_a_clock_keeps_both_times_if_many_packets_have_each() {
        let (got, report) = file(from(S, 5000).chain(from(NOW, 5000)));
        assert_eq!(report.times_repaired, 0);
        assert_eq!((got[4999].time, got[5000].time), (S + 4999 * MS, NOW));
    }

    #[test]
    fn times_that_agree_with_nothing_are_all_damaged() {
        let random = (0..20_000_i64).map(|i| (i * 7_919 % 100) * YEAR / 2);
        let (got, report) = file(from(NOW, 2000).chain(random).chain(from(NOW + 2 * S, 2000)));
        assert_eq!(got.len(), 24_000);
        assert!(got.iter().all(|packet| (packet.time - NOW).abs() < 10 * S));
        assert!(report.times_repaired > 15_000, "{}", report.times_repaired);
    }

    #[test]
    fn a_clock_that_is_set_back_is_believed() {
        let (got, report) = file(from(NOW, 100).chain(from(NOW - 3600 * S, 100)));
        assert_eq!(
            (report.times_repaired, got[199].time),
            (0, NOW - 3600 * S + 99 * MS)
        );
    }

    #[test]
    fn damaged_times_keep_their_distances_where_they_make_sense() {
        let (got, _) = file(from(NOW, 50).chain(from(S, 5)).chain(from(NOW + S, 50)));
        let distance = |packet: &Seen| packet.time - (NOW + 49 * MS);
        let distances: Vec<i64> = got[50..55].iter().map(distance).collect();
        assert_eq!(distances, [0, MS, 2 * MS, 3 * MS, 4 * MS]);
    }
}
