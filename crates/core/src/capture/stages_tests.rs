//! Any number of threads writes the same bytes, whatever is in the captures.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;
use proptest::sample::Index;

use super::decode::{decode, Options};
use super::saved_tests::{all, plain, Folder};
use super::stages::Stages;
use crate::error::Error;

/// Bytes of a file before its packets, and of a packet before its content.
const HEADS: [usize; 2] = [24, 16];

fn golden() -> Vec<PathBuf> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/captures");
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|end| end == "pcap"))
        .collect();
    files.sort();
    files
}

/// The head of a little-endian capture, and its packets, each with its own head.
fn packets(capture: &[u8]) -> (Vec<u8>, Vec<Vec<u8>>) {
    let (head, mut rest) = capture.split_at(HEADS[0]);
    let mut packets = Vec::new();
    while rest.len() > HEADS[1] {
        let len = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        let (packet, after) = rest.split_at((HEADS[1] + len).min(rest.len()));
        packets.push(packet.to_vec());
        rest = after;
    }
    (head.to_vec(), packets)
}

#[derive(Clone, Debug)]
enum Harm {
    /// Two packets change places.
    Swap(Index, Index),
    /// A packet comes again so many packets later.
    Again(Index, usize),
    /// A packet is missing.
    Miss(Index),
    /// A byte of a packet is another.
    Flip(Index, Index, u8),
    /// The file ends here.
    Cut(Index),
}

fn harm() -> impl Strategy<Value = Harm> {
    let index = any::<Index>;
    prop_oneof![
        (index(), index()).prop_map(|(a, b)| Harm::Swap(a, b)),
        (index(), 1..30_usize).prop_map(|(at, later)| Harm::Again(at, later)),
        index().prop_map(Harm::Miss),
        (index(), index(), 1..=255_u8).prop_map(|(at, byte, by)| Harm::Flip(at, byte, by)),
        index().prop_map(Harm::Cut),
    ]
}

fn apply(packets: &mut Vec<Vec<u8>>, harm: &Harm) {
    if packets.is_empty() {
        return;
    }
    let len = packets.len();
    match harm {
        Harm::Swap(a, b) => packets.swap(a.index(len), b.index(len)),
        Harm::Again(at, later) => {
            let packet = packets[at.index(len)].clone();
            packets.insert((at.index(len) + later).min(len), packet);
        }
        Harm::Miss(at) => {
            packets.remove(at.index(len));
        }
        Harm::Flip(at, byte, by) => {
            let packet = &mut packets[at.index(len)];
            let byte = byte.index(packet.len());
            packet[byte] ^= by;
        }
        Harm::Cut(at) => packets.truncate(at.index(len)),
    }
}

fn options(threads: usize, segment: u64) -> Options {
    Options {
        threads,
        segment,
        ..Options::default()
    }
}

fn are_the_same(name: &str, paths: &[PathBuf], segment: u64, counts: &[usize]) {
    let alone = Folder::new(&format!("{name}-alone"));
    let expected = all(paths, &alone.0, &options(1, segment)).unwrap();
    for &threads in counts {
        let folder = Folder::new(&format!("{name}-{threads}"));
        let found = all(paths, &folder.0, &options(threads, segment)).unwrap();
        assert_eq!(plain(&found), plain(&expected), "{threads}");
        assert!(folder.tables() == alone.tables(), "{threads}");
        assert_eq!(folder.files(), alone.files());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn any_number_of_threads_writes_the_same(
        chosen in prop::collection::vec((any::<Index>(), any::<bool>()), 1..4),
        harms in prop::collection::vec((any::<Index>(), harm()), 0..12),
        segment in prop_oneof![Just(0), 1..200_u64],
    ) {
        let (golden, input) = (golden(), Folder::new("stages-input"));
        let mut paths = Vec::new();
        for (number, (index, packed)) in chosen.iter().enumerate() {
            let (head, mut packets) = packets(&fs::read(index.get(&golden)).unwrap());
            let mine = harms.iter().filter(|(at, _)| at.index(chosen.len()) == number);
            mine.for_each(|(_, harm)| apply(&mut packets, harm));
            let mut bytes = [head, packets.concat()].concat();
            if *packed {
                bytes = zstd::encode_all(&bytes[..], 1).unwrap();
            }
            paths.push(input.0.join(number.to_string()));
            fs::write(&paths[number], bytes).unwrap();
        }
        are_the_same("stages", &paths, segment, &[0, 2, 3, 4, 64]);
    }
}

fn demo() -> PathBuf {
    PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../demo/packets.pcap.zst"
    ))
}

#[test]
fn a_recording_of_four_tiers_is_the_same_with_many_threads() {
    are_the_same("stages-demo", &[demo()], 30_011, &[4]);
}

#[test]
fn a_packed_capture_that_is_cut_is_the_same_with_many_threads() {
    let input = Folder::new("stages-cut");
    let path = input.0.join("cut");
    let whole = fs::read(demo()).unwrap();
    for part in [3, 7] {
        fs::write(&path, &whole[..whole.len() / part]).unwrap();
        are_the_same("stages-part", std::slice::from_ref(&path), 0, &[4]);
    }
    let zeros = zstd::encode_all(&vec![0; 48 << 20][..], 1).unwrap();
    let packed = whole[..whole.len() / 7].iter().chain(&zeros);
    fs::write(&path, packed.copied().collect::<Vec<u8>>()).unwrap();
    are_the_same("stages-damaged", &[path], 0, &[2]);
}

#[test]
fn nothing_remains_of_a_reading_that_is_stopped() {
    let folder = Folder::new("stages-stopped");
    let stopped = decode(
        &[demo(), demo()],
        &folder.0,
        &options(4, 0),
        &mut |done, _| match done {
            0 => Ok(()),
            _ => Err(Error::Interrupted),
        },
    );
    assert!(matches!(stopped, Err(Error::Interrupted)));
    assert_eq!(folder.files(), 0);
}

#[test]
fn stages_get_threads_as_far_as_there_are_any() {
    let plain = [PathBuf::from("/dev/null")];
    let count = |paths: &[PathBuf], threads| {
        let Stages {
            reading,
            graph,
            tables,
        } = Stages::of(paths, threads);
        [reading, graph, tables]
    };
    assert_eq!(count(&plain, 1), [false, false, false]);
    assert_eq!(count(&plain, 2), [false, true, false]);
    assert_eq!(count(&plain, 3), [false, true, true]);
    assert_eq!(count(&plain, 4), [true, true, true]);
    assert_eq!(count(&[PathBuf::from("-")], 4), [false, true, true]);
    let packed = [demo()];
    assert_eq!(count(&packed, 1), [false, false, false]);
    assert_eq!(count(&packed, 2), [true, false, false]);
    assert_eq!(count(&packed, 4), [true, true, true]);
}
