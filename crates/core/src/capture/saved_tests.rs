//! A reading that is killed anywhere, and goes on, writes the same bytes as one that was left alone.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};

use super::decode::{decode, Decoder, Options, Report, Wanted};
use super::merge::{segments, SourceOptions};
use super::testing::{pcap, tcp, Record, MS, S};
use crate::error::{Error, Result};
use crate::rng::{Purpose, Stream};

const TABLES: [&str; 3] = ["visits.parquet", "requests.parquet", "events.parquet"];

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("tailrace-saved-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Folder(path)
    }

    fn tables(&self) -> Vec<Vec<u8>> {
        let read = |table: &&str| fs::read(self.0.join(table)).unwrap();
        TABLES.iter().map(read).collect()
    }

    fn files(&self) -> usize {
        fs::read_dir(&self.0).unwrap().count()
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
        ..Options::default()
    }
}

fn all(paths: &[PathBuf], out: &Path, options: &Options) -> Result<Report> {
    decode(paths, out, options, &mut |_, _| Ok(()))
}

/// Reads until that packet comes, and no further.
fn killed(paths: &[PathBuf], out: &Path, options: &Options, at: u64) {
    let mut decoder = Decoder::resume(out, options).unwrap();
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

fn plain(report: &Report) -> serde_json::Value {
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
        assert_eq!((folder.files(), alone.files()), (3, 3), "{name}");
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

fn talk(folder: &Folder, seconds: i64) -> PathBuf {
    let packets: Vec<Record> = (0..60)
        .map(|i: i64| {
            let (from, to) = ("10.0.0.1:4000", "10.0.0.2:80");
            let (from, to) = if i % 2 == 0 { (from, to) } else { (to, from) };
            let text = match i % 2 {
                0 => format!("GET /{i:03} HTTP/1.1\r\n\r\n"),
                _ => "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned(),
            };
            let seq = (i / 2) as u32 * text.len() as u32;
            tcp(from, to)
                .at(seconds * S + i * MS)
                .seq(seq)
                .payload(text)
                .record()
        })
        .collect();
    let path = folder.0.join("talk.pcap");
    fs::write(&path, pcap(&packets)).unwrap();
    path
}

#[test]
fn other_packets_and_damaged_state_start_over_and_say_why() {
    let input = Folder::new("input");
    for (name, harm) in [("other", 0), ("state", 1), ("rows", 2), ("short", 3)] {
        let paths = [talk(&input, 1_700_000_000)];
        let folder = Folder::new(name);
        killed(&paths, &folder.0, &options(20), 45);
        let harmed = |end: &str| {
            let files = fs::read_dir(&folder.0)
                .unwrap()
                .map(|file| file.unwrap().path());
            let mut files = files.filter(|file| file.to_string_lossy().ends_with(end));
            let file = files.next().unwrap();
            let mut bytes = fs::read(&file).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(&file, bytes).unwrap();
        };
        match harm {
            0 => {
                talk(&input, 1_700_000_001);
            }
            1 => harmed("reading.saved"),
            2 => fs::read_dir(&folder.0).unwrap().for_each(|file| {
                let path = file.unwrap().path();
                if path.to_string_lossy().ends_with(".tmp") {
                    fs::remove_file(path).unwrap();
                }
            }),
            _ => {
                let bytes = fs::read(&paths[0]).unwrap();
                fs::write(&paths[0], &bytes[..bytes.len() / 2]).unwrap();
            }
        }
        let alone = Folder::new(&format!("{name}-alone"));
        let expected = all(&paths, &alone.0, &options(20)).unwrap();
        let found = all(&paths, &folder.0, &options(20)).unwrap();
        let same = folder.tables() == alone.tables();
        // No row is in a file yet where the tables hold all of them back.
        assert!(found.started_over.is_some() || harm == 2, "{name}");
        assert!(same && expected.visits == found.visits, "{name}");
        assert_eq!(folder.files(), 3, "{name}");
    }
}
