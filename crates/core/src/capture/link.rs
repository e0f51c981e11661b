//! From the bytes of a packet to its TCP segment, or its datagram of DNS or perhaps of QUIC: link layer, IP, tunnels, TCP or UDP.
//!
//! Captures are often cut after 96 bytes, so lengths come from headers and never from the captured
//! size; a packet is lost only if its TCP header was cut. Packets of other protocols are counted by
//! kind; they are not errors.

mod handshakes;
mod headers;
mod tunnel;
#[cfg(test)]
mod tunnel_tests;

use super::stream::distance;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use self::handshakes::Handshakes;
use self::headers::{ethernet, Network};
use super::lookups;
use super::packet::Packet;
use super::{Endpoint, Segment, PSH};

/// The link layer of a capture; numbers from tcpdump.org/linktypes.html.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    Ethernet,
    Raw,
    Loopback,
    Cooked,
    Cooked2,
    Ppp,
    PppDirection,
    PppEthernet,
    CiscoHdlc,
    Nflog,
    Pktap,
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
            51 => Link::PppEthernet,
            104 => Link::CiscoHdlc,
            166 => Link::PppDirection,
            239 => Link::Nflog,
            258 => Link::Pktap,
            _ => Link::Unknown,
        }
    }
}

/// Why a packet is not a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotTcp {
    UnknownLink,
    Arp,
    /// Spanning tree, LLDP and the like: no IP inside.
    NoIp,
    Udp,
    /// A packet of a QUIC handshake, which carries HTTP/3.
    Quic,
    Icmp,
    Sctp,
    OtherIp,
    /// A later fragment of an IP packet: its bytes are missing in the stream.
    Fragment,
    /// The capture cut the packet before the end of its TCP header.
    Cut,
    /// Lengths in the headers contradict each other.
    Malformed,
}

/// Their names, in the order of [`NotTcp`].
pub const NOT_TCP: [&str; 11] = [
    "unknown link type",
    "ARP",
    "not IP",
    "UDP",
    "QUIC handshake",
    "ICMP",
    "SCTP",
    "other IP protocol",
    "later IP fragment",
    "cut before the end of the TCP header",
    "malformed headers",
];

/// The most headers of one kind in a row; no real packet has more.
const STACKED_MAX: usize = 8;
const TCP: u8 = 6;
const UDP_HEADER: usize = 8;
/// TCP in the shortest frame of Ethernet: 46 bytes, of which IP's header takes 20 or more.
const PADDED_MAX: usize = 26;

type Parsed<T> = Result<T, NotTcp>;

/// Packets that are not segments of TCP, and those in tunnels.
#[derive(Default)]
pub struct Kinds {
    not_tcp: [u64; NOT_TCP.len()],
    tunnels: tunnel::Counts,
    quic: Handshakes,
}

impl Kinds {
    pub fn not_tcp(&self) -> BTreeMap<&'static str, u64> {
        named(&NOT_TCP, &self.not_tcp)
    }

    pub fn tunnels(&self) -> BTreeMap<&'static str, u64> {
        named(&tunnel::NAMES, &self.tunnels)
    }

    pub fn quic_connections(&self) -> u64 {
        self.quic.connections()
    }
}

fn named(names: &[&'static str], counts: &[u64]) -> BTreeMap<&'static str, u64> {
    let counted = names.iter().copied().zip(counts.iter().copied());
    counted.filter(|&(_, count)| count > 0).collect()
}

/// The segment in `packet`, whose captured bytes are `bytes`. A packet without a segment is
/// counted.
#[inline]
pub fn segment<'a>(
    packet: &Packet,
    bytes: &'a [u8],
    file: u16,
    kinds: &mut Kinds,
) -> Option<Segment<'a>> {
    let (segment, not_tcp) = match parse(packet, bytes, file, kinds) {
        Ok(segment) if segment.datagram => {
            let quic = tunnel::is_handshake(segment.payload);
            let kind = if quic { NotTcp::Quic } else { NotTcp::Udp };
            (Some(segment), Some(kind))
        }
        Ok(segment) => (Some(segment), None),
        Err(kind) => (None, Some(kind)),
    };
    if let Some(count) = not_tcp.and_then(|kind| kinds.not_tcp.get_mut(kind as usize)) {
        *count += 1;
    }
    segment
}

#[inline]
fn parse<'a>(
    packet: &Packet,
    bytes: &'a [u8],
    file: u16,
    kinds: &mut Kinds,
) -> Parsed<Segment<'a>> {
    let mut interface = packet.interface;
    let at = match packet.link {
        Link::Ethernet => ethernet(bytes, 12)?,
        Link::Raw => 0,
        Link::Cooked2 => {
            // The only link layer that names the interface in each packet.
            interface = u16::from_be_bytes(array(bytes, 6)?);
            headers::cooked2(bytes)?
        }
        other => headers::other(other, bytes)?,
    };
    let ip = bytes.get(at..).ok_or(NotTcp::Cut)?;
    let wire = (packet.wire as usize).max(bytes.len()).saturating_sub(at);
    let mut network = network(ip, wire)?;
    if network.protocol != TCP {
        network = tunnel::inside(network, &mut kinds.tunnels, &mut kinds.quic)?;
    }
    match network.protocol {
        TCP => tcp(network, packet.time, file, interface),
        _ => datagram(network, packet.time, file, interface),
    }
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

/// An IP packet of either version, `wire` bytes long before it was cut.
#[inline]
fn network(ip: &[u8], wire: usize) -> Parsed<Network<'_>> {
    match ip.first().ok_or(NotTcp::Cut)? >> 4 {
        4 => ipv4(ip, wire),
        6 => ipv6(ip, wire),
        _ => Err(NotTcp::Malformed),
    }
}

#[inline]
fn ipv4(ip: &[u8], wire: usize) -> Parsed<Network<'_>> {
    let head: [u8; 20] = array(ip, 0)?;
    let header = usize::from(head[0] & 15) * 4;
    let total = match usize::from(u16::from_be_bytes([head[2], head[3]])) {
        // TCP segmentation offload of the sending host leaves the length to the network card.
        0 => wire,
        total => total,
    };
    if header < 20 || total < header {
        return Err(NotTcp::Malformed);
    }
    if u16::from_be_bytes([head[6], head[7]]) & 0x1fff != 0 {
        return Err(NotTcp::Fragment);
    }
    Ok(Network {
        protocol: head[9],
        bytes: ip.get(header..).ok_or(NotTcp::Cut)?,
        len: total - header,
        from: IpAddr::V4(Ipv4Addr::new(head[12], head[13], head[14], head[15])),
        to: IpAddr::V4(Ipv4Addr::new(head[16], head[17], head[18], head[19])),
        ip_id: Some(u16::from_be_bytes([head[4], head[5]])),
    })
}

#[inline]
fn ipv6(ip: &[u8], wire: usize) -> Parsed<Network<'_>> {
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
    let (from, to): ([u8; 16], [u8; 16]) = (array(&head, 8)?, array(&head, 24)?);
    Ok(Network {
        protocol: next,
        bytes: ip.get(at..).ok_or(NotTcp::Cut)?,
        len: total.checked_sub(at).ok_or(NotTcp::Malformed)?,
        from: IpAddr::V6(Ipv6Addr::from(from)),
        to: IpAddr::V6(Ipv6Addr::from(to)),
        ip_id: None,
    })
}

#[inline]
fn tcp(inner: Network<'_>, time: i64, file: u16, interface: u16) -> Parsed<Segment<'_>> {
    let head: [u8; 16] = array(inner.bytes, 0)?;
    let header = usize::from(head[12] >> 4) * 4;
    if header < 20 || header > inner.len {
        return Err(NotTcp::Malformed);
    }
    let payload = inner.bytes.get(header..).unwrap_or_default();
    let len = match inner.len - header {
        len if inner.len <= PADDED_MAX && head[13] & PSH == 0 && is_padding(payload, len) => 0,
        len => len,
    };
    let options = inner
        .bytes
        .get(20..header.min(inner.bytes.len()))
        .unwrap_or_default();
    let ack = u32::from_be_bytes([head[8], head[9], head[10], head[11]]);
    let stamps = timestamp(options);
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
        ack,
        flags: head[13],
        window: u16::from_be_bytes([head[14], head[15]]),
        ts_val: stamps.map(|(val, _)| val),
        ts_ecr: stamps.and_then(|(_, ecr)| ecr),
        had_twice: options.len() > ONLY_TIMESTAMP && tells_of_a_duplicate(options, ack),
        ip_id: inner.ip_id,
        len: len as u32,
        payload: payload.get(..len).unwrap_or(payload),
        file,
        interface,
        datagram: false,
    })
}

#[cold]
fn datagram(inner: Network<'_>, time: i64, file: u16, interface: u16) -> Parsed<Segment<'_>> {
    let payload = inner.bytes.get(UDP_HEADER..).ok_or(NotTcp::Cut)?;
    let len = inner.len.checked_sub(UDP_HEADER).ok_or(NotTcp::Malformed)?;
    let end = |ip, at| {
        Ok(Endpoint {
            ip,
            port: short(inner.bytes, at)?,
        })
    };
    Ok(Segment {
        time,
        from: end(inner.from, 0)?,
        to: end(inner.to, 2)?,
        seq: 0,
        ack: 0,
        flags: 0,
        window: 0,
        ts_val: None,
        ts_ecr: None,
        had_twice: false,
        ip_id: inner.ip_id,
        len: u32::try_from(len).map_err(|_| NotTcp::Malformed)?,
        payload: payload.get(..len).unwrap_or(payload),
        file,
        interface,
        datagram: true,
    })
}

/// Whether a packet of UDP comes from a server of DNS, or goes to one.
fn is_lookup(udp: &[u8]) -> bool {
    [0, 2]
        .into_iter()
        .any(|at| short(udp, at) == Ok(lookups::PORT))
}

/// Whether a payload is what Ethernet fills short frames up with, although the length of the packet counts it, as some
/// network cards and segmentation offload (a length of 0) have it: what a program writes is pushed.
fn is_padding(payload: &[u8], len: usize) -> bool {
    len > 0
        && payload
            .get(..len)
            .is_some_and(|bytes| bytes.iter().all(|&byte| byte == 0))
}

/// The length of options that are a timestamp only, after two NOPs.
const ONLY_TIMESTAMP: usize = 12;
const SACK: u8 = 5;
const TIMESTAMP: u8 = 8;

/// TSval and TSecr of the timestamp option, as far as their four bytes were captured.
#[inline]
fn timestamp(options: &[u8]) -> Option<(u32, Option<u32>)> {
    let number = |bytes: &[u8]| Some(u32::from_be_bytes(*bytes.first_chunk()?));
    // How Linux, BSD and macOS lay it out: two NOPs before it.
    let values = match options {
        [1, 1, TIMESTAMP, 10, values @ ..] => values,
        _ => option(options, TIMESTAMP)?,
    };
    Some((number(values)?, values.get(4..).and_then(number)))
}

/// Whether the first block of a SACK option lies before the acknowledged bytes: they had come before.
fn tells_of_a_duplicate(options: &[u8], ack: u32) -> bool {
    option(options, SACK).is_some_and(|blocks| match *blocks {
        [_, _, _, _, a, b, c, d, ..] => distance(u32::from_be_bytes([a, b, c, d]), ack) <= 0,
        _ => false,
    })
}

/// What follows the kind and the length of an option.
fn option(mut options: &[u8], kind: u8) -> Option<&[u8]> {
    loop {
        match *options {
            [one, _, ..] if one == kind => return options.get(2..),
            [0, ..] | [] | [_] => return None,
            [1, ..] => options = options.get(1..)?,
            [_, length, ..] => options = options.get(usize::from(length.max(2))..)?,
        }
    }
}

#[cfg(test)]
mod tests;
