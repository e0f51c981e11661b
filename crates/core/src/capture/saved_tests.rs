//! A reading that is killed anywhere, and goes on, writes the same bytes as one that was left alone.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};

use super::decode::{decode, Decoder, Options, Report, Wanted};
use super::merge::{segments, SourceOptions};
use super::stages::Stages;
use super::testing::{pcap, tcp, Record, MS, S};
use super::{ACK, FIN, SYN};
use crate::error::{Error, Result};
use crate::record::writer::testing::BUFFER_ROWS;
use crate::rng::{Purpose, Stream};
use crate::whole::killing;

const TABLES: [&str; 3] = ["visits.parquet", "requests.parquet", "events.parquet"];

pub(super) struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let name = format!("tailrace-saved-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Folder(path)
    }

    pub fn tables(&self) -> Vec<Vec<u8>> {
        let read = |table: &&str| fs::read(self.0.join(table)).unwrap();
        TABLES.iter().map(read).collect()
    }

    pub fn files(&self) -> usize {
        fs::read_dir(&self.0).unwrap().count()
    }

    /// The rows of finished segments, by the names of their files.
    fn runs(&self) -> Vec<String> {
        let names = fs::read_dir(&self.0).unwrap();
        let names = names.map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut runs: Vec<String> = names.filter(|name| name.ends_with(".tmp")).collect();
        runs.sort();
        runs
    }

    fn copy(&self, name: &str) -> Folder {
        let copy = Folder::new(name);
        for file in fs::read_dir(&self.0).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), copy.0.join(file.file_name())).unwrap();
        }
        copy
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn options(segment: u64) -> Options {
    Options {
        segment,
        threads: 1 + segment as usize % 3,
        ..Options::default()
    }
}

pub(super) fn all(paths: &[PathBuf], out: &Path, options: &Options) -> Result<Report> {
    decode(paths, out, options, &mut |_, _| Ok(()))
}

/// Reads until that packet comes, and no further.
fn killed(paths: &[PathBuf], out: &Path, options: &Options, at: u64) {
    let stages = Stages::of(paths, options.threads);
    let mut decoder = Decoder::resume(out, options, stages).unwrap();
    let wanted = Wanted::new(options);
    let mut packets = 0;
    let source = SourceOptions::default();
    let ended = segments(
        paths,
        &source,
        |_, _| Ok(()),
        |segment| {
            packets += 1;
            match packets <= at {
                true => decoder.take(segment, &wanted, options.segment),
                false => Err(Error::Interrupted),
            }
        },
    );
    assert!(ended.is_ok() || matches!(ended, Err(Error::Interrupted)));
    // A killed process removes nothing.
    std::mem::forget(decoder);
}

pub(super) fn plain(report: &Report) -> serde_json::Value {
    let mut report = serde_json::to_value(report).unwrap();
    report["resumed"] = 0.into();
    report
}

fn is_the_same_after(name: &str, paths: &[PathBuf], kills: u32) {
    let mut random = Stream::of(name.len() as u64, 0, 0, Purpose::Arrival);
    for round in 0..kills {
        let segment = 1 + u64::from(random.below(40));
        let alone = Folder::new(&format!("{name}-{round}-alone"));
        let expected = all(paths, &alone.0, &options(segment)).unwrap();
        let folder = Folder::new(&format!("{name}-{round}"));
        let mut at = 0;
        for _ in 0..=random.below(4) {
            at += u64::from(random.below(200));
            killed(paths, &folder.0, &options(segment), at);
        }
        let found = all(paths, &folder.0, &options(segment)).unwrap();
        assert_eq!(found.started_over, None, "{name}");
        assert_eq!(plain(&found), plain(&expected), "{name}");
        assert!(folder.tables() == alone.tables(), "{name}: {segment} {at}");
        assert_eq!(folder.files(), alone.files(), "{name}");
    }
}

#[test]
fn each_protocol_goes_on_where_it_was() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/captures");
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "pcap") {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            is_the_same_after(&name, &[path], 12);
        }
    }
}

#[test]
fn a_recording_of_four_tiers_goes_on_where_it_was() {
    let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/../../demo/packets.pcap.zst");
    let paths = [PathBuf::from(demo)];
    let (alone, folder) = (Folder::new("demo-alone"), Folder::new("demo"));
    let all_of_it = Folder::new("demo-whole");
    let segment = options(10_007);
    let expected = all(&paths, &alone.0, &segment).unwrap();
    for at in [9_000, 25_000, 60_001, 120_000] {
        killed(&paths, &folder.0, &segment, at);
    }
    let found = all(&paths, &folder.0, &segment).unwrap();
    assert_eq!(found.resumed, 110_077);
    assert_eq!(plain(&found), plain(&expected));
    assert!(folder.tables() == alone.tables());
    // Without segments it is the same, except that rows are in other row groups.
    let whole = all(&paths, &all_of_it.0, &options(0)).unwrap();
    assert_eq!(plain(&whole), plain(&expected));
}

/// Requests and their responses. Some take a minute, and each tenth connection attempt is repeated, so there are rows of
/// all three tables, and late ones.
fn talk(folder: &Folder, seconds: i64, requests: i64) -> PathBuf {
    let mut packets: Vec<Record> = Vec::new();
    for i in 0..requests {
        let client = format!("10.0.0.1:{}", 2000 + i);
        let server = "10.0.0.2:80";
        let at = seconds * S + i * 100 * MS;
        let (ask, answer) = (
            format!("GET /{:03} HTTP/1.1\r\n\r\n", i % 40),
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        );
        let (asked, answered) = (ask.len() as u32, answer.len() as u32);
        if i % 10 == 0 {
            packets.push(tcp(&client, server).at(at - S).flags(SYN).seq(0).record());
        }
        packets.push(tcp(&client, server).at(at).flags(SYN).seq(0).record());
        packets.push(
            tcp(server, &client)
                .at(at + MS)
                .flags(SYN | ACK)
                .seq(0)
                .record(),
        );
        packets.push(
            tcp(&client, server)
                .at(at + 2 * MS)
                .seq(1)
                .payload(ask)
                .record(),
        );
        let end = at + if i % 97 == 0 { 60 * S } else { 5 * MS };
        packets.push(
            tcp(server, &client)
                .at(end)
                .seq(1)
                .ack(1 + asked)
                .payload(answer)
                .record(),
        );
        packets.push(
            tcp(&client, server)
                .at(end + MS)
                .seq(1 + asked)
                .ack(1 + answered)
                .flags(FIN | ACK)
                .record(),
        );
    }
    packets.sort_by_key(|packet| packet.time);
    let path = folder.0.join("talk.pcap");
    fs::write(&path, pcap(&packets)).unwrap();
    path
}

/// The call graph holds the first 8,192 visits back; there are more.
const REQUESTS: i64 = 12_000;
const SEGMENT: u64 = 5_000;
const SEGMENTS_FINISHED: u64 = 11;

/// A reading that was killed in its twelfth segment. Its tables are large for their buffers, so each of them has several
/// files.
fn killed_reading(input: &Folder, name: &str) -> (PathBuf, Folder) {
    BUFFER_ROWS.set(512);
    let path = talk(input, 1_700_000_000, REQUESTS);
    let folder = Folder::new(name);
    let at = SEGMENTS_FINISHED * SEGMENT + SEGMENT / 2;
    killed(
        std::slice::from_ref(&path),
        &folder.0,
        &options(SEGMENT),
        at,
    );
    // What was under way when it was killed is removed, so only rows of finished segments stay.
    drop(Decoder::resume(&folder.0, &options(SEGMENT), Stages::default()).unwrap());
    for table in &TABLES {
        let of_table = folder
            .runs()
            .into_iter()
            .filter(|run| run.starts_with(table));
        assert!(of_table.count() >= 3, "{table} of {:?}", folder.runs());
    }
    (path, folder)
}

#[test]
fn a_kill_at_any_step_of_the_end_loses_no_segment() {
    let input = Folder::new("end-input");
    let (path, left) = killed_reading(&input, "end-left");
    let (paths, segment) = ([path], options(SEGMENT));
    let alone = Folder::new("end-alone");
    let expected = all(&paths, &alone.0, &segment).unwrap();
    let mut steps = 0;
    loop {
        let folder = left.copy("end");
        let first = killing::after(steps, || all(&paths, &folder.0, &segment));
        let is_finished = first.is_ok();
        assert!(is_finished || matches!(first, Err(Error::Interrupted)));
        // The second is killed at the same step, and the third is left alone.
        let _ = killing::after(steps, || all(&paths, &folder.0, &segment));
        let found = all(&paths, &folder.0, &segment).unwrap();
        assert_eq!(found.started_over, None, "{steps}");
        assert!(found.resumed >= SEGMENTS_FINISHED * SEGMENT, "{steps}");
        assert_eq!(plain(&found), plain(&expected), "{steps}");
        assert!(folder.tables() == alone.tables(), "{steps}");
        if is_finished {
            break;
        }
        steps += 1;
    }
    // Of each table: a file, its merges, and its name.
    assert!(steps >= 9, "{steps}");
}

fn why_useless(folder: &Folder) -> String {
    match Decoder::resume(&folder.0, &options(SEGMENT), Stages::default()).err() {
        Some(Error::Saved(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_damage_to_saved_rows_is_found() {
    let input = Folder::new("rows-input");
    let (path, left) = killed_reading(&input, "rows-left");
    let (paths, segment) = ([path], options(SEGMENT));
    let alone = Folder::new("rows-alone");
    all(&paths, &alone.0, &segment).unwrap();
    let runs = left.runs();
    let of_table = |table: &&str| runs.iter().rev().find(|run| run.starts_with(*table));
    for (number, run) in TABLES.iter().filter_map(of_table).enumerate() {
        // All kinds of damage to one table, and the first kinds to the others.
        let kinds = if number == 0 { 8 } else { 3 };
        let other = runs.iter().find(|other| *other != run).unwrap();
        let bytes = fs::read(left.0.join(run)).unwrap();
        let flipped = |at: usize| {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1;
            Some(bytes)
        };
        let harmed = [
            None,
            Some(Vec::new()),
            flipped(0),
            flipped(bytes.len() / 3),
            flipped(bytes.len() - 1),
            Some(bytes[..bytes.len() - 1].to_vec()),
            Some([&bytes[..], &[0]].concat()),
            Some(fs::read(left.0.join(other)).unwrap()),
        ];
        for (harm, content) in harmed.into_iter().enumerate().take(kinds) {
            let folder = left.copy("rows");
            let path = folder.0.join(run);
            match content {
                Some(bytes) => fs::write(path, bytes).unwrap(),
                None => fs::remove_file(path).unwrap(),
            }
            let found = all(&paths, &folder.0, &segment).unwrap();
            let why = found.started_over.unwrap_or_default();
            let said = if harm == 0 {
                "is missing"
            } else {
                "is damaged"
            };
            assert_eq!(why, format!("{run} {said}"));
            assert!(folder.tables() == alone.tables(), "{run} {harm}");
        }
    }
}

#[test]
fn each_damage_to_the_saved_state_is_found() {
    let input = Folder::new("state-input");
    let (_, left) = killed_reading(&input, "state-left");
    let bytes = fs::read(left.0.join("reading.saved")).unwrap();
    let cuts = [0, 3, 4, bytes.len() / 2, bytes.len() - 1].map(|cut| bytes[..cut].to_vec());
    let flips = (0..16).map(|part| {
        let mut bytes = bytes.clone();
        let at = part * (bytes.len() - 1) / 15;
        bytes[at] ^= 0x10;
        bytes
    });
    for content in cuts.into_iter().chain(flips) {
        let folder = left.copy("state");
        fs::write(folder.0.join("reading.saved"), content).unwrap();
        assert_eq!(why_useless(&folder), "its file is damaged");
    }
}

#[test]
fn a_file_that_the_state_does_not_name_is_removed() {
    let input = Folder::new("unnamed-input");
    let (path, left) = killed_reading(&input, "unnamed");
    let unnamed = left.0.join("visits.parquet.0123456789abcdef.tmp");
    fs::write(&unnamed, "half of it").unwrap();
    let found = all(&[path], &left.0, &options(SEGMENT)).unwrap();
    assert_eq!(found.started_over, None);
    assert!(!unnamed.exists());
}

#[test]
fn other_packets_start_over_and_say_why() {
    let input = Folder::new("other-input");
    let (path, left) = killed_reading(&input, "other-left");
    let paths = [path];
    for is_short in [false, true] {
        talk(&input, 1_700_000_000 + i64::from(!is_short), REQUESTS);
        if is_short {
            let bytes = fs::read(&paths[0]).unwrap();
            fs::write(&paths[0], &bytes[..bytes.len() / 2]).unwrap();
        }
        let (alone, folder) = (Folder::new("other-alone"), left.copy("other"));
        let expected = all(&paths, &alone.0, &options(SEGMENT)).unwrap();
        let found = all(&paths, &folder.0, &options(SEGMENT)).unwrap();
        assert_eq!(
            found.started_over.as_deref(),
            Some("these are other packets than before")
        );
        assert!(folder.tables() == alone.tables() && expected.visits == found.visits);
    }
}
