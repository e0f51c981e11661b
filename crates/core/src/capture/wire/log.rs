//! The test double of [`Exchanges`]: a reader's calls as compact text, so that a test reads like a
//! conversation.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::software::{Software, Source};
use super::{Chunk, Exchanges, Outcome, Protocol, Raw, Side};
use std::collections::VecDeque;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    pub name: String,
    pub key: u64,
    pub trace: u128,
    pub begun: i64,
    pub asked: i64,
    pub bytes_in: u64,
    pub first: Option<i64>,
    pub last: i64,
    pub bytes_out: u64,
    /// "" until finished.
    pub end: String,
}

#[derive(Default)]
pub struct Log {
    pub seen: Vec<Seen>,
    open: VecDeque<Open>,
    /// Unreadable bytes by reason, opaque, and violations of the contract.
    pub notes: Vec<String>,
    pub software: Software,
    opaque: bool,
}

/// An exchange without an end: its place in `seen`, and what closes it at the next request.
struct Open {
    place: usize,
    told: bool,
    hole: bool,
}

fn text(raw: Raw<'_>) -> String {
    match raw {
        Raw::Http { method, target } => {
            format!(
                "{} {}",
                String::from_utf8_lossy(method),
                String::from_utf8_lossy(target)
            )
        }
        Raw::Sql(sql) => format!("sql {}", String::from_utf8_lossy(sql)),
        Raw::Collection {
            command,
            collection,
        } => format!("{command} {collection}"),
        Raw::Command(name) | Raw::Word(name) => name.to_string(),
        Raw::Unknown => "?".to_string(),
    }
}

fn end(outcome: Outcome) -> String {
    match outcome {
        Outcome::Ok => "ok".to_string(),
        Outcome::Http(code) => code.to_string(),
        Outcome::Error(code) => format!("error-{}", super::error_name(code)),
        Outcome::Aborted => "aborted".to_string(),
    }
}

impl Exchanges for Log {
    fn no_login(&mut self) {}

    fn request(&mut self, time: i64, raw: Raw<'_>, key: u64) {
        assert!(!self.opaque, "a request after opaque()");
        while self.open.front().is_some_and(|front| front.told) {
            self.close();
        }
        while self.open.front().is_some_and(|front| front.hole) {
            let oldest = self.close();
            self.seen[oldest].end = "unseen".to_string();
        }
        self.open.push_back(Open {
            place: self.seen.len(),
            told: false,
            hole: false,
        });
        self.seen.push(Seen {
            name: text(raw),
            key,
            begun: time,
            asked: time,
            ..Seen::default()
        });
    }

    fn rename(&mut self, raw: Raw<'_>, key: u64) {
        let newest = self.seen.last_mut().expect("rename() without a request");
        newest.name = text(raw);
        newest.key = key;
    }

    fn trace(&mut self, trace: super::trace::Trace) {
        let newest = self.seen.last_mut().expect("trace() without a request");
        newest.trace = trace.id;
    }

    fn runs(&mut self, source: Source, text: &[u8]) {
        self.software.take(source, text);
    }

    fn request_bytes(&mut self, time: i64, len: u64) {
        let newest = self
            .seen
            .last_mut()
            .expect("request_bytes() without a request");
        newest.asked = time;
        newest.bytes_in += len;
    }

    fn response_bytes(&mut self, time: i64, len: u64) {
        let oldest = self.open.front();
        let oldest = oldest.expect("response_bytes() without an open exchange");
        let seen = &mut self.seen[oldest.place];
        seen.first.get_or_insert(time);
        seen.last = time;
        seen.bytes_out += len;
    }

    fn turn_to(&mut self, nth: usize) {
        let turned = self.open.remove(nth);
        self.open
            .push_front(turned.expect("turn_to() without so many exchanges"));
    }

    fn finish(&mut self, outcome: Outcome) {
        let oldest = self.close();
        self.seen[oldest].end = end(outcome);
    }

    fn break_off(&mut self, time: i64, outcome: Outcome) {
        let oldest = self.close();
        self.seen[oldest].last = time;
        self.seen[oldest].end = end(outcome);
    }

    fn open_ended(&mut self, outcome: Outcome) {
        let oldest = self.open.front_mut();
        let oldest = oldest.expect("open_ended() without an open exchange");
        assert!(!oldest.told, "open_ended() twice");
        oldest.told = true;
        self.seen[oldest.place].end = format!("~{}", end(outcome));
    }

    fn one_way(&mut self) {
        let newest = self.open.pop_back();
        let newest = newest.expect("one_way() after the exchange was finished");
        self.seen[newest.place].end = "one way".to_string();
    }

    fn unreadable(&mut self, reason: &'static str, _len: u64) {
        let note = format!("unreadable: {reason}");
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    fn opaque(&mut self, reason: &'static str) {
        assert!(!self.opaque, "opaque() twice");
        self.opaque = true;
        self.notes.push(format!("opaque: {reason}"));
    }
}

impl Log {
    fn close(&mut self) -> usize {
        let oldest = self.open.pop_front();
        oldest
            .expect("the end of an exchange that is not open")
            .place
    }

    /// As the decoder does, before it reports the gap to the reader.
    pub fn gap(&mut self, side: Side) {
        if side == Side::Server {
            self.open.iter_mut().for_each(|open| open.hole = true);
        }
    }

    /// One line an exchange: name, bytes of the request, bytes of the response, end (`~`: open-ended, `…`: not finished).
    pub fn lines(&self) -> Vec<String> {
        let exchanges = self.seen.iter().map(|s| {
            let end = if s.end.is_empty() { "…" } else { &s.end };
            format!("{} | {} {} | {end}", s.name, s.bytes_in, s.bytes_out)
        });
        exchanges.chain(self.notes.iter().cloned()).collect()
    }

    /// As [`Log::lines`], without byte counts.
    pub fn names(&self) -> Vec<String> {
        let name = |s: &Seen| format!("{} {}", s.name, if s.end.is_empty() { "…" } else { &s.end });
        self.seen
            .iter()
            .map(name)
            .chain(self.notes.iter().cloned())
            .collect()
    }

    /// Begin, last byte asked, first and last byte answered of exchange `i`.
    pub fn times(&self, i: usize) -> (i64, i64, Option<i64>, i64) {
        let s = &self.seen[i];
        (s.begun, s.asked, s.first, s.last)
    }
}

pub const C: Side = Side::Client;
pub const S: Side = Side::Server;

/// Plays segments, one a time unit, each whole.
pub fn play<T: AsRef<[u8]>>(reader: &mut dyn Protocol, script: &[(Side, T)]) -> Log {
    let mut log = Log::default();
    for (time, (side, bytes)) in script.iter().enumerate() {
        reader.data(*side, whole(time as i64, bytes.as_ref()), &mut log);
    }
    log
}

/// Plays segments of which no more than `snap` bytes were captured.
pub fn play_cut<T: AsRef<[u8]>>(
    reader: &mut dyn Protocol,
    script: &[(Side, T)],
    snap: usize,
) -> Log {
    let mut log = Log::default();
    for (time, (side, bytes)) in script.iter().enumerate() {
        let bytes = bytes.as_ref();
        let chunk = Chunk {
            time: time as i64,
            bytes: &bytes[..bytes.len().min(snap)],
            len: bytes.len() as u64,
        };
        reader.data(*side, chunk, &mut log);
    }
    log
}

/// What a snap length of 96 bytes leaves of a segment behind Ethernet, a VLAN tag, IPv6 and TCP with timestamps.
pub const SNAP_MIN: usize = 96 - 14 - 4 - 40 - 32;

/// Plays a conversation at every snap length: its exchanges must equal those of the uncut one in
/// time and size, and the outcome of each must be reported.
pub fn cut_everywhere<P: Protocol + Default, T: AsRef<[u8]>>(script: &[(Side, T)]) {
    let shape = |log: &Log| {
        let shape = |s: &Seen| (s.bytes_in, s.bytes_out, s.begun, s.last);
        log.seen.iter().map(shape).collect::<Vec<_>>()
    };
    let whole = shape(&play(&mut P::default(), script));
    let longest = script.iter().map(|(_, bytes)| bytes.as_ref().len()).max();
    for snap in SNAP_MIN..longest.unwrap_or(0) {
        let cut = play_cut(&mut P::default(), script, snap);
        assert_eq!(shape(&cut), whole, "snap length {snap}: {:?}", cut.lines());
        let told = cut.seen.iter().all(|s| !s.end.is_empty());
        assert!(told, "snap length {snap}: {:?}", cut.lines());
    }
}

/// Plays the same bytes in other pieces: `cuts` is drawn from in a circle, each piece has at most so many bytes.
pub fn play_split<T: AsRef<[u8]>>(
    reader: &mut dyn Protocol,
    script: &[(Side, T)],
    cuts: &[usize],
) -> Log {
    let mut log = Log::default();
    let mut cut = cuts.iter().cycle();
    for (time, (side, bytes)) in script.iter().enumerate() {
        let mut rest = bytes.as_ref();
        while !rest.is_empty() {
            let n = cut.next().copied().unwrap_or(1).clamp(1, rest.len());
            reader.data(*side, whole(time as i64, &rest[..n]), &mut log);
            rest = &rest[n..];
        }
    }
    log
}

/// Plays a conversation in other pieces, as [`play_split`] does: its exchanges must be the same.
pub fn split_anyhow<P: Protocol + Default, T: AsRef<[u8]>>(
    script: &[(Side, T)],
    all_cuts: [&[usize]; 3],
) {
    let whole = play(&mut P::default(), script).lines();
    for cuts in all_cuts {
        let split = play_split(&mut P::default(), script, cuts);
        assert_eq!(split.lines(), whole, "{cuts:?}");
    }
}

/// Plays requests, each of them followed by its response, at these snap lengths: every one must be counted, and its
/// outcome reported with an end behind its begin.
pub fn cut_at<P: Protocol + Default, T: AsRef<[u8]>>(script: &[(Side, T)], snaps: &[usize]) {
    for &snap in snaps {
        let cut = play_cut(&mut P::default(), script, snap);
        let ended = |s: &Seen| !s.end.is_empty() && s.last > s.begun;
        assert_eq!(
            cut.seen.len(),
            script.len() / 2,
            "{snap}: {:?}",
            cut.lines()
        );
        assert!(cut.seen.iter().all(ended), "{snap}: {:?}", cut.lines());
    }
}

pub fn whole(time: i64, bytes: &[u8]) -> Chunk<'_> {
    Chunk {
        time,
        bytes,
        len: bytes.len() as u64,
    }
}

/// What may happen on a connection, for tests that throw anything at a reader.
#[derive(Clone, Debug)]
pub enum Event {
    Data(bool, Vec<u8>, u16),
    Gap(bool, u32),
    End(bool),
}

pub fn any_events() -> impl proptest::strategy::Strategy<Value = Vec<Event>> {
    use proptest::prelude::*;
    let data = (
        any::<bool>(),
        proptest::collection::vec(any::<u8>(), 0..80),
        prop_oneof![3 => Just(0u16), 1 => any::<u16>()],
    );
    proptest::collection::vec(
        prop_oneof![
            8 => data.prop_map(|(side, bytes, cut)| Event::Data(side, bytes, cut)),
            1 => (any::<bool>(), prop_oneof![Just(0u32), 1..2000u32]).prop_map(|(s, n)| Event::Gap(s, n)),
            1 => any::<bool>().prop_map(Event::End),
        ],
        0..40,
    )
}

/// Sends events to a reader: it must not panic, nor break the contract of [`Exchanges`] that
/// [`Log`] checks.
pub fn throw(reader: &mut dyn Protocol, events: &[Event]) -> Log {
    let mut log = Log::default();
    let side = |client: bool| if client { C } else { S };
    for (time, event) in events.iter().enumerate() {
        let time = time as i64;
        match event {
            Event::Data(client, bytes, cut) => {
                let chunk = Chunk {
                    time,
                    bytes,
                    len: bytes.len() as u64 + u64::from(*cut),
                };
                reader.data(side(*client), chunk, &mut log);
            }
            Event::Gap(client, len) => {
                log.gap(side(*client));
                reader.gap(side(*client), time, u64::from(*len), &mut log);
            }
            Event::End(client) => reader.end(side(*client), time, &mut log),
        }
    }
    log
}

/// A conversation with holes: events made of real messages, some of them cut, lost or repeated.
pub fn damaged(script: &[(Side, Vec<u8>)], damage: &[u8]) -> Vec<Event> {
    let mut events = Vec::new();
    for (i, (side, bytes)) in script.iter().enumerate() {
        let client = *side == C;
        let dice = damage.get(i % damage.len().max(1)).copied().unwrap_or(0);
        let n = bytes.len();
        match dice % 8 {
            0 => events.push(Event::Gap(client, n as u32)),
            1 => events.push(Event::Gap(client, 0)),
            2 => events.push(Event::Data(
                client,
                bytes[..n.min(30)].to_vec(),
                (n - n.min(30)) as u16,
            )),
            3 => events.push(Event::Data(client, bytes[n / 2..].to_vec(), 0)),
            4 => {
                events.push(Event::Data(client, bytes[..n / 2].to_vec(), 0));
                events.push(Event::Gap(client, (n - n / 2) as u32));
            }
            _ => events.push(Event::Data(client, bytes.clone(), 0)),
        }
    }
    events
}

/// One of these conversations, with holes.
pub fn any_damage(
    scripts: Vec<Vec<(Side, Vec<u8>)>>,
) -> impl proptest::strategy::Strategy<Value = Vec<Event>> {
    use proptest::prelude::*;
    let damage = proptest::collection::vec(any::<u8>(), 1..16);
    (proptest::sample::select(scripts), damage)
        .prop_map(|(script, damage)| damaged(&script, &damage))
}

/// A reader keeps what [`throw`] checks, whatever comes, and whatever is missing of these conversations.
macro_rules! withstands {
    ($reader:ty, $($script:expr),+) => {
        proptest::proptest! {
            #[test]
            fn anything_may_happen(events in $crate::capture::wire::log::any_events()) {
                $crate::capture::wire::log::throw(&mut <$reader>::default(), &events);
            }

            #[test]
            fn damage_breaks_no_contract(
                events in $crate::capture::wire::log::any_damage(vec![$($script),+])
            ) {
                $crate::capture::wire::log::throw(&mut <$reader>::default(), &events);
            }
        }
    };
}
pub(super) use withstands;
