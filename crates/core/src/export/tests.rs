//! The round trip: visits → packets → the decoder → the same visits.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::*;
use serde_json::json;

use super::names::Names;
use super::report::Report;
use super::stay::{self, Stay};
use super::*;
use crate::capture::decode;
use crate::record::rows::Event;
use crate::record::tables::{EventWriter, TablesSink};
use crate::record::{self, Visit, VisitSink, NO_ID, NO_NAME, NO_TIME};

const MS: i64 = 1_000_000;
const S: i64 = 1_000_000_000;
const BEGIN: i64 = 1_000_000 * S;

/// A folder of its own for each test, removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tailrace-export-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn sub(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const SERVERS: [(&str, &str, &str); 5] = [
    ("web", "10.0.1.1:80", "http"),
    ("app", "10.0.2.1:8009", "ajp"),
    ("db", "10.0.3.1:3306", "mysql"),
    ("raw", "10.0.3.2:4433", "opaque"),
    ("six", "[fd00::5]:8080", "http"),
];
const WEB: u32 = 0;
const SIX: u32 = 4;
/// By protocol.
const INTERACTIONS: [&[&str]; 5] = [
    &[
        "GET /ViewStory",
        "POST /item/{id}",
        "HEAD /img/*.png",
        "OPTIONS *",
    ],
    &["GET /ViewStory", "PATCH /a/{id}.html", "GET /"],
    &[
        "SELECT stories",
        "INSERT comments",
        "UPDATE t",
        "DELETE users",
        "CALL ViewStory",
        "BEGIN",
        "PING",
        "EXECUTE",
        "LOGIN",
    ],
    &[],
    &["GET /v2/{id}/x"],
];
/// Names that the decoder folds where they are seen once or twice, and what shows them.
const RULES: [(&str, &str); 10] = [
    ("^GET /ViewStory", "GET /ViewStory"),
    ("^POST /item/", "POST /item/{id}"),
    ("^HEAD /img/", "HEAD /img/*.png"),
    ("^PATCH /a/", "PATCH /a/{id}.html"),
    ("^GET /v2/", "GET /v2/{id}/x"),
    ("^SELECT.*stories", "SELECT stories"),
    ("^INSERT.*comments", "INSERT comments"),
    ("^UPDATE.*t", "UPDATE t"),
    ("^DELETE.*users", "DELETE users"),
    ("^CALL.*ViewStory", "CALL ViewStory"),
];
const STATUSES: [&str; 7] = [
    "ok",
    "503",
    "error-1040",
    "reset",
    "abandoned",
    "unknown",
    "refused",
];

fn options(snaplen: u32) -> Options {
    let servers: Vec<_> = SERVERS
        .iter()
        .map(|(name, address, protocol)| json!({"name": name, "address": address, "protocol": protocol}))
        .collect();
    serde_json::from_value(json!({
        "snaplen": snaplen, "servers": servers, "hosts": {"client": "10.0.0.1"}, "anyone": "10.0.0.1",
        "pools": [["app", "six"]],
    }))
    .unwrap()
}

fn names() -> record::Names {
    let texts = |texts: &[&str]| texts.iter().map(|text| text.to_string()).collect();
    record::Names {
        servers: SERVERS.iter().map(|server| server.0.to_owned()).collect(),
        server_hosts: vec![0; 5],
        hosts: texts(&["client", "10.0.1.1", "fd00::4"]),
        interactions: texts(&INTERACTIONS.concat()),
        folded: Vec::new(),
        statuses: texts(&STATUSES),
        ..record::Names::default()
    }
}

fn id_of(list: &[String], text: &str) -> u32 {
    list.iter().position(|known| known == text).unwrap() as u32
}

fn visit(id: u64, server: u32, sent: i64) -> Visit {
    Visit {
        visit: id,
        server,
        caller: if server == SIX {
            2
        } else {
            u32::from(server != WEB)
        },
        connection: 1,
        interaction: NO_NAME,
        key: 0,
        sent,
        connected: NO_TIME,
        arrival: sent,
        start: NO_TIME,
        first_byte: NO_TIME,
        departure: sent + 5 * MS,
        drops: 0,
        data_drops: 0,
        status: 0,
        bytes_in: 200,
        bytes_out: 500,
        served: true,
        parent: NO_ID,
        request: if server == WEB { id } else { NO_ID },
        downstream_ns: NO_TIME,
    }
}

fn write(run: &Path, visits: &[Visit]) {
    let names = names();
    let mut sink = TablesSink::create(run).unwrap();
    for visit in visits {
        sink.push(visit.clone(), &names).unwrap();
    }
    sink.finish(&names).unwrap();
}

/// What a visit or request was, beyond its numbers.
type Told = (String, bool, String, String, [i64; 4], [u8; 2], [u64; 2]);

fn told(run: &Path) -> Vec<Told> {
    let mut names = Names::default();
    let scratch = run.join("sorted.parquet");
    let mut report = Report::default();
    stay::sort(run, &scratch, &mut names, &mut report, &mut |_| Ok(())).unwrap();
    let mut rows = stay::sorted(&scratch).unwrap();
    let mut all = Vec::new();
    while let Some(stay) = rows.next(&mut Names::default()).unwrap() {
        let text = |id| names.text(id).unwrap_or("").to_owned();
        let Stay {
            sent,
            arrival,
            first_byte,
            departure,
            ..
        } = stay;
        all.push((
            text(stay.server),
            stay.is_request,
            text(stay.interaction),
            text(stay.status),
            [sent, arrival, first_byte, departure],
            [stay.drops, stay.data_drops],
            [stay.bytes_in, stay.bytes_out],
        ));
    }
    all.sort();
    all
}

fn export_and_decode(folder: &Folder, run: &Path, snaplen: u32) -> (PathBuf, Report) {
    let (work, back) = (folder.sub("work"), folder.sub("back"));
    let report = export(run, &work, &options(snaplen), &mut |_, _| Ok(())).unwrap();
    let servers: serde_json::Map<String, serde_json::Value> = SERVERS
        .iter()
        .map(|(name, address, _)| (name.to_string(), json!(address)))
        .collect();
    let rules = RULES.map(|(matches, name)| json!({"match": matches, "name": name}));
    let options = json!({"servers": servers, "interactions": rules});
    let options = serde_json::from_value(options).unwrap();
    decode::decode(&[work.join(CAPTURE)], &back, &options, &mut |_, _| Ok(())).unwrap();
    (back, report)
}

fn round_trip(visits: &[Visit]) -> (Vec<Told>, Vec<Told>, Report) {
    let folder = Folder::new();
    let run = folder.sub("run");
    write(&run, visits);
    let (back, report) = export_and_decode(&folder, &run, 1 << 18);
    // Only the web server's clients are known clients.
    let of_clients = |told: &Told| !told.1 || told.0 == "web";
    let [before, after] =
        [run, back].map(|run| told(&run).into_iter().filter(of_clients).collect());
    (before, after, report)
}

fn assert_unchanged(visits: &[Visit]) {
    let (before, after, report) = round_trip(visits);
    for (a, b) in before.iter().zip(&after) {
        assert_eq!(a, b);
    }
    assert_eq!(before.len(), after.len());
    assert_eq!((report.changed, report.left_out), Default::default());
}

/// A random visit that a wire can carry.
fn any_visit() -> impl Strategy<Value = Visit> {
    let times = (0..20_000i64, 0..40_000i64, 0..40_000i64, 0..3u8, 0..3u8);
    let sizes = (
        prop_oneof![1..200u64, 200..40_000u64],
        prop_oneof![60..400u64, 400..90_000u64],
    );
    (
        0..5usize,
        any::<prop::sample::Index>(),
        0..12usize,
        times,
        sizes,
        any::<bool>(),
    )
        .prop_map(
            |(server, pick, status, (sent, wait, rest, drops, data_drops), sizes, coarse)| {
                let unit = if coarse { MS } else { 7919 };
                let list = INTERACTIONS[server];
                let interaction = list.get(pick.index(list.len().max(1))).copied();
                let mut visit = visit(0, server as u32, BEGIN + sent * unit);
                let names = names();
                let disturbed = interaction != Some("LOGIN") && server as u32 != 3;
                visit.interaction =
                    interaction.map_or(NO_NAME, |text| id_of(&names.interactions, text));
                (visit.bytes_in, visit.bytes_out) = (sizes.0 + 400, sizes.1);
                if interaction == Some("PING") {
                    visit.bytes_in = 5;
                }
                visit.status = match (status, SERVERS[server].2) {
                    (1, "http" | "ajp") => 1,
                    (1, "mysql") => 2,
                    (2, _) => 3,
                    (3, _) => 4,
                    (4, protocol) if protocol != "opaque" => 5,
                    _ => 0,
                };
                if disturbed {
                    visit.drops = drops;
                    visit.data_drops = data_drops;
                }
                // Over IPv6 only time distinguishes a repetition from a copy.
                let wait = if visit.server == SIX {
                    wait.max(100)
                } else {
                    wait
                };
                visit.arrival = visit.sent + i64::from(visit.drops) * S;
                let answer = visit.arrival + wait * unit;
                visit.departure = answer + rest * unit;
                match STATUSES[visit.status as usize] {
                    "reset" | "abandoned" => visit.bytes_out = 0,
                    // Of an answer in a hole, nothing is seen behind the request.
                    "unknown" => (visit.departure, visit.data_drops) = (visit.arrival, 0),
                    _ => visit.first_byte = answer,
                }
                visit
            },
        )
}

proptest! {
    #[test]
    fn what_a_wire_can_carry_comes_back(mut visits in prop::collection::vec(any_visit(), 1..24)) {
        for (id, visit) in visits.iter_mut().enumerate() {
            visit.visit = id as u64 + 1;
            if visit.server == WEB {
                visit.request = visit.visit;
                visit.connected = visit.arrival;
            }
        }
        let (before, after, report) = round_trip(&visits);
        for (a, b) in before.iter().zip(&after) {
            prop_assert_eq!(a, b);
        }
        prop_assert_eq!(before.len(), after.len());
        prop_assert_eq!(report.left_out, Default::default());
        prop_assert_eq!(report.changed, Default::default());
        prop_assert_eq!(report.visits, visits.len() as u64);
    }
}

#[test]
fn a_kept_connection_carries_one_request_at_a_time() {
    let visits: Vec<Visit> = (0..9)
        .map(|i| Visit {
            departure: BEGIN + (i / 3 + 1) * 3 * MS,
            ..visit(i as u64 + 1, 1, BEGIN + i / 3 * 3 * MS)
        })
        .map(|v| Visit {
            first_byte: v.departure,
            interaction: 4,
            ..v
        })
        .collect();
    let (_, after, report) = round_trip(&visits);
    assert_eq!((after.len(), report.connections), (9, 3));
}

#[test]
fn failed_attempts_are_requests_without_a_visit() {
    let failed = |id, status: &str, drops, end| Visit {
        served: false,
        drops,
        departure: end,
        status: id_of(&names().statuses, status),
        ..visit(id, WEB, BEGIN + id as i64)
    };
    let visits = [
        failed(1, "refused", 0, BEGIN + 20 * MS),
        failed(2, "refused", 1, BEGIN + S + 20 * MS),
        failed(3, "reset", 0, BEGIN + 5 * MS),
        // Given up at some time after the last SYN, which came 2 s after the first.
        failed(4, "abandoned", 2, BEGIN + 4 + 2 * S),
        Visit {
            first_byte: BEGIN + 12 * S,
            departure: BEGIN + 12 * S,
            connected: BEGIN + 11 * S,
            interaction: 0,
            ..visit(5, WEB, BEGIN + 11 * S)
        },
    ];
    assert_unchanged(&visits);
}

#[test]
fn recorded_losses_decide_when_the_syns_went_out() {
    let folder = Folder::new();
    let run = folder.sub("run");
    let lost = Visit {
        drops: 2,
        arrival: BEGIN + 2 * S,
        first_byte: BEGIN + 3 * S,
        departure: BEGIN + 3 * S,
        interaction: 0,
        ..visit(1, WEB, BEGIN)
    };
    write(&run, &[lost]);
    let names = names();
    let mut events = EventWriter::create(&run).unwrap();
    for (begin, end) in [(0, 777), (0, 1234), (1234, 2000)] {
        let [begin, end] = [begin, end].map(|ms| BEGIN + ms * MS);
        let event = Event {
            place: WEB,
            kind: "drop",
            begin,
            end,
            detail: None,
        };
        events.push(event, &names).unwrap();
    }
    events.finish(&names).unwrap();
    let (back, _) = export_and_decode(&folder, &run, 1 << 18);
    let mut losses = losses::Losses::open(&back.join("events.parquet")).unwrap();
    let mut names = Names::default();
    let web = names.id("web");
    let syns = losses
        .attempts(web, (BEGIN, BEGIN + 2 * S), 2, &mut names)
        .unwrap();
    assert_eq!(syns, [0, 1234, 2000].map(|ms| BEGIN + ms * MS));
}

#[test]
fn what_a_wire_cannot_carry_is_counted() {
    let status = |text| id_of(&names().statuses, text);
    let visits = [
        Visit {
            arrival: BEGIN + 1000,
            ..visit(1, 1, BEGIN)
        },
        Visit {
            bytes_in: 1,
            bytes_out: 1,
            ..visit(2, WEB, BEGIN)
        },
        Visit {
            status: status("error-1040"),
            ..visit(3, WEB, BEGIN)
        },
        Visit {
            interaction: id_of(&names().interactions, "GET /ViewStory"),
            ..visit(4, 2, BEGIN)
        },
        Visit {
            departure: BEGIN - 1,
            ..visit(5, 2, BEGIN)
        },
    ];
    let (_, after, report) = round_trip(&visits);
    let changed: Vec<_> = report.changed.into_iter().collect();
    assert_eq!(
        changed,
        [("bytes", 1), ("interaction", 1), ("sent", 1), ("status", 1)]
    );
    assert_eq!(report.left_out.into_values().sum::<u64>(), 1);
    assert_eq!(after.iter().filter(|told| !told.1).count(), 4);
}

#[test]
fn a_short_snap_length_keeps_every_visit() {
    let folder = Folder::new();
    let run = folder.sub("run");
    let visits: Vec<Visit> = (0..60)
        .map(|i| {
            let at = BEGIN + i * MS;
            Visit {
                first_byte: at + MS,
                interaction: [0, 4, 7][i as usize % 3],
                departure: at + 2 * MS,
                ..visit(i as u64 + 1, i as u32 % 3, at)
            }
        })
        .collect();
    write(&run, &visits);
    let (back, _) = export_and_decode(&folder, &run, 96);
    let visits =
        |run: &Path| -> Vec<Told> { told(run).into_iter().filter(|told| !told.1).collect() };
    assert_eq!(visits(&run), visits(&back));
}

#[test]
fn the_same_run_gives_the_same_bytes() {
    let folder = Folder::new();
    let run = folder.sub("run");
    write(
        &run,
        &(0..50)
            .map(|i| visit(i + 1, i as u32 % 5, BEGIN + i as i64 * 17))
            .collect::<Vec<_>>(),
    );
    let [first, second] = ["a", "b"].map(|name| {
        let work = folder.sub(name);
        export(&run, &work, &options(1 << 18), &mut |_, _| Ok(())).unwrap();
        std::fs::read(work.join(CAPTURE)).unwrap()
    });
    assert!(first.len() > 1000 && first == second);
}

#[test]
fn a_missing_table_is_reported_with_its_name() {
    let folder = Folder::new();
    let run = folder.sub("run");
    let failed = |run: &Path| {
        let done = export(run, &folder.sub("work"), &options(96), &mut |_, _| Ok(()));
        done.unwrap_err().to_string()
    };
    assert!(failed(&run).contains("visits.parquet"), "{}", failed(&run));
    std::fs::write(run.join("visits.parquet"), b"no table").unwrap();
    assert!(failed(&run).contains("visits.parquet"), "{}", failed(&run));
}
