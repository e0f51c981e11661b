#![allow(clippy::unwrap_used)]

use super::super::testing::{tcp, Seen, Tcp};
use super::super::ACK;
use super::*;

fn packet(link: u16, bytes: &[u8]) -> Packet {
    let wire = bytes.len() as u32;
    let link = Link::from_number(link);
    Packet {
        time: 0,
        at: 0,
        captured: wire,
        wire,
        link,
        interface: 0,
        untimed: false,
        turn: 0,
    }
}

fn seen(link: u16, bytes: &[u8]) -> Result<Seen, NotTcp> {
    let kinds = &mut Kinds::default();
    parse(&packet(link, bytes), bytes, 0, kinds).map(|segment| Seen::of(&segment))
}

fn v4() -> Tcp {
    tcp("10.0.0.1:4000", "10.0.0.2:80")
        .seq(7)
        .ts_val(99)
        .payload(b"GET / HTTP/1.1\r\n\r\n")
}

fn v6() -> Tcp {
    tcp("[2001:db8::1]:4000", "[2001:db8::2]:80")
        .seq(7)
        .ts_val(99)
        .payload(b"GET / HTTP/1.1\r\n\r\n")
}

fn ethertype(packet: &Tcp) -> [u8; 2] {
    if packet.from.is_ipv4() {
        [8, 0]
    } else {
        [0x86, 0xdd]
    }
}

#[test]
fn every_link_layer_leads_to_the_segment() {
    for sent in [v4(), v6()] {
        let (ip, kind) = (sent.ip(), ethertype(&sent));
        let family: u8 = if sent.from.is_ipv4() { 2 } else { 30 };
        let ppp: [u8; 2] = if sent.from.is_ipv4() {
            [0, 0x21]
        } else {
            [0, 0x57]
        };
        let heads: [(u16, Vec<u8>); 14] = [
            (1, [&[0; 12][..], &kind].concat()),
            (1, [&[0; 12][..], &[0x81, 0, 0, 5], &kind].concat()),
            (
                1,
                [&[0; 12][..], &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6], &kind].concat(),
            ),
            (
                1,
                [&[0; 12][..], &[0, 60, 0xaa, 0xaa, 3, 0, 0, 0], &kind].concat(),
            ),
            (
                1,
                [&[0; 12][..], &[0x88, 0x64, 0x11, 0, 0, 1, 0, 80], &ppp].concat(),
            ),
            (
                1,
                [&[0; 12][..], &[0x88, 0x47, 0, 0, 0x10, 64, 0, 0, 0x11, 64]].concat(),
            ),
            (101, Vec::new()),
            (12, Vec::new()),
            (0, vec![family, 0, 0, 0]),
            (108, vec![0, 0, 0, family]),
            (113, [&[0; 14][..], &kind].concat()),
            (113, [&[0; 14][..], &[0x81, 0, 0, 5], &kind].concat()),
            (276, [&kind[..], &[0; 18]].concat()),
            (9, [&[0xff, 3][..], &ppp].concat()),
        ];
        for (link, head) in heads {
            let bytes = [&head[..], &ip].concat();
            assert_eq!(seen(link, &bytes).unwrap(), sent.seen(), "{link} {head:?}");
        }
    }
}

#[test]
fn cooked_packets_of_version_two_name_their_interface() {
    let bytes = [&[8, 0, 0, 0, 0, 0, 0, 3][..], &[0; 12], &v4().ip()].concat();
    assert_eq!(seen(276, &bytes).unwrap().interface, 3);
}

#[test]
fn padding_is_no_payload() {
    let ack = tcp("10.0.0.1:4000", "10.0.0.2:80");
    let mut bytes = ack.ethernet();
    bytes.resize(60, 0);
    let got = seen(1, &bytes).unwrap();
    assert_eq!((got.len, got.payload.len()), (0, 0));
}

#[test]
fn padding_that_the_length_counts_is_no_payload() {
    let zeros = tcp("10.0.0.1:4000", "10.0.0.2:80").payload([0; 6]);
    assert_eq!(seen(1, &zeros.ethernet()).unwrap().len, 0);
    let mut offloaded = tcp("10.0.0.1:4000", "10.0.0.2:80").ethernet();
    offloaded.resize(60, 0);
    offloaded[16..18].fill(0);
    assert_eq!(seen(1, &offloaded).unwrap().len, 0);
    let pushed = zeros.clone().flags(ACK | PSH);
    let written = zeros.clone().payload([0, 0, 0, 0, 0, 1]);
    let long = zeros.payload([0; 7]);
    for data in [pushed, written, long] {
        assert_eq!(seen(1, &data.ethernet()).unwrap().len, data.len);
    }
}

#[test]
fn a_cut_packet_keeps_its_length_on_the_wire() {
    let sent = v4().payload([7; 1400]);
    let whole = sent.ethernet();
    for kept in [54, 60, 66, 96] {
        let mut packet = packet(1, &whole);
        packet.captured = kept;
        let got =
            Seen::of(&segment(&packet, &whole[..kept as usize], 0, &mut Kinds::default()).unwrap());
        assert_eq!(
            (got.len, got.seq, got.payload.len()),
            (1400, 7, (kept as usize).saturating_sub(66))
        );
        // The option begins at 54 + 2, its value at 58: four bytes must be there.
        assert_eq!(got.ts_val, (kept >= 62).then_some(99), "{kept}");
    }
    assert_eq!(seen(1, &whole[..48]), Err(NotTcp::Cut));
}

#[test]
fn the_timestamp_is_found_among_other_options() {
    let options = [
        2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 42, 0, 0, 0, 0, 1, 3, 3, 7,
    ];
    assert_eq!(timestamp(&options), Some((42, Some(0))));
    assert_eq!(timestamp(&options[..12]), Some((42, None)));
    assert_eq!(timestamp(&options[..11]), None);
    assert_eq!(
        timestamp(&[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 9]),
        Some((1, Some(9)))
    );
    assert_eq!(timestamp(&[0, 8, 10, 0, 0, 0, 1]), None);
    assert_eq!(timestamp(&[5, 0, 5, 0, 5]), None);
}

#[test]
fn a_block_before_the_acknowledged_bytes_tells_of_a_duplicate() {
    let block = |end: u8| [1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, end];
    assert!(tells_of_a_duplicate(&block(7), 7));
    assert!(!tells_of_a_duplicate(&block(8), 7));
    for cut in 0..12 {
        assert!(!tells_of_a_duplicate(&block(7)[..cut], 7), "{cut}");
    }
    assert!(!tells_of_a_duplicate(
        &[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 1],
        7
    ));
}

#[test]
fn a_total_length_of_zero_means_segmentation_offload() {
    let sent = v4().payload([7; 3000]);
    let mut bytes = sent.ethernet();
    bytes[16..18].copy_from_slice(&[0, 0]);
    assert_eq!(seen(1, &bytes).unwrap().len, 3000);
    let sent = v6().payload([7; 3000]);
    let mut bytes = sent.ethernet();
    bytes[18..20].copy_from_slice(&[0, 0]);
    assert_eq!(seen(1, &bytes).unwrap().len, 3000);
}

#[test]
fn ipv4_options_are_skipped() {
    let sent = v4();
    let mut ip = sent.ip();
    ip[0] = 0x46;
    ip.splice(20..20, [1, 1, 1, 0]);
    let total = (ip.len() as u16).to_be_bytes();
    ip[2..4].copy_from_slice(&total);
    assert_eq!(seen(101, &ip).unwrap(), sent.seen());
}

#[test]
fn ipv6_extension_headers_are_skipped() {
    let sent = v6();
    let mut ip = sent.ip();
    // Hop-by-hop, then the first fragment of a packet, then TCP.
    ip.splice(40..40, [44, 0, 1, 4, 0, 0, 0, 0, 6, 0, 0, 1, 0, 0, 0, 9]);
    ip[6] = 0;
    let payload = ((ip.len() - 40) as u16).to_be_bytes();
    ip[4..6].copy_from_slice(&payload);
    assert_eq!(seen(101, &ip).unwrap(), sent.seen());
}

#[test]
fn later_fragments_are_counted_apart() {
    let mut ip = v4().ip();
    ip[6..8].copy_from_slice(&[0x20, 0]);
    assert!(seen(101, &ip).is_ok());
    ip[6..8].copy_from_slice(&[0, 0xb9]);
    assert_eq!(seen(101, &ip), Err(NotTcp::Fragment));
}

#[test]
fn other_protocols_are_counted_by_kind() {
    let with_protocol = |protocol: u8| {
        let mut ip = v4().ip();
        ip[9] = protocol;
        seen(101, &ip)
    };
    assert_eq!(with_protocol(17), Err(NotTcp::Udp));
    assert_eq!(with_protocol(1), Err(NotTcp::Icmp));
    assert_eq!(with_protocol(132), Err(NotTcp::Sctp));
    assert_eq!(with_protocol(50), Err(NotTcp::OtherIp));
    assert_eq!(
        seen(1, &[&[0; 12][..], &[8, 6], &[0; 28]].concat()),
        Err(NotTcp::Arp)
    );
    assert_eq!(
        seen(1, &[&[0; 12][..], &[0x88, 0xcc], &[0; 28]].concat()),
        Err(NotTcp::NoIp)
    );
    assert_eq!(seen(127, &v4().ip()), Err(NotTcp::UnknownLink));
    assert_eq!(seen(1, &[]), Err(NotTcp::Cut));
}

#[test]
fn lengths_that_contradict_each_other_are_malformed() {
    for (at, value) in [(0, 0x41), (3, 19), (32, 0x40), (32, 0xf0), (0, 0x95)] {
        let mut ip = tcp("10.0.0.1:4000", "10.0.0.2:80").payload([1; 10]).ip();
        ip[at] = value;
        if at == 3 {
            ip[2] = 0;
        }
        assert_eq!(seen(101, &ip), Err(NotTcp::Malformed), "{at} {value}");
    }
}

#[test]
fn names_are_in_the_order_of_the_kinds() {
    assert_eq!(NOT_TCP[NotTcp::UnknownLink as usize], "unknown link type");
    assert_eq!(NOT_TCP[NotTcp::Quic as usize], "QUIC handshake");
    assert_eq!(NOT_TCP[NotTcp::Malformed as usize], "malformed headers");
}
