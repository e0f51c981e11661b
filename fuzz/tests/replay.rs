//! Every seed, and some thousand damaged forms of them that are the same in every run. `EXPLORE=N` tries N times as many.

use std::fs;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};

use tailrace_fuzz::TARGETS;

/// Damaged inputs of each target.
const DAMAGED: u64 = 150;
/// Corpora are small: they are in every checkout.
const CORPORA_BYTES: u64 = 200_000;

/// Steele, Lea, Flood: Fast splittable pseudorandom number generators (OOPSLA 2014).
struct Draw(u64);

impl Draw {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % below.max(1) as u64) as usize
    }
}

fn seeds(name: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(name);
    let found = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut seeds: Vec<PathBuf> = found.map(|file| file.path()).collect();
    seeds.sort();
    seeds
}

/// One to eight damages: bytes changed, left out, put in, said again, or taken from another seed.
fn damaged(seed: &[u8], other: &[u8], draw: &mut Draw) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=draw.next(8) {
        let at = draw.next(bytes.len() + 1);
        let to = (at + 1 + draw.next(40)).min(bytes.len());
        match draw.next(7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << draw.next(8),
            1 if at < bytes.len() => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][draw.next(5)],
            2 => drop(bytes.drain(at..to)),
            3 => bytes.insert(at, draw.next(256) as u8),
            4 => {
                let again = bytes[at..to].to_vec();
                bytes.splice(at..at, again);
            }
            5 => {
                let from = draw.next(other.len() + 1);
                let until = (from + draw.next(80)).min(other.len());
                bytes.splice(at..at, other[from..until].iter().copied());
            }
            _ => bytes.truncate(at),
        }
    }
    bytes
}

#[test]
fn no_input_breaks_a_target() {
    let more: u64 = std::env::var("EXPLORE")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(1);
    for (name, run) in TARGETS {
        let seeds: Vec<Vec<u8>> = seeds(name)
            .iter()
            .map(|seed| fs::read(seed).unwrap())
            .collect();
        assert!(!seeds.is_empty(), "fuzz/corpus/{name} has no seed");
        let undamaged = seeds.iter().cloned();
        let damaged = (0..DAMAGED * more).map(|number| {
            let mut draw = Draw(number);
            let (seed, other) = (draw.next(seeds.len()), draw.next(seeds.len()));
            damaged(&seeds[seed], &seeds[other], &mut draw)
        });
        for (number, bytes) in undamaged.chain(damaged).enumerate() {
            if catch_unwind(AssertUnwindSafe(|| run(&bytes))).is_err() {
                let kept = std::env::temp_dir().join(format!("tailrace-fuzz-{name}-{number}"));
                fs::write(&kept, &bytes).unwrap();
                panic!("{name} fails on {}", kept.display());
            }
        }
    }
}

#[test]
fn corpora_are_small() {
    let all = TARGETS.iter().flat_map(|(name, _)| seeds(name));
    let bytes: u64 = all.map(|seed| fs::metadata(seed).unwrap().len()).sum();
    assert!(
        bytes <= CORPORA_BYTES,
        "the corpora have {bytes} bytes, {CORPORA_BYTES} are enough"
    );
}
