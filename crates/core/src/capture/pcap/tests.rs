#![allow(clippy::unwrap_used)]

use super::super::testing::{pcap, pcap_styled, read, tcp, PcapStyle, Record, Seen, Tcp, MS, S};
use super::*;

const BEGIN: i64 = 1_700_000_000 * S;

fn packets(count: u32) -> Vec<Tcp> {
    let packet = |i| {
        tcp("10.0.0.1:4000", "10.0.0.2:80")
            .at(BEGIN + i64::from(i) * MS)
            .seq(i)
            .payload([7; 300])
    };
    (0..count).map(packet).collect()
}

fn records(packets: &[Tcp]) -> Vec<Record> {
    packets.iter().map(Tcp::record).collect()
}

fn seen(packets: &[Tcp]) -> Vec<Seen> {
    packets.iter().map(Tcp::seen).collect()
}

#[test]
fn both_byte_orders_and_both_resolutions_are_read() {
    let sent = packets(5);
    for (big_endian, nanoseconds) in [(false, false), (false, true), (true, false), (true, true)] {
        let style = PcapStyle {
            big_endian,
            nanoseconds,
            ..PcapStyle::default()
        };
        let (got, report) = read(&pcap_styled(style, &records(&sent))).unwrap();
        assert_eq!(got, seen(&sent));
        assert_eq!(
            (report.packets, report.segments, report.lost_bytes),
            (5, 5, 0)
        );
        assert_eq!(
            (report.begin, report.end),
            (Some(BEGIN), Some(BEGIN + 4 * MS))
        );
    }
}

fn later(packets: &[Tcp], days: i64) -> Vec<Tcp> {
    let time = BEGIN + days * 86_400 * S;
    packets
        .iter()
        .map(|packet| packet.clone().at(time))
        .collect()
}

#[test]
fn files_that_follow_one_another_are_one_capture() {
    let (sent, other) = (packets(9), later(&packets(9), 90));
    let style = PcapStyle {
        big_endian: true,
        nanoseconds: false,
        ..PcapStyle::default()
    };
    let (first, second) = (pcap(&records(&sent)), pcap_styled(style, &records(&other)));
    for empty in [0, 1, 3] {
        let files = [
            pcap(&[]).repeat(empty),
            first.clone(),
            pcap(&[]),
            second.clone(),
        ];
        let (got, report) = read(&files.concat()).unwrap();
        assert_eq!(got, [seen(&sent), seen(&other)].concat(), "{empty}");
        assert_eq!((report.lost_bytes, report.losses.len()), (0, 0), "{empty}");
    }
}

#[test]
fn a_file_torn_before_the_next_one_costs_its_last_record_only() {
    let (sent, other) = (packets(9), later(&packets(9), 90));
    let (first, second) = (pcap(&records(&sent)), pcap(&records(&other)));
    let record = (first.len() - HEADER) / 9;
    for cut in (1..record).step_by(5) {
        for following in [second.clone(), [pcap(&[]), second.clone()].concat()] {
            let torn = &first[..first.len() - cut];
            let (got, report) = read(&[torn, &following].concat()).unwrap();
            assert_eq!(got, [seen(&sent[..8]), seen(&other)].concat(), "{cut}");
            assert_eq!(report.lost_bytes, (record - cut) as u64, "{cut}");
        }
    }
}

#[test]
fn a_packet_that_holds_a_capture_is_a_packet() {
    let inner = pcap(&records(&packets(2)));
    let outer: Vec<Tcp> = packets(9)
        .into_iter()
        .map(|packet| packet.payload(inner.clone()))
        .collect();
    let (got, report) = read(&pcap(&records(&outer))).unwrap();
    assert_eq!((got, report.lost_bytes), (seen(&outer), 0));
}

#[test]
fn a_further_file_of_a_link_type_that_is_not_read_counts_as_such() {
    let style = PcapStyle {
        link: 127,
        ..PcapStyle::default()
    };
    let sent = packets(9);
    let other = later(&sent, 90);
    let odd = pcap_styled(style, &records(&sent));
    let files = [pcap(&records(&sent)), odd, pcap(&records(&other))];
    let (got, report) = read(&files.concat()).unwrap();
    assert_eq!(got, [seen(&sent), seen(&other)].concat());
    assert_eq!(report.not_tcp.values().sum::<u64>(), 9);
}

#[test]
fn modified_kinds_are_refused_in_words() {
    let mut bytes = pcap(&[]);
    bytes[..4].copy_from_slice(&[0x34, 0xcd, 0xb2, 0xa1]);
    let error = read(&bytes).unwrap_err().to_string();
    assert!(
        error.contains("Kuznetsov") && error.contains("editcap"),
        "{error}"
    );
}

#[test]
fn a_link_type_that_is_not_read_is_refused_in_words() {
    let style = PcapStyle {
        link: 127,
        ..PcapStyle::default()
    };
    let error = read(&pcap_styled(style, &[])).unwrap_err().to_string();
    assert!(
        error.contains("link type 127") && error.contains("Ethernet"),
        "{error}"
    );
}

#[test]
fn what_is_no_capture_is_refused_in_words() {
    assert!(read(b"").unwrap_err().to_string().contains("empty"));
    assert!(read(b"time,place,metric\n1,2,3\n")
        .unwrap_err()
        .to_string()
        .contains("no packet capture"));
    assert!(read(&pcap(&[])[..20])
        .unwrap_err()
        .to_string()
        .contains("cut after 20"));
}

#[test]
fn a_file_without_packets_is_a_capture() {
    let (got, report) = read(&pcap(&[])).unwrap();
    assert_eq!((got.len(), report.packets, report.losses.len()), (0, 0, 0));
}

#[test]
fn a_cut_file_yields_what_came_before_and_where_it_ends() {
    let sent = packets(10);
    let bytes = pcap(&records(&sent));
    let (got, report) = read(&bytes[..bytes.len() - 7]).unwrap();
    assert_eq!(got, seen(&sent[..9]));
    let record = (bytes.len() - HEADER) / 10;
    assert_eq!(report.losses[0].offset, (HEADER + 9 * record) as u64);
    assert_eq!(report.losses[0].bytes, record as u64 - 7);
    assert!(report.losses[0].reason.contains("middle of a record"));
}

#[test]
fn insane_lengths_and_torn_headers_cost_only_their_record() {
    let sent = packets(20);
    let clean = pcap(&records(&sent));
    let record = (clean.len() - HEADER) / 20;
    let at = HEADER + 10 * record;
    for (offset, value) in [(8, [0xff; 4]), (8, [0xff, 0xff, 3, 0]), (4, [0xff; 4])] {
        let mut bytes = clean.clone();
        bytes[at + offset..at + offset + 4].copy_from_slice(&value);
        let (got, report) = read(&bytes).unwrap();
        let kept = [seen(&sent[..10]), seen(&sent[11..])].concat();
        assert_eq!(got, kept, "{offset} {value:?}");
        assert_eq!(
            (report.losses[0].offset, report.losses[0].bytes),
            (at as u64, record as u64)
        );
    }
}

#[test]
fn a_fraction_of_more_than_a_second_is_added_up() {
    let sent = packets(20);
    for (nanoseconds, carried) in [(false, 1_000_250_u32), (true, 2_000_000_007)] {
        let style = PcapStyle {
            nanoseconds,
            ..PcapStyle::default()
        };
        let bytes = pcap_styled(style, &records(&sent));
        let record = (bytes.len() - HEADER) / 20;
        for which in [vec![10], vec![19], (0..20).collect()] {
            let mut bytes = bytes.clone();
            for number in &which {
                let at = HEADER + number * record + 4;
                bytes[at..at + 4].copy_from_slice(&carried.to_le_bytes());
            }
            let (got, report) = read(&bytes).unwrap();
            assert_eq!((got.len(), report.lost_bytes), (20, 0), "{which:?}");
            let unit = if nanoseconds { 1 } else { 1000 };
            let late = BEGIN + i64::from(carried) * unit;
            let times = got.iter().filter(|packet| packet.time == late);
            assert_eq!(times.count(), which.len(), "{which:?}");
        }
    }
}

#[test]
fn a_packet_a_week_is_no_damage() {
    let mut sent = packets(20);
    for (week, packet) in (0..).zip(&mut sent) {
        packet.time += week * 7 * APART * S;
    }
    let (got, report) = read(&pcap(&records(&sent))).unwrap();
    assert_eq!((got, report.lost_bytes), (seen(&sent), 0));
    assert_eq!(report.times_repaired, 0);
}

#[test]
fn a_length_too_short_cuts_its_packet_and_loses_the_rest_of_it() {
    let sent = packets(20);
    let mut bytes = pcap(&records(&sent));
    let record = (bytes.len() - HEADER) / 20;
    let at = HEADER + 10 * record;
    bytes[at + 8..at + 12].copy_from_slice(&256u32.to_le_bytes());
    let (got, report) = read(&bytes).unwrap();
    assert_eq!(got.len(), 20);
    assert_eq!((got[10].len, got[10].payload.len()), (300, 202));
    assert_eq!(
        (report.losses[0].offset, report.lost_bytes),
        ((at + RECORD + 256) as u64, 98)
    );
}

#[test]
fn bytes_missing_anywhere_cost_little() {
    let sent = packets(40);
    let clean = pcap(&records(&sent));
    let record = (clean.len() - HEADER) / 40;
    for at in 0..record {
        for missing in [1, 2, 4, 8, 12] {
            let mut bytes = clean.clone();
            bytes.drain(HEADER + 10 * record + at..HEADER + 10 * record + at + missing);
            let (got, _) = read(&bytes).unwrap();
            assert!(
                got.len() >= 38,
                "{} left without {missing} bytes at {at}",
                got.len()
            );
        }
    }
}

#[test]
fn a_hole_of_zeros_is_skipped() {
    let sent = packets(20);
    let clean = pcap(&records(&sent));
    let at = HEADER + 10 * (clean.len() - HEADER) / 20;
    let bytes = [&clean[..at], &[0; 4096], &clean[at..]].concat();
    let (got, report) = read(&bytes).unwrap();
    assert_eq!(got, seen(&sent));
    assert_eq!(
        (report.losses[0].offset, report.lost_bytes),
        (at as u64, 4096)
    );
}

#[test]
fn odd_but_consistent_files_are_believed() {
    let mut odd = records(&packets(20));
    odd.iter_mut().for_each(|record| record.wire = 60);
    let style = PcapStyle {
        snaplen: 96,
        ..PcapStyle::default()
    };
    let (got, report) = read(&pcap_styled(style, &odd)).unwrap();
    assert_eq!((got.len(), report.lost_bytes), (20, 0));
}

#[test]
fn packets_days_apart_are_believed() {
    let mut sent = packets(20);
    sent[10..]
        .iter_mut()
        .for_each(|packet| packet.time += 10 * 86_400 * S);
    let (got, report) = read(&pcap(&records(&sent))).unwrap();
    assert_eq!(
        (got, report.lost_bytes, report.times_repaired),
        (seen(&sent), 0, 0)
    );
}
