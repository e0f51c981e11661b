//! Builders for tests: TCP packets and capture files in memory. They have defaults, so that a test
//! sets only what matters.
//! ```ignore
//! let syn = tcp("10.0.0.1:4000", "10.0.0.2:80").at(5 * MS).flags(SYN).seq(99);
//! flow.segment(&syn.segment());                         // straight into the connection layer
//! let file = pcap(&[syn.record(), …]);                  // or as the bytes of a capture file
//! ```
#![allow(dead_code, clippy::unwrap_used)]

use std::net::{IpAddr, SocketAddr};

use super::report::FileReport;
use super::{Endpoint, Segment, ACK};

pub const US: i64 = 1_000;
pub const MS: i64 = 1_000_000;
pub const S: i64 = 1_000_000_000;

/// A packet in a capture: its time, its captured bytes, its length on the wire.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub time: i64,
    pub bytes: Vec<u8>,
    pub wire: u32,
}

#[derive(Clone, Debug)]
pub struct Tcp {
    pub time: i64,
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    pub ts_val: Option<u32>,
    pub ip_id: u16,
    pub payload: Vec<u8>,
    /// Payload on the wire, when more than was captured.
    pub len: u32,
    pub file: u16,
    pub interface: u16,
}

/// A bare ACK at time 0 between two addresses ("10.0.0.1:80", "[::1]:80").
pub fn tcp(from: &str, to: &str) -> Tcp {
    Tcp {
        time: 0,
        from: from.parse().unwrap(),
        to: to.parse().unwrap(),
        seq: 1,
        ack: 1,
        flags: ACK,
        window: 1000,
        ts_val: None,
        ip_id: 1,
        payload: Vec::new(),
        len: 0,
        file: 0,
        interface: 0,
    }
}

impl Tcp {
    pub fn at(self, time: i64) -> Self {
        Tcp { time, ..self }
    }
    pub fn seq(self, seq: u32) -> Self {
        Tcp { seq, ..self }
    }
    pub fn ack(self, ack: u32) -> Self {
        Tcp { ack, ..self }
    }
    pub fn flags(self, flags: u8) -> Self {
        Tcp { flags, ..self }
    }
    pub fn window(self, window: u16) -> Self {
        Tcp { window, ..self }
    }
    pub fn ts_val(self, ts_val: u32) -> Self {
        Tcp {
            ts_val: Some(ts_val),
            ..self
        }
    }
    pub fn ip_id(self, ip_id: u16) -> Self {
        Tcp { ip_id, ..self }
    }
    pub fn file(self, file: u16) -> Self {
        Tcp { file, ..self }
    }
    pub fn interface(self, interface: u16) -> Self {
        Tcp { interface, ..self }
    }
    pub fn payload(self, payload: impl AsRef<[u8]>) -> Self {
        let payload = payload.as_ref().to_vec();
        Tcp {
            len: payload.len() as u32,
            payload,
            ..self
        }
    }
    /// Keeps the first `captured` bytes of the payload, as a snap length does.
    pub fn cut(mut self, captured: usize) -> Self {
        self.payload.truncate(captured);
        self
    }

    /// The segment that the reader passes to the connection layer for this packet.
    pub fn segment(&self) -> Segment<'_> {
        Segment {
            time: self.time,
            from: Endpoint {
                ip: self.from.ip(),
                port: self.from.port(),
            },
            to: Endpoint {
                ip: self.to.ip(),
                port: self.to.port(),
            },
            seq: self.seq,
            ack: self.ack,
            flags: self.flags,
            window: self.window,
            ts_val: self.ts_val,
            ts_ecr: None,
            had_twice: false,
            ip_id: self.from.is_ipv4().then_some(self.ip_id),
            len: self.len,
            payload: &self.payload,
            file: self.file,
            interface: self.interface,
            datagram: false,
        }
    }

    /// The TCP header, with the timestamp option if there is one, and the captured payload.
    pub fn transport(&self) -> Vec<u8> {
        let options: Vec<u8> = match self.ts_val {
            Some(value) => [&[1, 1, 8, 10][..], &value.to_be_bytes(), &[0; 4]].concat(),
            None => Vec::new(),
        };
        let mut out = Vec::new();
        out.extend(self.from.port().to_be_bytes());
        out.extend(self.to.port().to_be_bytes());
        out.extend(self.seq.to_be_bytes());
        out.extend(self.ack.to_be_bytes());
        out.push(((20 + options.len()) as u8 / 4) << 4);
        out.push(self.flags);
        out.extend(self.window.to_be_bytes());
        out.extend([0; 4]);
        out.extend(options);
        out.extend(&self.payload);
        out
    }

    /// The IP packet, v4 or v6 as the addresses are.
    pub fn ip(&self) -> Vec<u8> {
        let transport = self.transport();
        let len = transport.len() as u32 + (self.len - self.payload.len() as u32);
        let mut out = Vec::new();
        match (self.from.ip(), self.to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                out.extend([0x45, 0]);
                out.extend((20 + len as u16).to_be_bytes());
                out.extend(self.ip_id.to_be_bytes());
                out.extend([0x40, 0, 64, 6, 0, 0]);
                out.extend(from.octets());
                out.extend(to.octets());
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                out.extend([0x60, 0, 0, 0]);
                out.extend((len as u16).to_be_bytes());
                out.extend([6, 64]);
                out.extend(from.octets());
                out.extend(to.octets());
            }
            _ => unreachable!("both addresses are of one family"),
        }
        out.extend(transport);
        out
    }

    /// The Ethernet frame.
    pub fn ethernet(&self) -> Vec<u8> {
        let ethertype: u16 = if self.from.is_ipv4() { 0x0800 } else { 0x86dd };
        let mut out = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        out.extend(ethertype.to_be_bytes());
        out.extend(self.ip());
        out
    }

    /// The Ethernet frame as a record of a capture.
    pub fn record(&self) -> Record {
        let bytes = self.ethernet();
        let wire = bytes.len() as u32 + (self.len - self.payload.len() as u32);
        Record {
            time: self.time,
            bytes,
            wire,
        }
    }
}

/// The content of a segment, kept beyond its buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub time: i64,
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub seq: u32,
    pub flags: u8,
    pub ts_val: Option<u32>,
    pub len: u32,
    pub payload: Vec<u8>,
    pub file: u16,
    pub interface: u16,
}

impl Seen {
    pub fn of(segment: &Segment<'_>) -> Seen {
        Seen {
            time: segment.time,
            from: SocketAddr::new(segment.from.ip, segment.from.port),
            to: SocketAddr::new(segment.to.ip, segment.to.port),
            seq: segment.seq,
            flags: segment.flags,
            ts_val: segment.ts_val,
            len: segment.len,
            payload: segment.payload.to_vec(),
            file: segment.file,
            interface: segment.interface,
        }
    }
}

impl Tcp {
    pub fn seen(&self) -> Seen {
        Seen::of(&self.segment())
    }
}

/// All segments of a capture in memory, and the report.
pub fn read(bytes: &[u8]) -> crate::error::Result<(Vec<Seen>, FileReport)> {
    let mut seen = Vec::new();
    let stream = Box::new(std::io::Cursor::new(bytes.to_vec()));
    let report = super::merge::segments_from(stream, std::path::Path::new("test"), |segment| {
        seen.push(Seen::of(segment));
        Ok(())
    })?;
    Ok((seen, report))
}

/// How a pcap file is written.
#[derive(Clone, Copy, Debug)]
pub struct PcapStyle {
    pub big_endian: bool,
    pub nanoseconds: bool,
    pub link: u32,
    pub snaplen: u32,
}

impl Default for PcapStyle {
    fn default() -> Self {
        PcapStyle {
            big_endian: false,
            nanoseconds: true,
            link: 1,
            snaplen: 262_144,
        }
    }
}

/// An Ethernet pcap file, little-endian, nanoseconds.
pub fn pcap(records: &[Record]) -> Vec<u8> {
    pcap_styled(PcapStyle::default(), records)
}

pub fn pcap_styled(style: PcapStyle, records: &[Record]) -> Vec<u8> {
    let mut out = Vec::new();
    let u32 = |v: u32| {
        if style.big_endian {
            v.to_be_bytes()
        } else {
            v.to_le_bytes()
        }
    };
    let u16 = |v: u16| {
        if style.big_endian {
            v.to_be_bytes()
        } else {
            v.to_le_bytes()
        }
    };
    out.extend(u32(if style.nanoseconds {
        0xa1b2_3c4d
    } else {
        0xa1b2_c3d4
    }));
    out.extend([u16(2), u16(4)].concat());
    out.extend([u32(0), u32(0), u32(style.snaplen), u32(style.link)].concat());
    for record in records {
        let fraction = record.time % S / if style.nanoseconds { 1 } else { US };
        out.extend(u32((record.time / S) as u32));
        out.extend(u32(fraction as u32));
        out.extend(u32(record.bytes.len() as u32));
        out.extend(u32(record.wire));
        out.extend(&record.bytes);
    }
    out
}

/// Writes a pcapng file block by block, in either byte order.
pub struct PcapNg {
    pub bytes: Vec<u8>,
    big_endian: bool,
}

impl PcapNg {
    pub fn new(big_endian: bool) -> Self {
        PcapNg {
            bytes: Vec::new(),
            big_endian,
        }
        .section(big_endian)
    }
    fn u32(&self, value: u32) -> [u8; 4] {
        if self.big_endian {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    }
    fn u16(&self, value: u16) -> [u8; 2] {
        if self.big_endian {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    }
    /// A block of any type around `body`.
    pub fn block(mut self, kind: u32, body: &[u8]) -> Self {
        let padding = body.len().wrapping_neg() % 4;
        let total = (12 + body.len() + padding) as u32;
        let parts = [
            &self.u32(kind)[..],
            &self.u32(total),
            body,
            &vec![0; padding],
            &self.u32(total),
        ]
        .concat();
        self.bytes.extend(parts);
        self
    }
    /// A new section; everything after it is in this byte order.
    pub fn section(mut self, big_endian: bool) -> Self {
        self.big_endian = big_endian;
        let body = [
            &self.u32(0x1a2b_3c4d)[..],
            &self.u16(1),
            &self.u16(0),
            &[0xff; 8],
        ]
        .concat();
        self.block(0x0a0d_0d0a, &body)
    }
    /// Options: (code, value) pairs, closed by the end of options.
    pub fn options(&self, options: &[(u16, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        for (code, value) in options {
            out.extend([self.u16(*code), self.u16(value.len() as u16)].concat());
            out.extend(*value);
            out.extend(vec![0; value.len().wrapping_neg() % 4]);
        }
        out.extend([0; 4]);
        out
    }
    pub fn interface(self, link: u16, snaplen: u32, options: &[(u16, &[u8])]) -> Self {
        let head = [&self.u16(link)[..], &[0, 0], &self.u32(snaplen)].concat();
        let body = [head, self.options(options)].concat();
        self.block(1, &body)
    }
    /// An enhanced packet block; `ticks` in the interface's resolution.
    pub fn packet(self, interface: u32, ticks: u64, record: &Record) -> Self {
        let head = [
            interface,
            (ticks >> 32) as u32,
            ticks as u32,
            record.bytes.len() as u32,
            record.wire,
        ];
        let mut body: Vec<u8> = head.iter().flat_map(|v| self.u32(*v)).collect();
        body.extend(&record.bytes);
        self.block(6, &body)
    }
}
