//! Bytes → what happens on a connection, told to a reader whose calls are held against the contract of `Exchanges`.
//!
//! An event is a byte of flags (1: the server's side; 2, 4: a hole or the end of a side instead of data; 8: more was on
//! the wire than is visible), a length, and as many bytes.

use std::collections::VecDeque;

use tailrace_core::capture::wire::{open, Chunk, Exchanges, Kind, Outcome, Raw, Side};

#[derive(Default)]
struct Contract {
    requests: u64,
    open: VecDeque<Open>,
    opaque: bool,
}

/// What closes an exchange at the next request.
#[derive(Default)]
struct Open {
    told: bool,
    hole: bool,
}

impl Contract {
    fn close(&mut self) {
        assert!(
            self.open.pop_front().is_some(),
            "the end of an exchange that is not open"
        );
    }
}

impl Exchanges for Contract {
    fn no_login(&mut self) {}
    fn request(&mut self, _time: i64, _raw: Raw<'_>, _key: u64) {
        assert!(!self.opaque);
        while self.open.front().is_some_and(|front| front.told) {
            self.close();
        }
        while self.open.front().is_some_and(|front| front.hole) {
            self.close();
        }
        self.requests += 1;
        self.open.push_back(Open::default());
    }
    fn rename(&mut self, _raw: Raw<'_>, _key: u64) {
        assert!(self.requests > 0);
    }
    fn request_bytes(&mut self, _time: i64, _len: u64) {
        assert!(self.requests > 0);
    }
    fn response_bytes(&mut self, _time: i64, _len: u64) {
        assert!(!self.open.is_empty());
    }
    fn turn_to(&mut self, nth: usize) {
        let turned = self
            .open
            .remove(nth)
            .expect("turn_to() without so many exchanges");
        self.open.push_front(turned);
    }
    fn finish(&mut self, _outcome: Outcome) {
        self.close();
    }
    fn break_off(&mut self, _time: i64, _outcome: Outcome) {
        self.close();
    }
    fn open_ended(&mut self, _outcome: Outcome) {
        let front = self
            .open
            .front_mut()
            .expect("open_ended() without an open exchange");
        assert!(!front.told, "open_ended() twice");
        front.told = true;
    }
    fn one_way(&mut self) {
        assert!(self.open.pop_back().is_some());
    }
    fn unreadable(&mut self, _reason: &'static str, _len: u64) {}
    fn opaque(&mut self, _reason: &'static str) {
        self.opaque = true;
    }
}

pub fn drive(kind: Kind, mut bytes: &[u8]) {
    let mut reader = open(kind);
    let mut contract = Contract::default();
    let mut time = 0;
    while let [flags, len, rest @ ..] = bytes {
        if contract.opaque {
            return;
        }
        let side = if flags & 1 == 0 {
            Side::Client
        } else {
            Side::Server
        };
        let (data, rest) = rest.split_at(rest.len().min(usize::from(*len)));
        bytes = rest;
        time += 1;
        match flags & 6 {
            2 => {
                if side == Side::Server {
                    contract.open.iter_mut().for_each(|open| open.hole = true);
                }
                reader.gap(side, time, data.len() as u64, &mut contract);
            }
            6 => reader.end(side, time, &mut contract),
            _ => {
                let hidden = if flags & 8 == 0 {
                    0
                } else {
                    u64::from(*flags) * 16
                };
                let chunk = Chunk {
                    time,
                    bytes: data,
                    len: data.len() as u64 + hidden,
                };
                reader.data(side, chunk, &mut contract);
            }
        }
    }
}
