//! From the bytes of a packet to the TCP segment in it: link layer, IP, TCP.
//!
//! Captures are often cut after 96 bytes, so lengths come from headers and never from what was captured; a packet is
//! lost only when its TCP header was cut. What is no TCP is counted by kind: that is no error.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::packet::Packet;
use super::{Endpoint, Segment};

/// What a capture's packets begin with; numbers as given by tcpdump.org/linktypes.html.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    Ethernet,
    Raw,
    Loopback,
    Cooked,
    Cooked2,
    Ppp,
    Unknown,
}

impl Link {
    pub fn from_number(number: u16) -> Link {
        match number {
            1 => Link::Ethernet,
            12 | 14 | 101 | 228 | 229 => Link::Raw,
            0 | 108 => Link::Loopback,
            113 => Link::Cooked,
            276 => Link::Cooked2,
            9 | 50 => Link::Ppp,
            _ => Link::Unknown,
        }
    }
}

/// Why a packet is no segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotTcp {
    UnknownLink,
    Arp,
    /// Spanning tree, LLDP and the like: no IP inside.
    NoIp,
    Udp,
    Icmp,
    Sctp,
    OtherIp,
    /// A later fragment of an IP packet: its bytes are missing in the stream.
    Fragment,
    /// The capture cut the packet before the end of its TCP header.
    Cut,
    /// Lengths in the headers contradict one another.
    Malformed,
}

/// What to call them, in the order of [`NotTcp`].
pub const NOT_TCP: [&str; 10] = [
    "unknown link type",
    "ARP",
    "not IP",
    "UDP",
    "ICMP",
    "SCTP",
    "other IP protocol",
    "later IP fragment",
    "cut before the end of the TCP header",
    "malformed headers",
];

/// Tags and labels that may be stacked before IP; more is not a packet anybody sends.
const STACKED_MAX: usize = 8;

type Parsed<T> = Result<T, NotTcp>;

/// The segment in `packet`, whose captured bytes are `bytes`.
#[inline]
pub fn segment<'a>(packet: &Packet, bytes: &'a [u8], file: u16) -> Parsed<Segment<'a>> {
    let mut interface = packet.interface;
    let at = match packet.link {
        Link::Ethernet => ethernet(bytes, 12)?,
        Link::Raw => 0,
        Link::Loopback => loopback(bytes)?,
        Link::Cooked => ethernet(bytes, 14)?,
        Link::Cooked2 => {
            // The only link layer that names the interface in each packet.
            interface = u16::from_be_bytes(array(bytes, 6)?);
            cooked2(bytes)?
        }
        Link::Ppp => ppp(
            bytes,
            if bytes.starts_with(&[0xff, 0x03]) {
                2
            } else {
                0
            },
        )?,
        Link::Unknown => return Err(NotTcp::UnknownLink),
    };
    let ip = bytes.get(at..).ok_or(NotTcp::Cut)?;
    let wire = (packet.wire as usize).max(bytes.len()).saturating_sub(at);
    let inner = match ip.first().ok_or(NotTcp::Cut)? >> 4 {
        4 => ipv4(ip, wire)?,
        6 => ipv6(ip, wire)?,
        _ => return Err(NotTcp::Malformed),
    };
    tcp(inner, packet.time, file, interface)
}

#[inline]
fn array<const N: usize>(bytes: &[u8], at: usize) -> Parsed<[u8; N]> {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk::<N>())
        .copied()
        .ok_or(NotTcp::Cut)
}

#[inline]
fn short(bytes: &[u8], at: usize) -> Parsed<u16> {
    Ok(u16::from_be_bytes(array(bytes, at)?))
}

/// Where IP begins in a packet whose ethertype lies at `at`, behind any VLAN tags, MPLS labels or PPPoE.
#[inline]
fn ethernet(bytes: &[u8], mut at: usize) -> Parsed<usize> {
    for _ in 0..STACKED_MAX {
        at += 2;
        match short(bytes, at - 2)? {
            0x0800 | 0x86dd => return Ok(at),
            0x8100 | 0x88a8 | 0x9100 | 0x9200 => at += 2,
            0x0806 => return Err(NotTcp::Arp),
            0x8864 => return ppp(bytes, at + 6),
            0x8847 | 0x8848 => return mpls(bytes, at),
            // A length: LLC follows, and with SNAP an ethertype after all.
            0..=0x05dc if bytes.get(at..at + 6) == Some(&[0xaa, 0xaa, 3, 0, 0, 0]) => at += 6,
            _ => return Err(NotTcp::NoIp),
        }
    }
    Err(NotTcp::Malformed)
}

fn cooked2(bytes: &[u8]) -> Parsed<usize> {
    match short(bytes, 0)? {
        0x0800 | 0x86dd => Ok(20),
        0x8100 | 0x88a8 => ethernet(bytes, 22),
        0x0806 => Err(NotTcp::Arp),
        _ => Err(NotTcp::NoIp),
    }
}

/// The protocol family, in the byte order of the host that captured. Values: 2 for IPv4 everywhere; IPv6 is 10 on
/// Linux, 24 on NetBSD and OpenBSD, 28 on FreeBSD, 30 on macOS, 23 on Windows.
fn loopback(bytes: &[u8]) -> Parsed<usize> {
    let family: [u8; 4] = array(bytes, 0)?;
    match u32::from_be_bytes(family).min(u32::from_le_bytes(family)) {
        2 | 10 | 23 | 24 | 28 | 30 => Ok(4),
        _ => Err(NotTcp::NoIp),
    }
}

fn ppp(bytes: &[u8], at: usize) -> Parsed<usize> {
    match short(bytes, at)? {
        0x0021 | 0x0057 => Ok(at + 2),
        // The protocol field may be compressed to its last byte.
        0x2145 => Ok(at + 1),
        _ => Err(NotTcp::NoIp),
    }
}

fn mpls(bytes: &[u8], mut at: usize) -> Parsed<usize> {
    for _ in 0..STACKED_MAX {
        let label: [u8; 4] = array(bytes, at)?;
        at += 4;
        if label[2] & 1 == 1 {
            return Ok(at);
        }
    }
    Err(NotTcp::Malformed)
}

/// The TCP part of an IP packet: what was captured of it, how long it was on the wire, between whom.
struct Inner<'a> {
    bytes: &'a [u8],
    len: usize,
    from: IpAddr,
    to: IpAddr,
    ip_id: Option<u16>,
}

#[inline]
fn ipv4(ip: &[u8], wire: usize) -> Parsed<Inner<'_>> {
    let head: [u8; 20] = array(ip, 0)?;
    let header = usize::from(head[0] & 15) * 4;
    let total = match usize::from(u16::from_be_bytes([head[2], head[3]])) {
        // The sending host's TCP segmentation offload leaves the length to the network card.
        0 => wire,
        total => total,
    };
    if header < 20 || total < header {
        return Err(NotTcp::Malformed);
    }
    if u16::from_be_bytes([head[6], head[7]]) & 0x1fff != 0 {
        return Err(NotTcp::Fragment);
    }
    expect_tcp(head[9])?;
    Ok(Inner {
        bytes: ip.get(header..).ok_or(NotTcp::Cut)?,
        len: total - header,
        from: IpAddr::V4(Ipv4Addr::new(head[12], head[13], head[14], head[15])),
        to: IpAddr::V4(Ipv4Addr::new(head[16], head[17], head[18], head[19])),
        ip_id: Some(u16::from_be_bytes([head[4], head[5]])),
    })
}

#[inline]
fn ipv6(ip: &[u8], wire: usize) -> Parsed<Inner<'_>> {
    let head: [u8; 40] = array(ip, 0)?;
    let total = match usize::from(u16::from_be_bytes([head[4], head[5]])) {
        // Segmentation offload, or a jumbogram (BIG TCP).
        0 => wire,
        payload => 40 + payload,
    };
    let (mut at, mut next) = (40, head[6]);
    for _ in 0..STACKED_MAX {
        match next {
            // Hop-by-hop, routing, destination, mobility, HIP, shim6: length in units of 8 bytes, the first not counted.
            0 | 43 | 60 | 135 | 139 | 140 => {
                let [following, length] = array(ip, at)?;
                (next, at) = (following, at + 8 * (usize::from(length) + 1));
            }
            44 => {
                let [following, _, high, low] = array(ip, at)?;
                if u16::from_be_bytes([high, low]) & 0xfff8 != 0 {
                    return Err(NotTcp::Fragment);
                }
                (next, at) = (following, at + 8);
            }
            // Authentication: in units of 4 bytes, the first two not counted.
            51 => {
                let [following, length] = array(ip, at)?;
                (next, at) = (following, at + 4 * (usize::from(length) + 2));
            }
            _ => break,
        }
    }
    expect_tcp(next)?;
    let (from, to): ([u8; 16], [u8; 16]) = (array(&head, 8)?, array(&head, 24)?);
    Ok(Inner {
        bytes: ip.get(at..).ok_or(NotTcp::Cut)?,
        len: total.checked_sub(at).ok_or(NotTcp::Malformed)?,
        from: IpAddr::V6(Ipv6Addr::from(from)),
        to: IpAddr::V6(Ipv6Addr::from(to)),
        ip_id: None,
    })
}

#[inline]
fn expect_tcp(protocol: u8) -> Parsed<()> {
    match protocol {
        6 => Ok(()),
        17 => Err(NotTcp::Udp),
        1 | 58 => Err(NotTcp::Icmp),
        132 => Err(NotTcp::Sctp),
        _ => Err(NotTcp::OtherIp),
    }
}

#[inline]
fn tcp(inner: Inner<'_>, time: i64, file: u16, interface: u16) -> Parsed<Segment<'_>> {
    let head: [u8; 16] = array(inner.bytes, 0)?;
    let header = usize::from(head[12] >> 4) * 4;
    if header < 20 || header > inner.len {
        return Err(NotTcp::Malformed);
    }
    let len = inner.len - header;
    let payload = inner.bytes.get(header..).unwrap_or_default();
    let options = inner
        .bytes
        .get(20..header.min(inner.bytes.len()))
        .unwrap_or_default();
    Ok(Segment {
        time,
        from: Endpoint {
            ip: inner.from,
            port: u16::from_be_bytes([head[0], head[1]]),
        },
        to: Endpoint {
            ip: inner.to,
            port: u16::from_be_bytes([head[2], head[3]]),
        },
        seq: u32::from_be_bytes([head[4], head[5], head[6], head[7]]),
        ack: u32::from_be_bytes([head[8], head[9], head[10], head[11]]),
        flags: head[13],
        window: u16::from_be_bytes([head[14], head[15]]),
        ts_val: timestamp(options),
        ip_id: inner.ip_id,
        len: len as u32,
        payload: payload.get(..len).unwrap_or(payload),
        file,
        interface,
    })
}

/// TSval of the timestamp option; enough that its four bytes were captured.
#[inline]
fn timestamp(mut options: &[u8]) -> Option<u32> {
    // How Linux, BSD and macOS lay it out: two NOPs before it.
    if let [1, 1, 8, 10, a, b, c, d, ..] = *options {
        return Some(u32::from_be_bytes([a, b, c, d]));
    }
    loop {
        match *options {
            [8, 10, a, b, c, d, ..] => return Some(u32::from_be_bytes([a, b, c, d])),
            [0, ..] | [] | [_] => return None,
            [1, ..] => options = options.get(1..)?,
            [_, length, ..] => options = options.get(usize::from(length.max(2))..)?,
        }
    }
}

#[cfg(test)]
mod tests;
