//! The table of connections: finds the connection of a segment, runs timeouts, and bounds the
//! memory by the open connections.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::net::IpAddr;

use rustc_hash::FxHashMap;

use super::connection::failed::LATE;
use super::connection::{Connection, Next};
use super::ledger::Ledger;
use super::lookups::{self, Lookups};
use super::names::Namer;
use super::quic::Quic;
use super::tls::Keys;
use super::{Endpoint, Segment, SYN};

/// Connections followed at once: about 0.7 kB each, 90 MB in all. Beyond that, connections that are
/// not established are dropped first, the oldest first, because a flood leaves thousands of them;
/// then the most silent ones, which are counted.
const CONNECTIONS: usize = 1 << 17;
/// Pending work is checked after this time.
const TICK: i64 = 1_000_000_000;
/// How often silent connections are searched, and when they are given up: without anything open,
/// and in any case. Two hours is the time after which Linux sends its first keep-alive.
const SWEEP: i64 = 60_000_000_000;
const SILENT: i64 = 15 * 60_000_000_000;
const SILENT_ASKED: i64 = 2 * 3600 * 1_000_000_000;
/// With a full table, only connections that have been silent for this long are given up.
const SILENT_CROWDED: i64 = 10_000_000_000;
/// When room is made, attempts of hosts with other connections are skipped this many times.
const SPARED: usize = 8;
/// This many attempts without a sign of a client are a scan or a flood, and the newest are part of
/// it.
const FLOOD: u64 = 32;
/// If time goes back further than this, the clock was set, or it is another capture: pending work
/// waits no more.
const SET_BACK: i64 = 10_000_000_000;

/// Both ends, the smaller first, so that both directions have one key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Deserialize, Serialize)]
struct Key {
    low: u128,
    high: u128,
    ports: u32,
}

#[inline]
fn number(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => 0xffff_0000_0000 | u128::from(u32::from(ip)),
        IpAddr::V6(ip) => u128::from(ip),
    }
}

impl Key {
    #[inline]
    fn of(a: Endpoint, b: Endpoint) -> Key {
        let (x, y) = ((number(a.ip), a.port), (number(b.ip), b.port));
        let (low, high) = if x <= y { (x, y) } else { (y, x) };
        Key {
            low: low.0,
            high: high.0,
            ports: u32::from(low.1) << 16 | u32::from(high.1),
        }
    }
}

#[derive(Deserialize, Serialize)]
struct Slot {
    key: Key,
    /// Distinguishes a connection from an earlier one in the same slot.
    serial: u32,
    watched: bool,
    connection: Connection,
}

#[derive(Deserialize, Serialize)]
pub struct Flow {
    pub ledger: Ledger,
    lookups: Lookups,
    quic: Quic,
    by_key: FxHashMap<Key, u32>,
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    serial: u32,
    watched: VecDeque<Waiting>,
    /// Connections that are half open, or were when they were added, roughly in the order in which
    /// they expire.
    half_open: VecDeque<Waiting>,
    /// Connections whose client may be the server, by that client.
    guessed: FxHashMap<Endpoint, Vec<(u32, u32)>>,
    newest: Option<(Key, u32)>,
    now: i64,
    next_sweep: i64,
}

/// When to check a connection: its slot, and the serial number that it must still have.
#[derive(Clone, Copy, Deserialize, Serialize)]
struct Waiting {
    due: i64,
    index: u32,
    serial: u32,
}

impl Waiting {
    /// Also if the clock has been set back since.
    fn is_due(self, now: i64, wait: i64) -> bool {
        self.due <= now || self.due.saturating_sub(wait) > now.saturating_add(SET_BACK)
    }
}

impl Flow {
    pub fn new(ledger: Ledger) -> Flow {
        Flow {
            ledger,
            lookups: Lookups::default(),
            quic: Quic::default(),
            by_key: FxHashMap::default(),
            slots: Vec::new(),
            free: Vec::new(),
            serial: 0,
            watched: VecDeque::new(),
            half_open: VecDeque::new(),
            guessed: FxHashMap::default(),
            newest: None,
            now: i64::MIN,
            next_sweep: i64::MIN,
        }
    }

    /// After it was saved: the code and the secrets, which no state holds.
    pub fn revive(&mut self, namer: Namer, keys: &Keys) {
        self.ledger.revive(namer, keys);
        self.quic.revive(&self.ledger);
        for slot in self.slots.iter_mut().flatten() {
            slot.connection.revive(keys);
        }
    }

    pub fn segment(&mut self, segment: &Segment<'_>) {
        if segment.time > self.now || segment.time < self.now.saturating_sub(SET_BACK) {
            self.pass_time(segment.time);
        }
        if segment.datagram {
            let ports = [segment.from.port, segment.to.port];
            return match ports.contains(&lookups::PORT) {
                true => self.lookups.datagram(segment, &mut self.ledger),
                false => self.quic.datagram(segment, &mut self.ledger),
            };
        }
        if segment.from == segment.to {
            return;
        }
        let key = Key::of(segment.from, segment.to);
        let known = match self.newest {
            Some((newest, slot)) if newest == key => Some(slot),
            _ => self.by_key.get(&key).copied(),
        };
        let index = match known {
            Some(index) => index,
            None => match self.admit(key, segment) {
                Some(index) => index,
                None => return,
            },
        };
        self.newest = Some((key, index));
        let Some(Some(slot)) = self.slots.get_mut(index as usize) else {
            return;
        };
        let mut new = known.is_none();
        if !new && slot.connection.is_over_for(segment) {
            slot.connection.replace(segment.time, &mut self.ledger);
            if let Some(connection) = Connection::start(segment, &mut self.ledger) {
                slot.connection = connection;
                new = true;
            }
        }
        let guessed = slot.connection.roles_guessed();
        let next = if new && segment.flags & SYN != 0 {
            self.half_open.push_back(Waiting {
                due: self.now.saturating_add(LATE),
                index,
                serial: slot.serial,
            });
            slot.connection.next()
        } else {
            slot.connection.segment(segment, &mut self.ledger)
        };
        if next == Next::Watch && !slot.watched {
            slot.watched = true;
            self.watched.push_back(Waiting {
                due: self.now.saturating_add(TICK),
                index,
                serial: slot.serial,
            });
        }
        if !guessed && slot.connection.roles_guessed() {
            let client = slot.connection.client();
            let at = (index, slot.serial);
            self.guessed.entry(client).or_default().push(at);
        }
        if let Some(proved) = self.ledger.servers.proved.take() {
            self.correct_roles(proved);
        }
    }

    fn admit(&mut self, key: Key, segment: &Segment<'_>) -> Option<u32> {
        if self.by_key.len() >= CONNECTIONS && !self.make_room() {
            self.ledger.counts.segments_unfollowed += 1;
            return None;
        }
        let connection = Connection::start(segment, &mut self.ledger)?;
        self.serial = self.serial.wrapping_add(1);
        let slot = Some(Slot {
            key,
            serial: self.serial,
            watched: false,
            connection,
        });
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.slots.push(None);
                self.slots.len() as u32 - 1
            }
        };
        self.slots[index as usize] = slot;
        self.by_key.insert(key, index);
        Some(index)
    }

    /// Gives up the oldest connection that is not established; if there is none, the silent ones.
    fn make_room(&mut self) -> bool {
        let mut spared = 0;
        while let Some(waiting) = self.half_open.pop_front() {
            let Some(connection) = self.half_open(waiting) else {
                continue;
            };
            let client = connection.client().ip;
            if spared < SPARED && self.ledger.servers.calls(client) {
                spared += 1;
                self.half_open.push_back(waiting);
                continue;
            }
            self.expire(waiting.index);
            return true;
        }
        if self.now >= self.next_sweep.saturating_sub(SWEEP).saturating_add(TICK) {
            self.sweep(SILENT_CROWDED, SILENT_CROWDED);
        }
        self.by_key.len() < CONNECTIONS
    }

    /// The connection, if it still exists and is half open.
    fn half_open(&self, waiting: Waiting) -> Option<&Connection> {
        let slot = self.slots.get(waiting.index as usize)?.as_ref()?;
        let meant = slot.serial == waiting.serial && slot.connection.is_half_open();
        meant.then_some(&slot.connection)
    }

    fn expire(&mut self, index: u32) {
        if let Some(Some(slot)) = self.slots.get_mut(index as usize) {
            slot.connection.expire(self.now, &mut self.ledger);
        }
        self.remove(index);
    }

    /// Gives up what has been half open for long.
    fn expire_due(&mut self, now: i64) {
        while let Some(&waiting) = self.half_open.front() {
            let alive = self.half_open(waiting).map(|connection| connection.last);
            if alive.is_some() && !waiting.is_due(now, LATE) {
                break;
            }
            self.half_open.pop_front();
            match alive {
                Some(last) if last.saturating_add(LATE) > now && last <= now => {
                    let due = last.saturating_add(LATE);
                    self.half_open.push_back(Waiting { due, ..waiting });
                }
                Some(_) => self.expire(waiting.index),
                None => {}
            }
        }
        if self.half_open.len() > 2 * CONNECTIONS {
            let mut waiting = std::mem::take(&mut self.half_open);
            waiting.retain(|&waiting| self.half_open(waiting).is_some());
            self.half_open = waiting;
        }
    }

    fn pass_time(&mut self, now: i64) {
        self.now = now;
        self.expire_due(now);
        while let Some(&waiting) = self.watched.front() {
            if !waiting.is_due(now, TICK) {
                break;
            }
            self.watched.pop_front();
            let Waiting { index, serial, .. } = waiting;
            let Some(Some(slot)) = self.slots.get_mut(index as usize) else {
                continue;
            };
            if slot.serial != serial {
                continue;
            }
            match slot.connection.tick(now, &mut self.ledger) {
                Next::Keep => slot.watched = false,
                Next::Watch => self.watched.push_back(Waiting {
                    due: now.saturating_add(TICK),
                    ..waiting
                }),
                Next::Remove => self.remove(index),
            }
        }
        if now >= self.next_sweep || self.next_sweep.saturating_sub(SWEEP) > now {
            if self.next_sweep != i64::MIN {
                self.sweep(SILENT, SILENT_ASKED);
            }
            self.next_sweep = now.saturating_add(SWEEP);
        }
    }

    fn remove(&mut self, index: u32) {
        if let Some(slot) = self.slots.get_mut(index as usize).and_then(Option::take) {
            self.by_key.remove(&slot.key);
            self.free.push(index);
            self.newest = None;
            if slot.connection.roles_guessed() {
                self.forget_guess(slot.connection.client(), index);
            }
        }
    }

    fn sweep(&mut self, silent: i64, silent_asked: i64) {
        self.next_sweep = self.now.saturating_add(SWEEP);
        for index in 0..self.slots.len() {
            let Some(slot) = &mut self.slots[index] else {
                continue;
            };
            let silence = self.now.saturating_sub(slot.connection.last);
            let bound = if slot.connection.open_exchanges() == 0 {
                silent
            } else {
                silent_asked
            };
            if silence >= bound {
                if !slot.connection.is_closed() {
                    self.ledger.counts.connections_evicted += 1;
                    slot.connection.supersede(self.now, &mut self.ledger);
                }
                self.remove(index as u32);
            }
        }
    }

    fn forget_guess(&mut self, client: Endpoint, index: u32) {
        if let Some(guesses) = self.guessed.get_mut(&client) {
            guesses.retain(|&(other, _)| other != index);
            if guesses.is_empty() {
                self.guessed.remove(&client);
            }
        }
    }

    /// `server` answered a SYN: connections in which it was the assumed client had the roles
    /// reversed.
    fn correct_roles(&mut self, server: Endpoint) {
        for (index, serial) in self.guessed.remove(&server).unwrap_or_default() {
            let slot = self.slots.get_mut(index as usize);
            let slot = slot
                .and_then(Option::as_mut)
                .filter(|slot| slot.serial == serial);
            if let Some(slot) = slot.filter(|slot| slot.connection.client() == server) {
                slot.connection.swap_roles(&mut self.ledger);
            }
        }
    }

    /// The recording is over.
    pub fn finish(&mut self) {
        self.lookups.finish(&mut self.ledger);
        self.quic.finish(&mut self.ledger);
        let half_open = |slot: &&Slot| slot.connection.is_half_open();
        let half_open = self.slots.iter().flatten().filter(half_open);
        let strange = half_open.filter(|slot| !slot.connection.is_of_client(&self.ledger));
        let counted = self.ledger.apart.attempts();
        let flooded = counted.saturating_add(strange.count() as u64) >= FLOOD;
        for slot in self.slots.iter_mut().flatten() {
            if slot.connection.is_half_open() {
                slot.connection
                    .attempt_ends(self.now, flooded, &mut self.ledger);
            }
        }
        for slot in self.slots.iter_mut().flatten() {
            slot.connection.recording_ends(self.now, &mut self.ledger);
        }
    }
}
