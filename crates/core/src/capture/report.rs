//! The report of reading captures: how much was read, what was skipped, and what was lost and
//! where.
//!
//! A capture that was cut, damaged or only partly about TCP is normal, and the report shows what a
//! result is based on. Everything here is written into the run folder.

use std::collections::BTreeMap;

use serde::Serialize;

/// Losses listed one by one per file; for more, only the totals are given.
pub const LOSSES_LISTED: usize = 100;

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SourceReport {
    pub files: Vec<FileReport>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FileReport {
    pub path: String,
    /// "pcap" or "pcapng".
    pub format: &'static str,
    /// "none", "gzip" or "zstd".
    pub compression: &'static str,
    /// Bytes of the file on disk.
    pub bytes_read: u64,
    /// Bytes after decompression; every `offset` counts in these.
    pub bytes: u64,
    pub packets: u64,
    /// Packets that were TCP segments.
    pub segments: u64,
    /// Packets of which only the beginning was captured (snap length).
    pub cut: u64,
    /// First and last packet, on the clock of the first capture.
    pub begin: Option<i64>,
    pub end: Option<i64>,
    /// Packets that are not TCP segments, by kind.
    pub not_tcp: BTreeMap<&'static str, u64>,
    /// Connections whose handshakes of QUIC the capture has, up to 65,536.
    pub quic_connections: u64,
    /// Packets inside others, by the kind of tunnel; one in two tunnels counts for each.
    pub tunnels: BTreeMap<&'static str, u64>,
    /// Packets stored after a later one and sorted again.
    pub reordered: u64,
    /// Packets stored so late that they are delivered out of order.
    pub late: u64,
    /// Packets with an impossible time, which was replaced by that of their neighbour.
    pub times_repaired: u64,
    /// Packets stored without a time (simple packet blocks): they carry that of the packet before.
    pub untimed: u64,
    pub interfaces: Vec<InterfaceReport>,
    pub clock: ClockReport,
    /// At most [`LOSSES_LISTED`].
    pub losses: Vec<Loss>,
    pub losses_unlisted: u64,
    /// Bytes in all losses, listed or not.
    pub lost_bytes: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct InterfaceReport {
    pub name: String,
    /// Link type, as numbered by tcpdump.org.
    pub link: u16,
    pub snaplen: u32,
    /// Packets that the capture itself reports as lost (interface statistics of pcapng).
    pub dropped_interface: Option<u64>,
    pub dropped_system: Option<u64>,
}

/// Bytes that could not be read.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Loss {
    pub file: u16,
    /// Decompressed offset of the first byte lost.
    pub offset: u64,
    /// 0 if the number is unknown (the file ended early).
    pub bytes: u64,
    pub reason: String,
}

/// The relation of a capture's clock to the first capture's: time = own time + offset (+ drift).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ClockReport {
    pub basis: ClockBasis,
    pub offset_ns: i64,
    /// The true offset is within this distance of `offset_ns`, if the packets were matched
    /// correctly.
    pub bound_ns: Option<i64>,
    /// Packets seen in both captures.
    pub matches: u64,
    /// How fast the first clock gains on this one, if measurable; corrected linearly, `offset_ns`
    /// being the offset at `offset_at` of this clock.
    pub drift_ppm: Option<f64>,
    pub offset_at: Option<i64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClockBasis {
    /// The first capture, or the only one.
    #[default]
    Reference,
    /// From packets seen in two captures.
    Matched,
    /// The next file of the same rotated capture: the same clock.
    Rotation,
    /// Given by the user.
    Given,
    /// No packet was seen in two captures: the clocks are taken as equal.
    Unknown,
}

impl FileReport {
    pub fn lose(&mut self, loss: Loss) {
        self.lost_bytes = self.lost_bytes.saturating_add(loss.bytes);
        let listed = self.losses.len();
        match self.losses.last_mut() {
            Some(last)
                if last.reason == loss.reason
                    && last.offset.saturating_add(last.bytes) == loss.offset =>
            {
                last.bytes = last.bytes.saturating_add(loss.bytes);
            }
            _ if listed < LOSSES_LISTED => self.losses.push(loss),
            _ => self.losses_unlisted += 1,
        }
    }
}
