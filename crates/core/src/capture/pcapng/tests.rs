#![allow(clippy::unwrap_used)]

use super::super::testing::{read, tcp, PcapNg, Tcp, MS, S, US};

const BEGIN: i64 = 1_700_000_000 * S;

fn packet(i: i64) -> Tcp {
    tcp("10.0.0.1:4000", "10.0.0.2:80")
        .at(BEGIN + i * MS)
        .seq(i as u32)
        .payload([7; 100])
}

fn micros(packet: &Tcp) -> u64 {
    (packet.time / US) as u64
}

#[test]
fn sections_of_both_byte_orders_follow_each_other() {
    let (a, b) = (packet(1), packet(2));
    let file = PcapNg::new(false)
        .interface(1, 0, &[])
        .packet(0, micros(&a), &a.record());
    let file = file
        .section(true)
        .interface(1, 0, &[])
        .packet(0, micros(&b), &b.record());
    let (got, report) = read(&file.bytes).unwrap();
    assert_eq!(got, [a.seen(), b.seen()]);
    assert_eq!(
        (report.format, report.lost_bytes, report.interfaces.len()),
        ("pcapng", 0, 1)
    );
}

#[test]
fn resolution_and_offset_of_an_interface_count() {
    let resolutions: [(u8, u64); 5] = [
        (6, 1_000_000),
        (9, 1_000_000_000),
        (3, 1000),
        (0x80 | 20, 1 << 20),
        (0, 1),
    ];
    for (resolution, per_second) in resolutions {
        let sent = packet(0).at(1000 * S);
        let offset = 900i64.to_le_bytes();
        let plain = PcapNg::new(false)
            .interface(1, 0, &[(9, &[resolution])])
            .packet(0, 1000 * per_second, &sent.record());
        assert_eq!(read(&plain.bytes).unwrap().0, [sent.seen()], "{resolution}");
        let options: [(u16, &[u8]); 2] = [(9, &[resolution]), (14, &offset)];
        let shifted = PcapNg::new(false).interface(1, 0, &options).packet(
            0,
            100 * per_second,
            &sent.record(),
        );
        assert_eq!(
            read(&shifted.bytes).unwrap().0,
            [sent.seen()],
            "{resolution}"
        );
    }
}

#[test]
fn absurd_resolutions_and_times_stay_within_bounds() {
    for resolution in [127, 255, 40, 20] {
        let offset = i64::MIN.to_le_bytes();
        let options: [(u16, &[u8]); 2] = [(9, &[resolution]), (14, &offset)];
        let file =
            PcapNg::new(false)
                .interface(1, 0, &options)
                .packet(0, u64::MAX, &packet(0).record());
        assert_eq!(read(&file.bytes).unwrap().0[0].time, 0);
    }
    let file = PcapNg::new(false)
        .interface(1, 0, &[])
        .packet(0, u64::MAX, &packet(0).record());
    assert_eq!(read(&file.bytes).unwrap().0[0].time, super::TIME_MAX);
}

#[test]
fn simple_and_obsolete_packets_are_read() {
    let sent = packet(3);
    let bytes = sent.ethernet();
    let simple = [&(bytes.len() as u32).to_le_bytes()[..], &bytes].concat();
    let (high, low) = ((micros(&sent) >> 32) as u32, micros(&sent) as u32);
    let mut old = vec![0, 0, 0, 0];
    [high, low, bytes.len() as u32, bytes.len() as u32]
        .iter()
        .for_each(|word| old.extend(word.to_le_bytes()));
    old.extend(&bytes);
    let file = PcapNg::new(false)
        .interface(1, 0, &[])
        .block(2, &old)
        .block(3, &simple);
    let (got, report) = read(&file.bytes).unwrap();
    assert_eq!(got, [sent.seen(), sent.seen()]);
    assert_eq!(report.untimed, 1);
}

#[test]
fn a_simple_packet_ends_at_the_snap_length() {
    let sent = packet(3).payload([7; 101]);
    let simple = [&155u32.to_le_bytes()[..], &sent.ethernet()[..97]].concat();
    let (got, _) = read(
        &PcapNg::new(false)
            .interface(1, 97, &[])
            .block(3, &simple)
            .bytes,
    )
    .unwrap();
    assert_eq!((got[0].len, got[0].payload.len()), (101, 43));
}

#[test]
fn unknown_blocks_are_skipped_and_drop_counters_reported() {
    let sent = packet(1);
    let file = PcapNg::new(false)
        .interface(1, 0, &[(2, b"eth0")])
        .block(0x0bad_f00d, &[1; 50]);
    let dropped = file.options(&[(5, &7u64.to_le_bytes()), (7, &9u64.to_le_bytes())]);
    let statistics = [&[0; 12][..], &dropped].concat();
    let file = file
        .packet(0, micros(&sent), &sent.record())
        .block(5, &statistics);
    let (got, report) = read(&file.bytes).unwrap();
    assert_eq!(got, [sent.seen()]);
    let interface = &report.interfaces[0];
    assert_eq!(
        (
            interface.name.as_str(),
            interface.dropped_interface,
            interface.dropped_system
        ),
        ("eth0", Some(7), Some(9))
    );
}

#[test]
fn damage_costs_only_its_block() {
    let sent: Vec<Tcp> = (0..20).map(packet).collect();
    let head = PcapNg::new(false).interface(1, 0, &[]);
    let begin = head.bytes.len();
    let clean = sent
        .iter()
        .fold(head, |file, p| file.packet(0, micros(p), &p.record()))
        .bytes;
    let block = (clean.len() - begin) / 20;
    let at = begin + 10 * block;
    for (offset, value) in [
        (4, 0xffff_ffff),
        (4, 8),
        (4, 0x0100_0000),
        (4, 40u32),
        (0, 6),
    ] {
        let mut bytes = clean.clone();
        bytes[at + offset..at + offset + 4].copy_from_slice(&value.to_le_bytes());
        let kept = sent
            .iter()
            .enumerate()
            .filter(|(i, _)| *i != 10 || offset == 0)
            .map(|(_, p)| p.seen());
        let (got, report) = read(&bytes).unwrap();
        assert_eq!(got, kept.collect::<Vec<_>>(), "{offset} {value}");
        assert_eq!(
            report.lost_bytes,
            if offset == 0 { 0 } else { block as u64 }
        );
    }
}

#[test]
fn a_wrong_trailer_alone_is_forgiven() {
    let sent: Vec<Tcp> = (0..3).map(packet).collect();
    let head = PcapNg::new(false).interface(1, 0, &[]);
    let file = head.packet(0, micros(&sent[0]), &sent[0].record());
    let end = file.bytes.len();
    let mut bytes = sent[1..]
        .iter()
        .fold(file, |file, p| file.packet(0, micros(p), &p.record()))
        .bytes;
    bytes[end - 1] ^= 1;
    assert_eq!(read(&bytes).unwrap().0.len(), 3);
}

#[test]
fn packets_of_an_unknown_interface_are_lost_and_counted() {
    let file = PcapNg::new(false)
        .interface(1, 0, &[])
        .packet(3, 0, &packet(1).record());
    let (got, report) = read(&file.bytes).unwrap();
    assert_eq!(got.len(), 0);
    assert!(report.losses[0].reason.contains("interface"));
}
