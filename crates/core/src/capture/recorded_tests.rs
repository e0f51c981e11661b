//! Recorded sessions of real servers. The expected exchanges are stored beside them, and were
//! compared with tshark and the programs that made them (`tests/golden/captures/README.md`).
#![allow(clippy::unwrap_used, clippy::panic)]

use super::flow::Flow;
use super::ledger::Ledger;
use super::merge::{segments, SourceOptions};
use super::names::Namer;
use super::servers::Servers;
use super::Segment;
use std::collections::BTreeMap;
use std::path::PathBuf;

fn folder() -> PathBuf {
    PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/golden/captures"
    ))
}

/// How often each interaction had each outcome, one a line, with at most `snap` captured bytes of a
/// payload.
fn exchanges(name: &str, snap: usize) -> String {
    let mut flow = Flow::new(Ledger::new(Servers::default(), Namer::default()));
    let path = folder().join(format!("{name}.pcap"));
    segments(
        &[path],
        &SourceOptions::default(),
        &mut |_, _| Ok(()),
        |segment| {
            let payload = &segment.payload[..segment.payload.len().min(snap)];
            flow.segment(&Segment {
                payload,
                ..segment.clone()
            });
            Ok(())
        },
    )
    .unwrap();
    flow.finish();
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    let names = &flow.ledger.names;
    for visit in flow.ledger.visits.iter().filter(|visit| visit.served) {
        let interaction = names
            .interactions
            .get(visit.interaction as usize)
            .map_or("-", String::as_str);
        *counts
            .entry(format!(
                "{interaction} | {}",
                names.statuses[visit.status as usize]
            ))
            .or_default() += 1;
    }
    counts
        .into_iter()
        .map(|(line, count)| format!("{count} | {line}\n"))
        .collect()
}

fn total(exchanges: &str) -> i32 {
    exchanges
        .lines()
        .map(|line| line.split(' ').next().unwrap().parse::<i32>().unwrap())
        .sum()
}

fn hold_against_file(name: &str) {
    let path = folder().join(format!("{name}.txt"));
    let found = exchanges(name, usize::MAX);
    if std::env::var_os("TAILRACE_GOLDEN").is_some_and(|value| value == "rewrite") {
        std::fs::write(&path, &found).unwrap();
    }
    assert_eq!(
        found,
        std::fs::read_to_string(&path).unwrap(),
        "{}",
        path.display()
    );
}

#[test]
fn http_by_nginx() {
    hold_against_file("http");
}

#[test]
fn http2_by_apache() {
    hold_against_file("http2");
}

#[test]
fn grpc() {
    hold_against_file("grpc");
}

#[test]
fn fastcgi_by_php_fpm() {
    hold_against_file("fastcgi");
}

#[test]
fn redis() {
    hold_against_file("redis");
}

#[test]
fn postgres_by_psycopg() {
    hold_against_file("postgres");
}

#[test]
fn mariadb_with_and_without_eof_packets() {
    hold_against_file("mysql");
}

#[test]
fn cut_to_thirty_bytes_the_exchanges_are_as_many() {
    // Exchanges that cannot be separated without the bytes: HTTP pipelined in one segment (three
    // more GET), Redis likewise (three more commands); requests and responses of HTTP/2 that are
    // sent together; a pipeline of PostgreSQL in several segments, whose one Sync is not seen,
    // counts as three.
    for (name, more) in [
        ("http", -3),
        ("http2", -19),
        ("grpc", -2),
        ("fastcgi", 0),
        ("mysql", 0),
        ("postgres", 2),
        ("redis", -3),
    ] {
        let (whole, cut) = (exchanges(name, usize::MAX), exchanges(name, 30));
        assert_eq!(total(&cut), total(&whole) + more, "{name}:\n{cut}\n{whole}");
    }
}
