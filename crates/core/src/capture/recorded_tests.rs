//! Recorded sessions of real servers. The expected exchanges are stored beside them, and were
//! compared with tshark and the programs that made them (`tests/golden/captures/README.md`).
#![allow(clippy::unwrap_used, clippy::panic)]

use super::flow::Flow;
use super::ledger::Ledger;
use super::merge::{segments, SourceOptions};
use super::names::Namer;
use super::servers::Servers;
use super::tls::Keys;
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
    let flow = followed(&format!("{name}.pcap"), Keys::default(), snap);
    counted(&flow)
}

fn followed(file: &str, keys: Keys, snap: usize) -> Flow {
    let mut flow = Flow::new(Ledger::new(Servers::default(), Namer::default()));
    flow.ledger.keys = keys.clone();
    let options = SourceOptions {
        keys,
        ..SourceOptions::default()
    };
    segments(
        &[folder().join(file)],
        &options,
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
    flow
}

fn counted(flow: &Flow) -> String {
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
    hold(name, &exchanges(name, usize::MAX));
}

fn hold(name: &str, found: &str) {
    let path = folder().join(format!("{name}.txt"));
    if std::env::var_os("TAILRACE_GOLDEN").is_some_and(|value| value == "rewrite") {
        std::fs::write(&path, found).unwrap();
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

fn tls_keys() -> Keys {
    Keys::of_file(&folder().join("tls.keys")).unwrap()
}

#[test]
fn tls_with_its_secrets() {
    let flow = followed("tls.pcap", tls_keys(), usize::MAX);
    hold("tls", &counted(&flow));
    let servers = flow.ledger.servers.all().iter();
    let opaque: Vec<_> = servers.map(|server| &server.tally.opaque).collect();
    assert!(
        opaque.iter().all(|reasons| reasons.is_empty()),
        "{opaque:?}"
    );
}

#[test]
fn tls_without_its_secrets() {
    let flow = followed("tls.pcap", Keys::default(), usize::MAX);
    hold("tls-closed", &counted(&flow));
    let shop = flow
        .ledger
        .servers
        .all()
        .iter()
        .find(|server| server.endpoint.port == 8443);
    let asked = shop.unwrap().tally.tls.iter();
    let asked: Vec<_> = asked
        .map(|(asked, count)| format!("{count} {asked}"))
        .collect();
    assert_eq!(
        asked,
        ["2 shop.test (h2, http/1.1)", "6 shop.test (http/1.1)"]
    );
}

/// The client waits for the handshake, which is no part of its request's service.
#[test]
fn the_handshake_of_tls_is_not_service() {
    for keys in [tls_keys(), Keys::default()] {
        let flow = followed("tls.pcap", keys, usize::MAX);
        let first = flow
            .ledger
            .visits
            .iter()
            .find(|visit| visit.connected != crate::record::NO_TIME)
            .unwrap();
        let [until_arrival, service] =
            [first.arrival - first.sent, first.departure - first.arrival];
        assert!(
            until_arrival > service,
            "{until_arrival} ns, then {service} ns"
        );
    }
}

#[test]
fn secrets_in_the_capture_itself() {
    let flow = followed("tls-secrets.pcapng", Keys::default(), usize::MAX);
    hold("tls-secrets", &counted(&flow));
}

#[test]
fn records_that_are_cut_stay_closed_and_later_ones_do_not() {
    let cut = counted(&followed("tls.pcap", tls_keys(), 1000));
    for line in [
        "1 | GET /gone | 410",
        "1 | GET /missing | 404",
        "1 | SHOW | ok",
    ] {
        assert!(cut.lines().any(|other| other == line), "{line}:\n{cut}");
    }
    assert!(cut.contains("GET /{id}.html | unknown"), "{cut}");
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
fn memcached_in_both_forms() {
    hold_against_file("memcached");
}

#[test]
fn mongodb() {
    hold_against_file("mongodb");
}

#[test]
fn kafka() {
    hold_against_file("kafka");
}

#[test]
fn cassandra_in_versions_5_and_4() {
    hold_against_file("cassandra");
}

#[test]
fn dns_by_dnsmasq() {
    hold_against_file("dns");
}

#[test]
fn a_lost_query_is_sent_again_by_the_c_library() {
    let flow = followed("dns.pcap", Keys::default(), usize::MAX);
    let lookups = flow.ledger.lookups;
    let counts = [lookups.queries, lookups.repeated, lookups.unanswered];
    assert_eq!(counts, [3, 1, 0]);
    assert_eq!(lookups.longest_ns / 100_000_000, 50);
    let lost: Vec<_> = flow
        .ledger
        .visits
        .iter()
        .filter(|visit| visit.data_drops > 0)
        .collect();
    let [lost] = lost[..] else { panic!("{lost:?}") };
    let times = [lost.arrival - lost.sent, lost.departure - lost.arrival];
    assert!(
        times[0] / 100_000_000 == 50 && times[1] < 100_000_000,
        "{times:?}"
    );
}

#[test]
fn http3_by_aioquic() {
    let keys = Keys::of_file(&folder().join("quic.keys")).unwrap();
    hold("quic", &counted(&followed("quic.pcap", keys, usize::MAX)));
}

#[test]
fn ldap_by_openldap() {
    hold_against_file("ldap");
}

#[test]
fn amqp_by_rabbitmq() {
    hold_against_file("amqp");
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
