//! Headers before an IP packet: where it begins.

use std::net::IpAddr;

use super::{array, short, Link, NotTcp, Parsed, STACKED_MAX};

/// The content of an IP packet: its captured bytes, its length on the wire, and its addresses.
pub(super) struct Network<'a> {
    pub protocol: u8,
    pub bytes: &'a [u8],
    pub len: usize,
    pub from: IpAddr,
    pub to: IpAddr,
    pub ip_id: Option<u16>,
}

/// Link layers that are rare.
pub(super) fn other(link: Link, bytes: &[u8]) -> Parsed<usize> {
    match link {
        Link::Ethernet => ethernet(bytes, 12),
        Link::Raw => Ok(0),
        Link::Loopback => loopback(bytes),
        Link::Cooked => ethernet(bytes, 14),
        Link::Cooked2 => cooked2(bytes),
        Link::Ppp => ppp_framed(bytes, 0),
        // The direction byte is in the address field.
        Link::PppDirection => ppp(bytes, 2),
        Link::PppEthernet => ppp(bytes, 6),
        Link::CiscoHdlc => ethernet(bytes, 2),
        Link::Nflog => nflog(bytes),
        Link::Pktap => pktap(bytes),
        Link::Unknown => Err(NotTcp::UnknownLink),
    }
}

/// Where IP begins in a packet whose ethertype lies at `at`, behind any VLAN tags, MPLS labels or PPPoE.
#[inline]
pub(super) fn ethernet(bytes: &[u8], mut at: usize) -> Parsed<usize> {
    for _ in 0..STACKED_MAX {
        at += 2;
        match short(bytes, at - 2)? {
            0x0800 | 0x86dd => return Ok(at),
            0x8100 | 0x88a8 | 0x9100 | 0x9200 => at += 2,
            0x0806 => return Err(NotTcp::Arp),
            0x8864 => return ppp(bytes, at + 6),
            0x8847 | 0x8848 => {
                at = mpls(bytes, at)?;
                match bytes.get(at).ok_or(NotTcp::Cut)? >> 4 {
                    4 | 6 => return Ok(at),
                    // A pseudowire: Ethernet behind a control word (RFC 4448).
                    0 => at += 4 + 12,
                    _ => return Err(NotTcp::NoIp),
                }
            }
            // A length: LLC follows, and with SNAP an ethertype after all.
            0..=0x05dc if bytes.get(at..at + 6) == Some(&[0xaa, 0xaa, 3, 0, 0, 0]) => at += 6,
            _ => return Err(NotTcp::NoIp),
        }
    }
    Err(NotTcp::Malformed)
}

pub(super) fn cooked2(bytes: &[u8]) -> Parsed<usize> {
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

/// PPP whose address and control bytes may be left out.
pub(super) fn ppp_framed(bytes: &[u8], at: usize) -> Parsed<usize> {
    match bytes.get(at..at + 2) {
        Some([0xff, 0x03]) => ppp(bytes, at + 2),
        _ => ppp(bytes, at),
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

/// Linux's netfilter log: a family, then attributes of a length, a type and a value padded to four bytes; the packet is
/// one of them. Lengths are in the byte order of the host that captured.
fn nflog(bytes: &[u8]) -> Parsed<usize> {
    const PAYLOAD: u16 = 9;
    const ATTRIBUTES_MAX: usize = 64;
    if !matches!(array(bytes, 0)?, [2 | 10, 0]) {
        return Err(NotTcp::NoIp);
    }
    let mut at = 4;
    for _ in 0..ATTRIBUTES_MAX {
        let [a, b, c, d] = array(bytes, at)?;
        let little = u16::from_le_bytes([a, b]) < u16::from_be_bytes([a, b]);
        let (len, kind) = match little {
            true => (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d])),
            false => (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])),
        };
        match kind {
            PAYLOAD => return Ok(at + 4),
            _ if len < 4 => return Err(NotTcp::Malformed),
            _ => at += usize::from(len).next_multiple_of(4),
        }
    }
    Err(NotTcp::Malformed)
}

/// macOS: a header with its length and the link type of what follows, little-endian.
fn pktap(bytes: &[u8]) -> Parsed<usize> {
    let word = |at| Ok(u32::from_le_bytes(array(bytes, at)?));
    let (length, link) = (word(0)?, word(8)?);
    let rest = usize::try_from(length).ok().and_then(|at| bytes.get(at..));
    let link = match u16::try_from(link).map(Link::from_number) {
        Ok(Link::Pktap) | Err(_) => Link::Unknown,
        Ok(link) => link,
    };
    Ok(length as usize + other(link, rest.ok_or(NotTcp::Cut)?)?)
}
