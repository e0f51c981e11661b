//! One packet as bytes: Ethernet, IPv4 or IPv6, TCP, with their checksums.
//!
//! A reader must distinguish a packet that was sent again from a copy that the capture made. IPv4
//! has an identification for that; over IPv6, segments carry the TCP timestamp option.

use std::net::IpAddr;

use super::flags::{ACK, SYN};

/// The payload of a segment on an Ethernet of 1,500 bytes: less 20 (IPv4) or 40 (IPv6) and 20
/// (TCP).
fn segment_limit(ip: IpAddr) -> u16 {
    match ip {
        IpAddr::V4(_) => 1460,
        IpAddr::V6(_) => 1440,
    }
}

/// Also less its options.
pub fn segment_max(ip: IpAddr) -> u64 {
    let options = if ip.is_ipv6() { TIMESTAMP_LEN } else { 0 };
    u64::from(segment_limit(ip)) - options
}

const TIMESTAMP_LEN: u64 = 12;
/// The option's clock ticks each microsecond (Linux: tcp_usec_ts).
const TICK: i64 = 1000;

const WINDOW: u16 = u16::MAX;
const TTL: u8 = 64;
const TCP: u8 = 6;
const DO_NOT_FRAGMENT: u8 = 0x40;

#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    pub time: i64,
    pub from: (IpAddr, u16),
    pub to: (IpAddr, u16),
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    /// IPv4 identification, which distinguishes a repeated packet from a copy.
    pub id: u16,
    pub payload: &'a [u8],
}

impl Frame<'_> {
    /// Replaces `out` by the frame.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.clear();
        out.extend(hardware_address(self.to.0));
        out.extend(hardware_address(self.from.0));
        let options = self.options();
        let tcp_len = 20 + options.len() + self.payload.len();
        let pseudo = match (self.from.0, self.to.0) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                out.extend([0x08, 0x00]);
                let begin = out.len();
                out.extend([0x45, 0]);
                out.extend((20 + tcp_len as u16).to_be_bytes());
                out.extend(self.id.to_be_bytes());
                out.extend([DO_NOT_FRAGMENT, 0, TTL, TCP, 0, 0]);
                out.extend(from.octets());
                out.extend(to.octets());
                let sum = checksum(sum(0, &out[begin..]));
                out[begin + 10..begin + 12].copy_from_slice(&sum.to_be_bytes());
                sum_of(&[&from.octets(), &to.octets()])
            }
            (from, to) => {
                let [from, to] = [from, to].map(|ip| match ip {
                    IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
                    IpAddr::V6(ip) => ip.octets(),
                });
                out.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
                out.extend((tcp_len as u16).to_be_bytes());
                out.extend([TCP, TTL]);
                out.extend(from);
                out.extend(to);
                sum_of(&[&from, &to])
            }
        };
        self.tcp(&options, pseudo + u64::from(TCP) + tcp_len as u64, out);
    }

    fn options(&self) -> Vec<u8> {
        let mut options = Vec::new();
        if self.flags & SYN != 0 {
            let [high, low] = segment_limit(self.from.0).to_be_bytes();
            // Maximum segment size; selective acknowledgements permitted.
            options.extend([2, 4, high, low, 1, 1, 4, 2]);
        }
        if self.from.0.is_ipv6() {
            let now = (self.time / TICK) as u32;
            // Both ends use one clock here, and the echoed stamp has just arrived.
            let echo = if self.flags & ACK != 0 { now } else { 0 };
            options.extend([1, 1, 8, 10]);
            options.extend(now.to_be_bytes());
            options.extend(echo.to_be_bytes());
        }
        options
    }

    fn tcp(&self, options: &[u8], pseudo: u64, out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend(self.from.1.to_be_bytes());
        out.extend(self.to.1.to_be_bytes());
        out.extend(self.seq.to_be_bytes());
        out.extend(self.ack.to_be_bytes());
        let words = 5 + (options.len() / 4) as u8;
        out.extend([words << 4, self.flags]);
        out.extend(WINDOW.to_be_bytes());
        out.extend([0, 0, 0, 0]);
        out.extend_from_slice(options);
        out.extend_from_slice(self.payload);
        let sum = checksum(sum(pseudo, &out[begin..]));
        out[begin + 16..begin + 18].copy_from_slice(&sum.to_be_bytes());
    }
}

/// A locally administered address, one for each host.
fn hardware_address(ip: IpAddr) -> [u8; 6] {
    match ip {
        IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            [2, 0, a, b, c, d]
        }
        IpAddr::V6(ip) => {
            let [.., a, b, c, d] = ip.octets();
            [2, 6, a, b, c, d]
        }
    }
}

fn sum_of(parts: &[&[u8]]) -> u64 {
    parts.iter().fold(0, |total, part| sum(total, part))
}

/// Adds 16-bit words, the last padded by a zero (RFC 1071).
fn sum(total: u64, bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(2);
    let odd = words
        .remainder()
        .first()
        .map_or(0, |&byte| u64::from(byte) << 8);
    words.fold(total + odd, |total, word| {
        total + u64::from(u16::from_be_bytes([word[0], word[1]]))
    })
}

fn checksum(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn frame<'a>(from: &str, to: &str, flags: u8, payload: &'a [u8]) -> Frame<'a> {
        Frame {
            time: 5_000_000_000,
            from: (from.parse().unwrap(), 40000),
            to: (to.parse().unwrap(), 80),
            seq: 1,
            ack: 2,
            flags,
            id: 3,
            payload,
        }
    }

    fn bytes(frame: Frame<'_>) -> Vec<u8> {
        let mut out = vec![0xee; 3];
        frame.write(&mut out);
        out
    }

    #[test]
    fn checksums_add_up_to_zero() {
        for (from, to, addresses) in [
            ("10.0.0.1", "10.0.1.1", 26..34),
            ("fd00::1", "fd00::2", 22..54),
        ] {
            for flags in [SYN, ACK] {
                for payload in [&b""[..], b"odd", b"even"] {
                    let out = bytes(frame(from, to, flags, payload));
                    if addresses.start == 26 {
                        assert_eq!(checksum(sum(0, &out[14..34])), 0);
                    }
                    let tcp = &out[addresses.end..];
                    let pseudo = sum(0, &out[addresses.clone()]) + 6 + tcp.len() as u64;
                    assert_eq!(checksum(sum(pseudo, tcp)), 0, "{from} {flags} {payload:?}");
                }
            }
        }
    }

    #[test]
    fn a_known_ipv4_header_has_its_known_checksum() {
        // The example of RFC 1071's Wikipedia page: 45 00 00 73 … 40 11 b8 61 c0 a8 00 01 c0 a8 00 c7.
        let head = [
            0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0,
            0xc7,
        ];
        assert_eq!(checksum(sum(0, &head)), 0xb861);
    }

    #[test]
    fn lengths_and_fields_are_where_they_belong() {
        let out = bytes(frame("10.0.0.1", "10.0.1.1", ACK, b"hello"));
        assert_eq!(out.len(), 14 + 20 + 20 + 5);
        assert_eq!(out[12..14], [8, 0]);
        assert_eq!(out[16..18], 45u16.to_be_bytes());
        assert_eq!(out[34..38], [0x9c, 0x40, 0, 80]);
        assert_eq!(&out[54..], b"hello");
        let syn = bytes(frame("10.0.0.1", "10.0.1.1", SYN, b""));
        assert_eq!((syn.len(), syn[46]), (14 + 20 + 28, 7 << 4));
        let six = bytes(frame("fd00::1", "fd00::2", ACK, b"hello"));
        assert_eq!(six[18..20], 37u16.to_be_bytes());
        assert_eq!(six[74..82], [1, 1, 8, 10, 0, 0x4c, 0x4b, 0x40]);
    }
}
