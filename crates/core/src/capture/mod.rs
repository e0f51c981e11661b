//! From packets to visits.
//! ```text
//! source   a file, gzip, zstd or standard input → bytes     standard  input that may be silent for hours
//! pcap/pcapng  bytes → packets          link  packet → segment
//! merge    several captures → segments in the order of time      clocks  the offsets of their clocks
//! flow     segments → connections: attempts, drops, bytes in order without copies     lookups, quic  datagrams → visits
//! tls      records → their content, if the secrets are known
//! wire     bytes of a connection → exchanges (one file a protocol)
//! strangers  which failed attempts are requests, and which a scan or a flood
//! decode   all of it, into a VisitSink    place  how far it is, for a reading that was killed and goes on     live  packets of a live host, as they come
//! ```

mod attempt;
mod blocks;
mod clocks;
mod connection;
mod copies;
pub mod crowd;
pub mod decode;
mod exchange;
mod file;
pub mod flow;
#[cfg(test)]
mod flow_tests;
pub mod ledger;
mod link;
pub mod live;
pub mod lookups;
mod lull;
pub mod merge;
pub mod names;
mod opening;
mod packet;
pub(crate) mod pcap;
mod pcapng;
mod place;
pub mod quic;
mod reader;
#[cfg(test)]
mod recorded_tests;
pub mod report;
#[cfg(test)]
mod saved_tests;
pub mod servers;
mod source;
mod stages;
#[cfg(test)]
mod stages_tests;
pub mod standard;
mod steps;
pub mod strangers;
mod stream;
#[cfg(test)]
pub(crate) mod testing;
pub mod tls;
pub mod wire;

use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// TCP flags as on the wire.
pub const FIN: u8 = 0x01;
pub const SYN: u8 = 0x02;
pub const RST: u8 = 0x04;
pub const PSH: u8 = 0x08;
pub const ACK: u8 = 0x10;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize)]
pub struct Endpoint {
    pub ip: IpAddr,
    pub port: u16,
}

/// One TCP segment as captured, or a datagram of DNS or perhaps of QUIC.
#[derive(Clone, Debug)]
pub struct Segment<'a> {
    /// Nanoseconds since the Unix epoch, on the clock of the first capture.
    pub time: i64,
    pub from: Endpoint,
    pub to: Endpoint,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    /// TSval of the TCP timestamp option, if the option exists and was captured: equal in a copy of
    /// a packet, (nearly always) different in a retransmission.
    pub ts_val: Option<u32>,
    /// TSecr of the same option: the TSval of a packet that this one answers.
    pub ts_ecr: Option<u32>,
    /// Its sender had some bytes twice (D-SACK, RFC 2883).
    pub had_twice: bool,
    /// IPv4 identification; None on IPv6.
    pub ip_id: Option<u16>,
    /// Payload length on the wire, from the IP and TCP headers.
    pub len: u32,
    /// The captured part of the payload: `payload.len() <= len` (snap length).
    pub payload: &'a [u8],
    /// The number of the capture, from 0, and of its interface.
    pub file: u16,
    pub interface: u16,
    /// UDP: it has no sequence numbers and no flags.
    pub datagram: bool,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        SocketAddr::new(self.ip, self.port).fmt(f)
    }
}
