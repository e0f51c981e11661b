//! The table of connections: finds the connection of a segment, lets time pass for those that wait for something, and
//! keeps the memory bounded by what is open.

use std::collections::VecDeque;
use std::net::IpAddr;

use rustc_hash::FxHashMap;

use super::connection::{Connection, Next};
use super::ledger::Ledger;
use super::{Endpoint, Segment, SYN};

/// Connections followed at once: about 0.7 kB each, 90 MB in all. Beyond that the most silent are given up, and counted.
const CONNECTIONS: usize = 1 << 17;
/// What is pending is looked at so long after.
const TICK: i64 = 1_000_000_000;
/// Silent connections are looked for this often, and given up after so long: without anything open, and in any case.
/// Two hours is the time after which Linux sends its first keep-alive.
const SWEEP: i64 = 60_000_000_000;
const SILENT: i64 = 15 * 60_000_000_000;
const SILENT_ASKED: i64 = 2 * 3600 * 1_000_000_000;
/// With a full table only connections silent for this long are given up.
const SILENT_CROWDED: i64 = 10_000_000_000;

/// Both ends, the smaller first, so that both directions have one key.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
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

struct Slot {
    key: Key,
    /// Tells a connection from an earlier one in the same slot.
    serial: u32,
    watched: bool,
    connection: Connection,
}

pub struct Flow {
    pub ledger: Ledger,
    by_key: FxHashMap<Key, u32>,
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    serial: u32,
    watched: VecDeque<(i64, u32, u32)>,
    newest: Option<(Key, u32)>,
    now: i64,
    next_sweep: i64,
    guesses: bool,
}

impl Flow {
    pub fn new(ledger: Ledger) -> Flow {
        Flow {
            ledger,
            by_key: FxHashMap::default(),
            slots: Vec::new(),
            free: Vec::new(),
            serial: 0,
            watched: VecDeque::new(),
            newest: None,
            now: i64::MIN,
            next_sweep: i64::MIN,
            guesses: false,
        }
    }

    pub fn segment(&mut self, segment: &Segment<'_>) {
        if segment.time > self.now {
            self.pass_time(segment.time);
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
            slot.connection.supersede(segment.time, &mut self.ledger);
            if let Some(connection) = Connection::start(segment, &mut self.ledger) {
                slot.connection = connection;
                new = true;
            }
        }
        let next = if new && segment.flags & SYN != 0 {
            slot.connection.next()
        } else {
            slot.connection.segment(segment, &mut self.ledger)
        };
        if next == Next::Watch && !slot.watched {
            slot.watched = true;
            self.watched
                .push_back((self.now.saturating_add(TICK), index, slot.serial));
        }
        self.guesses |= slot.connection.roles == super::connection::Roles::Guessed;
        if let Some(proved) = self.ledger.servers.proved.take() {
            self.correct_roles(proved);
        }
    }

    fn admit(&mut self, key: Key, segment: &Segment<'_>) -> Option<u32> {
        if self.by_key.len() >= CONNECTIONS {
            if self.now >= self.next_sweep.saturating_sub(SWEEP).saturating_add(TICK) {
                self.sweep(SILENT_CROWDED, SILENT_CROWDED);
            }
            if self.by_key.len() >= CONNECTIONS {
                self.ledger.counts.segments_unfollowed += 1;
                return None;
            }
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

    fn pass_time(&mut self, now: i64) {
        self.now = now;
        while let Some(&(due, index, serial)) = self.watched.front() {
            if due > now {
                break;
            }
            self.watched.pop_front();
            let Some(Some(slot)) = self.slots.get_mut(index as usize) else {
                continue;
            };
            if slot.serial != serial {
                continue;
            }
            match slot.connection.tick(now, &mut self.ledger) {
                Next::Keep => slot.watched = false,
                Next::Watch => self
                    .watched
                    .push_back((now.saturating_add(TICK), index, serial)),
                Next::Remove => self.remove(index),
            }
        }
        if now >= self.next_sweep {
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

    /// `server` answered a SYN: connections that took it for the client had the roles the wrong way round.
    fn correct_roles(&mut self, server: Endpoint) {
        if !self.guesses {
            return;
        }
        for slot in self.slots.iter_mut().flatten() {
            if slot.connection.client() == server {
                slot.connection.swap_roles(&mut self.ledger);
            }
        }
    }

    /// The recording is over.
    pub fn finish(&mut self) {
        for slot in self.slots.iter_mut().flatten() {
            slot.connection.recording_ends(self.now, &mut self.ledger);
        }
    }
}
