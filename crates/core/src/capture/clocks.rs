//! What the clocks of several captures differ by, from the causality of messages.
//!
//! ```text
//!   capture A  ──●────────────────●──▶        ● the same packet, seen twice. On the way from A to B it is late by
//!                 ╲              ╱              its delay, on the way back early by it:
//!   capture B  ────●────────────●────▶          max(a − b) going ≤ offset of B ≤ min(a − b) coming back
//! ```
//! The estimate is the middle and its bound half the distance. Where the middles of successive windows lie on a slope
//! that the bounds do not explain, the clock drifts, and the slope is taken out. Captures that share no packet with
//! the first are joined over others; the files of one rotated capture follow one another and share a clock.
//!
//! Packets are compared by a sample of their hashes: all files keep the same part of the hash space, so that memory is
//! bounded and yet the same packets are kept everywhere.

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;
use std::path::PathBuf;

use rustc_hash::FxBuildHasher;

use super::file::CaptureFile;
use super::link::{self, Kinds, Link};
use super::packet::TIME_MAX;
use super::report::{ClockBasis, ClockReport};
use super::Segment;
use crate::error::Result;

/// Packets remembered for all files together, and at least for each.
const REMEMBERED: usize = 1 << 20;
const REMEMBERED_LEAST: usize = 1 << 12;
/// Decompressed bytes of each file that are examined.
const LOOKED_AT: u64 = 4 << 30;
/// Copies of a packet in one capture (several interfaces) are microseconds apart, retransmissions
/// milliseconds.
const COPIES_WITHIN: i64 = 1_000_000;
/// One shared packet is convincing, because its 4-tuple and sequence number are random; a few more
/// guard against damage.
const MATCHES_LEAST: usize = 4;
/// Windows for measuring drift, and the matches that make up one.
const WINDOWS: usize = 32;
const WINDOW_MATCHES: usize = 64;

/// The clock of a file that is read alone.
pub fn given(offset: Option<i64>) -> ClockReport {
    match offset {
        Some(offset_ns) => ClockReport {
            basis: ClockBasis::Given,
            offset_ns,
            ..ClockReport::default()
        },
        None => ClockReport::default(),
    }
}

impl ClockReport {
    /// `time` on this clock, converted to the first capture's clock.
    #[inline]
    pub fn shift(&self, time: i64) -> i64 {
        let drifted = match (self.drift_ppm, self.offset_at) {
            (Some(ppm), Some(at)) => (ppm * 1e-6 * time.saturating_sub(at) as f64) as i64,
            _ => 0,
        };
        time.saturating_add(self.offset_ns)
            .saturating_add(drifted)
            .clamp(0, TIME_MAX)
    }
}

/// Finds the clock of each file; `tick` is called now and then and may stop the work.
pub fn align(
    paths: &[PathBuf],
    offsets: &[Option<i64>],
    tick: &mut dyn FnMut() -> Result<()>,
) -> Result<Vec<ClockReport>> {
    let capacity = (REMEMBERED / paths.len().max(1)).max(REMEMBERED_LEAST);
    let mut sketches = Vec::new();
    for (number, path) in (0..).zip(paths) {
        sketches.push(sketch(
            CaptureFile::open_among(path, number)?,
            capacity,
            tick,
        )?);
    }
    Ok(compare(&sketches, offsets))
}

fn compare(sketches: &[Sketch], offsets: &[Option<i64>]) -> Vec<ClockReport> {
    let given: Vec<Option<i64>> = (0..sketches.len())
        .map(|file| offsets.get(file).copied().flatten())
        .collect();
    let mut joins = Vec::new();
    for ((one, other), samples) in shared(sketches) {
        joins.extend(join(&samples).map(|join| (one, other, join)));
    }
    spread(sketches, &given, joins)
}

/// The remembered packets of a capture.
struct Sketch {
    packets: HashMap<u64, Sighting, FxBuildHasher>,
    /// Hashes above it were not kept.
    limit: u64,
    span: Option<(i64, i64)>,
    link: Option<Link>,
}

#[derive(Clone, Copy)]
struct Sighting {
    first: i64,
    last: i64,
    /// The two hosts, and the direction.
    pair: u64,
    up: bool,
}

fn sketch(
    mut file: CaptureFile,
    capacity: usize,
    tick: &mut dyn FnMut() -> Result<()>,
) -> Result<Sketch> {
    let mut sketch = Sketch {
        packets: HashMap::default(),
        limit: u64::MAX,
        span: None,
        link: None,
    };
    let mut taken = 0u64;
    while let Some(time) = file.peek() {
        let Some((packet, bytes)) = file.take() else {
            break;
        };
        let (begin, end) = sketch.span.unwrap_or((time, time));
        sketch.span = Some((begin.min(time), end.max(time)));
        sketch.link = sketch.link.or(Some(packet.link));
        let segment = link::segment(&packet, bytes, 0, &mut Kinds::default());
        if let Some(segment) = segment.filter(|segment| !segment.datagram) {
            sketch.remember(&segment, capacity);
        }
        taken += 1;
        if taken % 65_536 == 0 {
            tick()?;
            if file.offset() > LOOKED_AT {
                break;
            }
        }
    }
    Ok(sketch)
}

impl Sketch {
    fn remember(&mut self, packet: &Segment<'_>, capacity: usize) {
        let (from, to) = (packet.from, packet.to);
        // Repetitions must not be confused with copies: they differ in TSval, or else in the IP
        // identification.
        let own = match (packet.ts_val, packet.ip_id) {
            (Some(value), _) => value,
            (None, Some(id)) if id != 0 => u32::from(id),
            _ => return,
        };
        let what = (
            from,
            to,
            packet.seq,
            packet.ack,
            packet.flags,
            packet.len,
            own,
        );
        let hash = FxBuildHasher.hash_one(what);
        if hash > self.limit {
            return;
        }
        let pair = FxBuildHasher.hash_one((from.ip.min(to.ip), from.ip.max(to.ip)));
        let seen = Sighting {
            first: packet.time,
            last: packet.time,
            pair,
            up: from < to,
        };
        let entry = self.packets.entry(hash).or_insert(seen);
        entry.last = packet.time;
        if self.packets.len() > capacity {
            self.limit /= 2;
            let limit = self.limit;
            self.packets.retain(|hash, _| *hash <= limit);
        }
    }
}

/// A packet in two captures: when the second saw it, and how much later the first's clock was then.
#[derive(Clone, Copy)]
struct Sample {
    time: i64,
    ahead: i64,
    pair: u64,
    up: bool,
}

/// The shared packets of each pair of captures.
fn shared(sketches: &[Sketch]) -> BTreeMap<(usize, usize), Vec<Sample>> {
    let limit = sketches
        .iter()
        .map(|sketch| sketch.limit)
        .min()
        .unwrap_or(0);
    let mut all: Vec<(u64, usize, Sighting)> = Vec::new();
    for (file, sketch) in sketches.iter().enumerate() {
        let kept = sketch.packets.iter().filter(|(hash, _)| **hash <= limit);
        all.extend(kept.map(|(hash, sighting)| (*hash, file, *sighting)));
    }
    all.sort_unstable_by_key(|(hash, file, _)| (*hash, *file));
    let mut shared: BTreeMap<(usize, usize), Vec<Sample>> = BTreeMap::new();
    for copies in all.chunk_by(|a, b| a.0 == b.0) {
        // A packet that one capture saw repeatedly could be matched wrongly.
        let clear = |(_, _, s): &&(u64, usize, Sighting)| s.last - s.first <= COPIES_WITHIN;
        for (i, (_, one, a)) in copies.iter().enumerate().filter(|(_, copy)| clear(copy)) {
            for (_, other, b) in copies.iter().skip(i + 1).filter(clear) {
                let sample = Sample {
                    time: b.first,
                    ahead: a.first - b.first,
                    pair: b.pair,
                    up: b.up,
                };
                shared.entry((*one, *other)).or_default().push(sample);
            }
        }
    }
    shared
}

/// The conversion from one clock to another: add `offset` and, from the moment `at` on, `rate`
/// times the elapsed time.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Join {
    offset: i64,
    /// None if packets were seen in one direction only.
    bound: Option<i64>,
    rate: f64,
    at: i64,
    matches: u64,
}

impl Join {
    fn reversed(self) -> Join {
        Join {
            offset: -self.offset,
            rate: -self.rate,
            at: self.at.saturating_add(self.offset),
            ..self
        }
    }

    /// First `self`, then `next`.
    fn then(self, next: Join) -> Join {
        let between = self.at.saturating_add(self.offset).saturating_sub(next.at);
        let drifted = (next.rate * between as f64) as i64;
        Join {
            offset: self
                .offset
                .saturating_add(next.offset)
                .saturating_add(drifted),
            bound: self.bound.zip(next.bound).map(|(a, b)| a.saturating_add(b)),
            rate: self.rate + next.rate,
            at: self.at,
            matches: self.matches.min(next.matches),
        }
    }
}

fn join(samples: &[Sample]) -> Option<Join> {
    if samples.len() < MATCHES_LEAST {
        return None;
    }
    let (going, coming) = directions(samples);
    let at = samples.iter().map(|sample| sample.time).min().unwrap_or(0);
    let rate = drift(&going, &coming);
    let level = |sample: &Sample| sample.ahead - (rate * (sample.time - at) as f64) as i64;
    let low = going.iter().map(level).max();
    let high = coming.iter().map(level).min();
    let (offset, bound) = match (low, high) {
        (Some(low), Some(high)) => (low + (high - low) / 2, Some((high - low).abs() / 2 + 1)),
        (one, other) => (one.or(other)?, None),
    };
    Some(Join {
        offset,
        bound,
        rate,
        at,
        matches: samples.len() as u64,
    })
}

/// The samples on the way from the first capture to the second, and those on the way back. The
/// direction of each pair of hosts is inferred: the second clock is later by the delay on the way
/// to it, so that is the direction with the lower `ahead`.
fn directions(samples: &[Sample]) -> (Vec<Sample>, Vec<Sample>) {
    let mut pairs: BTreeMap<u64, [Vec<Sample>; 2]> = BTreeMap::new();
    for sample in samples {
        let [down, up] = pairs.entry(sample.pair).or_default();
        if sample.up { up } else { down }.push(*sample);
    }
    let (mut going, mut coming) = (Vec::new(), Vec::new());
    let mut alone = Vec::new();
    for [a, b] in pairs.into_values() {
        match (
            median(a.iter().map(|s| s.ahead)),
            median(b.iter().map(|s| s.ahead)),
        ) {
            (Some(x), Some(y)) => {
                let (first, second) = if x <= y { (a, b) } else { (b, a) };
                going.extend(first);
                coming.extend(second);
            }
            _ => alone.extend(a.into_iter().chain(b)),
        }
    }
    if going.is_empty() {
        going = alone;
    }
    (going, coming)
}

fn median(values: impl Iterator<Item = i64>) -> Option<i64> {
    let mut values: Vec<i64> = values.collect();
    let middle = values.len() / 2;
    (!values.is_empty()).then(|| *values.select_nth_unstable(middle).1)
}

/// How fast the first clock gains on the second: the median slope (Theil and Sen) between the
/// middles of windows, if it moves the offset further than the bounds allow; otherwise 0.
fn drift(going: &[Sample], coming: &[Sample]) -> f64 {
    let times = || going.iter().chain(coming).map(|sample| sample.time);
    let (Some(begin), Some(end)) = (times().min(), times().max()) else {
        return 0.0;
    };
    let count = ((going.len() + coming.len()) / WINDOW_MATCHES).clamp(1, WINDOWS);
    let width = ((end - begin) / count as i64).max(1);
    let mut windows: BTreeMap<i64, (Option<i64>, Option<i64>)> = BTreeMap::new();
    for sample in going {
        let low = &mut windows.entry((sample.time - begin) / width).or_default().0;
        *low = (*low).max(Some(sample.ahead));
    }
    for sample in coming {
        let high = &mut windows.entry((sample.time - begin) / width).or_default().1;
        *high = Some(high.map_or(sample.ahead, |high| high.min(sample.ahead)));
    }
    let bounded = windows
        .into_iter()
        .filter_map(|(window, (low, high))| Some((window, low?, high?)));
    let bounded: Vec<(i64, i64, i64)> = bounded.collect();
    if bounded.len() < 4 {
        return 0.0;
    }
    let mut slopes = Vec::new();
    for (i, (one, low, high)) in bounded.iter().enumerate() {
        for (other, lower, higher) in bounded.iter().skip(i + 1) {
            let rise = (lower + higher - low - high) as f64 / 2.0;
            slopes.push(rise / ((other - one) * width) as f64);
        }
    }
    slopes.sort_by(f64::total_cmp);
    let slope = slopes.get(slopes.len() / 2).copied().unwrap_or(0.0);
    let open = median(bounded.iter().map(|(_, low, high)| (high - low).abs())).unwrap_or(0);
    let moved = slope.abs() * (end - begin) as f64;
    if moved > open as f64 + COPIES_WITHIN as f64 / 100.0 {
        slope
    } else {
        0.0
    }
}

/// Extends the joins to all files, from the first and the given ones on, the tightest join first.
fn spread(
    sketches: &[Sketch],
    given: &[Option<i64>],
    joins: Vec<(usize, usize, Join)>,
) -> Vec<ClockReport> {
    let fixed = |offset| Join {
        offset,
        bound: Some(0),
        rate: 0.0,
        at: 0,
        matches: 0,
    };
    let mut found: Vec<Option<(ClockBasis, Join)>> = given
        .iter()
        .map(|offset| offset.map(|offset| (ClockBasis::Given, fixed(offset))))
        .collect();
    if let Some(first @ None) = found.first_mut() {
        *first = Some((ClockBasis::Reference, fixed(0)));
    }
    loop {
        while let Some((file, join)) = tightest(&found, &joins) {
            if let Some(place) = found.get_mut(file) {
                *place = Some((ClockBasis::Matched, join));
            }
        }
        let Some((file, join)) = rotation(sketches, &found) else {
            break;
        };
        if let Some(place) = found.get_mut(file) {
            *place = Some((ClockBasis::Rotation, join));
        }
    }
    found.into_iter().map(report).collect()
}

fn report(found: Option<(ClockBasis, Join)>) -> ClockReport {
    let Some((basis, join)) = found else {
        return ClockReport {
            basis: ClockBasis::Unknown,
            ..ClockReport::default()
        };
    };
    let drifts = join.rate != 0.0;
    ClockReport {
        basis,
        offset_ns: join.offset,
        offset_at: drifts.then_some(join.at),
        drift_ppm: drifts.then_some(join.rate * 1e6),
        bound_ns: join.bound.filter(|_| {
            basis == ClockBasis::Matched || (basis == ClockBasis::Rotation && join.matches > 0)
        }),
        matches: join.matches,
    }
}

/// The join with the lowest bound from a file without a clock to one with a clock.
fn tightest(
    found: &[Option<(ClockBasis, Join)>],
    joins: &[(usize, usize, Join)],
) -> Option<(usize, Join)> {
    let known = |file: usize| found.get(file).copied().flatten().map(|(_, join)| join);
    let candidates = joins.iter().filter_map(|(one, other, join)| {
        let (file, join, base) = match (known(*one), known(*other)) {
            (Some(base), None) => (*other, *join, base),
            (None, Some(base)) => (*one, join.reversed(), base),
            _ => return None,
        };
        Some((
            file,
            Join {
                matches: join.matches,
                ..join.then(base)
            },
        ))
    });
    candidates.min_by_key(|(file, join)| (join.bound.unwrap_or(i64::MAX), *file))
}

/// The first file without a clock that follows or precedes one with a clock: of one kind, and
/// without overlap.
fn rotation(sketches: &[Sketch], found: &[Option<(ClockBasis, Join)>]) -> Option<(usize, Join)> {
    let files = || sketches.iter().enumerate().zip(found);
    for ((file, sketch), _) in files().filter(|(_, found)| found.is_none()) {
        let Some((begin, end)) = sketch.span else {
            continue;
        };
        let mut nearest: Option<(i64, Join)> = None;
        for ((_, other), known) in files() {
            let (Some((_, join)), Some((earlier, later)), true) =
                (known, other.span, other.link == sketch.link)
            else {
                continue;
            };
            let apart = (begin - later).max(earlier - end) + COPIES_WITHIN;
            if apart >= 0 && nearest.is_none_or(|(least, _)| apart < least) {
                nearest = Some((apart, *join));
            }
        }
        // A file that overlaps another of its kind without shared packets is a capture of its own.
        if let Some((_, join)) = nearest {
            return Some((file, join));
        }
    }
    None
}

#[cfg(test)]
mod tests;
