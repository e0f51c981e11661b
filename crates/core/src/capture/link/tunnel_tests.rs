//! Packets inside packets.
#![allow(clippy::unwrap_used)]

use super::super::testing::{tcp, Seen, Tcp};
use super::*;
use proptest::prelude::*;

fn sent() -> Tcp {
    tcp("10.244.1.5:4000", "10.244.2.7:80")
        .seq(7)
        .ts_val(99)
        .payload(b"GET / HTTP/1.1\r\n\r\n")
}

fn sent6() -> Tcp {
    tcp("[fd00::5]:4000", "[fd00::7]:80").seq(7).payload(b"GET")
}

/// An IP packet of the nodes around `payload`.
fn outer(protocol: u8, payload: &[u8], v6: bool) -> Vec<u8> {
    let mut ip = if v6 {
        let length = (payload.len() as u16).to_be_bytes();
        [
            &[0x60, 0, 0, 0][..],
            &length,
            &[protocol, 64],
            &[1; 16],
            &[2; 16],
        ]
        .concat()
    } else {
        let length = (20 + payload.len() as u16).to_be_bytes();
        [
            &[0x45, 0][..],
            &length,
            &[0, 9, 0, 0, 64, protocol, 0, 0],
            &[1; 4],
            &[2; 4],
        ]
        .concat()
    };
    ip.extend(payload);
    ip
}

fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let length = (8 + payload.len() as u16).to_be_bytes();
    [
        &[0xc0, 0][..],
        &port.to_be_bytes(),
        &length,
        &[0, 0],
        payload,
    ]
    .concat()
}

fn vxlan(frame: &[u8]) -> Vec<u8> {
    [&[8, 0, 0, 0, 0, 0, 42, 0][..], frame].concat()
}

fn packet(ip: &[u8], captured: usize) -> Packet {
    Packet {
        time: 0,
        at: 0,
        captured: captured as u32,
        wire: ip.len() as u32,
        link: Link::Raw,
        interface: 0,
        untimed: false,
        turn: 0,
    }
}

fn read(ip: &[u8], captured: usize) -> (Parsed<Seen>, Vec<(&'static str, u64)>) {
    let packet = packet(ip, captured);
    let mut kinds = Kinds::default();
    let bytes = &ip[..captured.min(ip.len())];
    let seen = parse(&packet, bytes, 0, &mut kinds).map(|segment| Seen::of(&segment));
    (seen, kinds.tunnels().into_iter().collect())
}

fn tunnels() -> Vec<(&'static str, Vec<u8>, Tcp)> {
    let (four, six) = (sent(), sent6());
    let (ip, frame) = (four.ip(), four.ethernet());
    let gre = |head: &[u8], inner: &[u8]| [head, inner].concat();
    vec![
        ("IP in IP", outer(4, &ip, false), four.clone()),
        ("IP in IP", outer(4, &ip, true), four.clone()),
        ("IP in IP", outer(41, &six.ip(), false), six.clone()),
        (
            "GRE",
            outer(47, &gre(&[0, 0, 8, 0], &ip), false),
            four.clone(),
        ),
        (
            "GRE",
            outer(47, &gre(&[0, 0, 0x86, 0xdd], &six.ip()), true),
            six.clone(),
        ),
        (
            "GRE",
            outer(
                47,
                &gre(&[0x30, 0, 0x65, 0x58, 0, 0, 0, 1, 0, 0, 0, 2], &frame),
                false,
            ),
            four.clone(),
        ),
        (
            "GRE",
            outer(
                47,
                &gre(&[0xb0, 0, 8, 0, 1, 2, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2], &ip),
                false,
            ),
            four.clone(),
        ),
        (
            "GRE",
            outer(
                47,
                &gre(
                    &[
                        0x30, 0x81, 0x88, 0x0b, 0, 9, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0xff, 3, 0,
                        0x21,
                    ],
                    &ip,
                ),
                false,
            ),
            four.clone(),
        ),
        (
            "ERSPAN",
            outer(
                47,
                &gre(
                    &[0x10, 0, 0x88, 0xbe, 0, 0, 0, 2, 0x10, 0, 0, 0, 0, 0, 0, 0],
                    &frame,
                ),
                false,
            ),
            four.clone(),
        ),
        (
            "VXLAN",
            outer(17, &udp(4789, &vxlan(&frame)), false),
            four.clone(),
        ),
        (
            "VXLAN",
            outer(17, &udp(8472, &vxlan(&six.ethernet())), true),
            six.clone(),
        ),
        (
            "VXLAN",
            outer(17, &udp(31_000, &vxlan(&frame)), false),
            four.clone(),
        ),
        (
            "VXLAN",
            outer(
                17,
                &udp(4790, &[&[0x0c, 0, 0, 1, 0, 0, 42, 0][..], &ip].concat()),
                false,
            ),
            four.clone(),
        ),
        (
            "GENEVE",
            outer(
                17,
                &udp(
                    6081,
                    &[&[1, 0, 0x65, 0x58, 0, 0, 42, 0, 1, 1, 0, 0][..], &frame].concat(),
                ),
                false,
            ),
            four.clone(),
        ),
        (
            "GENEVE",
            outer(
                17,
                &udp(6081, &[&[0, 0, 0x08, 0x00, 0, 0, 42, 0][..], &ip].concat()),
                false,
            ),
            four,
        ),
    ]
}

#[test]
fn every_tunnel_leads_to_the_segment_inside_and_is_counted() {
    for (name, packet, sent) in tunnels() {
        assert_eq!(
            read(&packet, packet.len()),
            (Ok(sent.seen()), vec![(name, 1)])
        );
    }
}

#[test]
fn the_length_of_a_cut_packet_is_that_on_the_wire() {
    let long = sent().payload([7; 900]);
    let packet = outer(17, &udp(4789, &vxlan(&long.ethernet())), false);
    let seen = read(&packet, 130).0.unwrap();
    assert_eq!(
        (seen.len, seen.payload.len()),
        (900, 130 - 20 - 8 - 8 - 14 - 20 - 32)
    );
}

#[test]
fn tunnels_are_nested_four_times_at_most() {
    let mut packet = sent().ip();
    for depth in 1..=6u64 {
        packet = outer(4, &packet, false);
        let (seen, counts) = read(&packet, packet.len());
        assert_eq!(counts, [("IP in IP", depth.min(4))]);
        assert_eq!(seen.is_ok(), depth <= 4, "{depth}");
    }
}

#[test]
fn other_datagrams_stay_datagrams() {
    let frame = sent().ethernet();
    for (port, payload) in [
        (31_000, [&[8, 0, 0, 0, 0, 0, 42, 1][..], &frame].concat()),
        (31_000, [&[8, 0, 0, 0, 0, 0, 42, 0][..], &[0; 30]].concat()),
        (443, vec![0; 40]),
    ] {
        assert_eq!(
            read(&outer(17, &udp(port, &payload), false), 2000).0,
            Err(NotTcp::Udp),
            "{port}"
        );
    }
    let query = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03www";
    let asked = read(&outer(17, &udp(53, query), false), 2000).0.unwrap();
    assert_eq!((asked.payload, asked.len), (query.to_vec(), 16));
    let initial = b"\xc3\0\0\0\x01\x08abcdefgh";
    let begun = read(&outer(17, &udp(443, initial), false), 2000).0.unwrap();
    assert_eq!(begun.payload, initial);
    assert_eq!(
        read(&outer(50, &frame, false), 2000).0,
        Err(NotTcp::OtherIp)
    );
}

#[test]
fn the_handshakes_of_a_connection_count_once() {
    let initial = b"\xc3\0\0\0\x01\x08abcdefgh";
    let mut kinds = Kinds::default();
    for (port, payload) in [
        (443, &initial[..]),
        (443, &initial[..]),
        (8443, &initial[..]),
        (9000, &[0; 40]),
    ] {
        let ip = outer(17, &udp(port, payload), false);
        let packet = packet(&ip, ip.len());
        assert_eq!(
            parse(&packet, &ip, 0, &mut kinds).is_ok(),
            payload.len() < 40
        );
    }
    assert_eq!(kinds.quic_connections(), 2);
}

#[test]
fn rare_link_layers_lead_to_the_segment() {
    let sent = sent();
    let ip = sent.ip();
    let payload = ((ip.len() + 4) as u16).to_le_bytes();
    let big = ((ip.len() + 4) as u16).to_be_bytes();
    let frame = sent.ethernet();
    for (link, bytes) in [
        (
            239,
            [
                &[2, 0, 0, 5, 5, 0, 10, 0, b'a', 0, 0, 0][..],
                &payload,
                &[9, 0],
                &ip,
            ]
            .concat(),
        ),
        (
            239,
            [
                &[2, 0, 0, 5, 0, 5, 0, 10, b'a', 0, 0, 0][..],
                &big,
                &[0, 9],
                &ip,
            ]
            .concat(),
        ),
        (104, [&[0x0f, 0, 8, 0][..], &ip].concat()),
        (166, [&[1, 3, 0, 0x21][..], &ip].concat()),
        (51, [&[0x11, 0, 0, 1, 0, 90, 0, 0x21][..], &ip].concat()),
        (
            258,
            [&[12, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0][..], &frame].concat(),
        ),
        (
            1,
            [
                &[0; 12][..],
                &[0x88, 0x47, 0, 0, 0x11, 64, 0, 0, 0, 0],
                &frame,
            ]
            .concat(),
        ),
    ] {
        let packet = Packet {
            time: 0,
            at: 0,
            captured: bytes.len() as u32,
            wire: bytes.len() as u32,
            link: Link::from_number(link),
            interface: 0,
            untimed: false,
            turn: 0,
        };
        let kinds = &mut Kinds::default();
        let seen = parse(&packet, &bytes, 0, kinds).map(|segment| Seen::of(&segment));
        assert_eq!(seen, Ok(sent.seen()), "{link}");
    }
}

proptest! {
    #[test]
    fn any_bytes_at_all_do_no_harm(
        which in 0..15usize, at in 0..200usize, with in proptest::collection::vec(any::<u8>(), 0..40), cut in 0..220usize
    ) {
        let mut packet = tunnels().swap_remove(which).1;
        for (place, byte) in packet.iter_mut().skip(at).zip(with) {
            *place = byte;
        }
        let _ = read(&packet, cut.min(packet.len()));
    }
}
