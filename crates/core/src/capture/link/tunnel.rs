//! Packets inside packets: IP in IP, GRE, VXLAN and GENEVE, as the nodes of a cluster send them to each other.
//!
//! A capture on all interfaces of a node holds such a packet twice, inside its tunnel and outside: both lead to the same
//! segment, and one of them counts as a copy ([`super::super::copies`]).

use super::handshakes::Handshakes;
use super::headers::{ethernet, ppp_framed, Network};
use super::{array, is_lookup, network, short, NotTcp, Parsed, TCP, UDP_HEADER};

/// A cluster on virtual machines has a tunnel in a tunnel; twice as many are read, which bounds the
/// time for a packet.
const NESTED_MAX: usize = 4;

#[derive(Clone, Copy)]
enum Tunnel {
    IpInIp,
    Gre,
    Erspan,
    Vxlan,
    Geneve,
}

/// Their names, in the order of [`Tunnel`].
pub(super) const NAMES: [&str; 5] = ["IP in IP", "GRE", "ERSPAN", "VXLAN", "GENEVE"];
/// Packets by their tunnels.
pub(super) type Counts = [u64; NAMES.len()];

const IPV4: u8 = 4;
const UDP: u8 = 17;
const IPV6: u8 = 41;
const GRE: u8 = 47;
const AUTHENTICATION: u8 = 51;

/// The position of a packet inside another: the kind of tunnel, and the first byte.
type Inside = Parsed<(Tunnel, usize)>;

/// The TCP packet inside a packet of another protocol, or the datagram of DNS or perhaps of QUIC.
pub(super) fn inside<'a>(
    mut outer: Network<'a>,
    counts: &mut Counts,
    quic: &mut Handshakes,
) -> Parsed<Network<'a>> {
    for _ in 0..NESTED_MAX {
        let (tunnel, at) = match outer.protocol {
            TCP => return Ok(outer),
            IPV4 | IPV6 => (Tunnel::IpInIp, 0),
            GRE => gre(outer.bytes)?,
            UDP => match udp(outer.bytes) {
                Err(NotTcp::Udp) if is_lookup(outer.bytes) || is_short(outer.bytes) => {
                    return Ok(outer)
                }
                Err(NotTcp::Quic) => {
                    quic.add(&outer);
                    return Ok(outer);
                }
                found => found?,
            },
            AUTHENTICATION => {
                outer = authenticated(&outer)?;
                continue;
            }
            1 | 58 => return Err(NotTcp::Icmp),
            132 => return Err(NotTcp::Sctp),
            _ => return Err(NotTcp::OtherIp),
        };
        let bytes = outer.bytes.get(at..).ok_or(NotTcp::Cut)?;
        let inner = network(bytes, outer.len.saturating_sub(at))?;
        counts[tunnel as usize] += 1;
        outer = inner;
    }
    match outer.protocol {
        TCP => Ok(outer),
        _ => Err(NotTcp::Malformed),
    }
}

/// Behind the authentication header of IPv4; its length is in units of four bytes, the first two not counted.
fn authenticated<'a>(outer: &Network<'a>) -> Parsed<Network<'a>> {
    let [protocol, length] = array(outer.bytes, 0)?;
    let at = 4 * (usize::from(length) + 2);
    Ok(Network {
        protocol,
        bytes: outer.bytes.get(at..).ok_or(NotTcp::Cut)?,
        len: outer.len.checked_sub(at).ok_or(NotTcp::Malformed)?,
        ..*outer
    })
}

/// RFC 2784 and 2890; version 1 is PPTP's (RFC 2637). Mirrored Ethernet is ERSPAN (draft-foschiano-erspan).
fn gre(bytes: &[u8]) -> Inside {
    const CHECKSUM: u16 = 0x8000;
    const ROUTING: u16 = 0x4000;
    const KEY: u16 = 0x2000;
    const SEQUENCE: u16 = 0x1000;
    const ACKNOWLEDGEMENT: u16 = 0x0080;
    let (flags, kind) = (short(bytes, 0)?, short(bytes, 2)?);
    let version = flags & 7;
    if flags & ROUTING != 0 || version > 1 {
        return Err(NotTcp::OtherIp);
    }
    let acknowledgement = if version == 1 { ACKNOWLEDGEMENT } else { 0 };
    let fields = [CHECKSUM, KEY, SEQUENCE, acknowledgement];
    let there = fields.iter().filter(|&&field| flags & field != 0).count();
    let at = 4 + 4 * there;
    Ok(match kind {
        0x0800 | 0x86dd => (Tunnel::Gre, at),
        // Transparent Ethernet bridging.
        0x6558 => (Tunnel::Gre, ethernet(bytes, at + 12)?),
        // The following bytes have the same layout as after an ethertype.
        0x8847 | 0x8848 if there == 0 => (Tunnel::Gre, ethernet(bytes, 2)?),
        0x880b => (Tunnel::Gre, ppp_framed(bytes, at)?),
        0x88be if flags & SEQUENCE == 0 => (Tunnel::Erspan, ethernet(bytes, at + 12)?),
        0x88be => (Tunnel::Erspan, ethernet(bytes, at + 8 + 12)?),
        0x22eb => {
            let [last]: [u8; 1] = array(bytes, at + 11)?;
            let more = if last & 1 == 1 { 8 } else { 0 };
            (Tunnel::Erspan, ethernet(bytes, at + 12 + more + 12)?)
        }
        _ => return Err(NotTcp::OtherIp),
    })
}

/// VXLAN (RFC 7348) and GENEVE (RFC 8926): by their ports (4789, and Linux's older 8472; 6081), and
/// at any other port if all fixed header fields are right and IP is inside.
fn udp(bytes: &[u8]) -> Inside {
    let Ok(head) = array::<8>(bytes, UDP_HEADER) else {
        return Err(NotTcp::Udp);
    };
    let known = match short(bytes, 2)? {
        4789 | 8472 => vxlan(bytes, head),
        4790 => vxlan_gpe(bytes, head),
        6081 => geneve(bytes, head),
        _ => None,
    };
    if let Some(inside) = known {
        return inside;
    }
    let plain = head[0] == 8 && head[1..4] == [0; 3];
    let found = if plain {
        vxlan(bytes, head)
    } else {
        geneve(bytes, head)
    };
    match found {
        Some(Ok((tunnel, at))) if is_ip(bytes, at) => Ok((tunnel, at)),
        _ if shakes_hands(head) => Err(NotTcp::Quic),
        _ => Err(NotTcp::Udp),
    }
}

/// A datagram that may be a short header of QUIC, or its negotiation of versions.
fn is_short(bytes: &[u8]) -> bool {
    match bytes.get(UDP_HEADER..) {
        Some([first, ..]) if first & 0xc0 == 0x40 => true,
        Some([first, 0, 0, 0, 0, ..]) => first & 0x80 != 0,
        _ => false,
    }
}

/// Whether a datagram holds a long header of QUIC.
pub(super) fn is_handshake(payload: &[u8]) -> bool {
    payload
        .first_chunk()
        .is_some_and(|head| shakes_hands(*head))
}

/// A long header of QUIC, version 1 or 2, with a connection id of at most 20 bytes (RFC 8999, 9000 and 9369).
fn shakes_hands(head: [u8; 8]) -> bool {
    let [first, version @ .., id_len, _, _] = head;
    first & 0xc0 == 0xc0
        && matches!(version, [0, 0, 0, 1] | [0x6b, 0x33, 0x43, 0xcf])
        && id_len <= 20
}

/// Ethernet behind a network's number. A group policy may use bytes that are otherwise zero.
fn vxlan(bytes: &[u8], head: [u8; 8]) -> Option<Inside> {
    let policy = head[0] & 0x80 != 0;
    let sound = head[0] & 0x7f == 8 && head[7] == 0 && (policy || head[1..4] == [0; 3]);
    sound.then(|| Ok((Tunnel::Vxlan, ethernet(bytes, 16 + 12)?)))
}

/// The same, with the protocol of the inner packet (draft-ietf-nvo3-vxlan-gpe).
fn vxlan_gpe(bytes: &[u8], head: [u8; 8]) -> Option<Inside> {
    match (head[0] & 0x0c, head[3]) {
        (0x0c, 1 | 2) => Some(Ok((Tunnel::Vxlan, 16))),
        (0x0c, 3) => Some(ethernet(bytes, 16 + 12).map(|at| (Tunnel::Vxlan, at))),
        _ => None,
    }
}

/// Ethernet or IP behind a network's number and options of four bytes each.
fn geneve(bytes: &[u8], head: [u8; 8]) -> Option<Inside> {
    let at = 16 + 4 * usize::from(head[0] & 0x3f);
    if head[0] & 0xc0 != 0 || head[1] & 0x3f != 0 || head[7] != 0 {
        return None;
    }
    match u16::from_be_bytes([head[2], head[3]]) {
        0x6558 => Some(ethernet(bytes, at + 12).map(|at| (Tunnel::Geneve, at))),
        0x0800 | 0x86dd => Some(Ok((Tunnel::Geneve, at))),
        _ => None,
    }
}

/// Whether the header of an IP packet is at this position, with a plausible length.
fn is_ip(bytes: &[u8], at: usize) -> bool {
    match bytes.get(at..) {
        Some([0x45..=0x4f, _, high, low, ..]) => u16::from_be_bytes([*high, *low]) >= 20,
        Some([0x60..=0x6f, ..]) => true,
        _ => false,
    }
}
