//! Assigns a connection to each visit: a free kept one, or a new one on its own port.
//!
//! A kept connection existed before the recording, like those of a pool, and so has no SYN. It
//! carries one request at a time, and the one that has been free longest is used first.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::net::{IpAddr, SocketAddr};

use rustc_hash::{FxHashMap, FxHashSet};

use super::talk::Sequences;
use crate::error::{Error, Result};

/// Ports of clients: Linux's own begin at 32768; load generators that need more use the rest.
const PORT_FIRST: u16 = 32768;
const PORT_LEAST: u16 = 16384;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    pub client: SocketAddr,
    pub server: SocketAddr,
    pub next: Sequences,
    serial: u64,
}

#[derive(Debug)]
struct Free {
    since: i64,
    connection: Connection,
}

impl Free {
    fn order(&self) -> (i64, u64) {
        (self.since, self.connection.serial)
    }
}

impl Ord for Free {
    fn cmp(&self, other: &Free) -> Ordering {
        self.order().cmp(&other.order())
    }
}

impl PartialOrd for Free {
    fn partial_cmp(&self, other: &Free) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Free {
    fn eq(&self, other: &Free) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Free {}

#[derive(Debug)]
struct Ports {
    next: u16,
    taken: FxHashSet<u16>,
}

#[derive(Debug, Default)]
pub struct Connections {
    ports: FxHashMap<(IpAddr, SocketAddr), Ports>,
    kept: FxHashMap<(IpAddr, SocketAddr), BinaryHeap<Reverse<Free>>>,
    pub opened: u64,
}

impl Connections {
    pub fn open(&mut self, client: IpAddr, server: SocketAddr) -> Result<Connection> {
        let ports = self.ports.entry((client, server)).or_insert_with(|| Ports {
            next: PORT_FIRST,
            taken: FxHashSet::default(),
        });
        if ports.taken.len() > usize::from(u16::MAX - PORT_LEAST) {
            let n = ports.taken.len();
            return Err(Error::Options(format!(
                "{client} has {n} connections to {server} open at once, which is all its ports; \
                 give the callers addresses of their own"
            )));
        }
        while !ports.taken.insert(ports.next) {
            ports.next = after(ports.next);
        }
        let port = ports.next;
        ports.next = after(port);
        self.opened += 1;
        let initial = scramble(self.opened);
        Ok(Connection {
            client: SocketAddr::new(client, port),
            server,
            next: [initial as u32, (initial >> 32) as u32],
            serial: self.opened,
        })
    }

    /// A kept connection that is free at `time`.
    pub fn take(&mut self, client: IpAddr, server: SocketAddr, time: i64) -> Result<Connection> {
        let free = self.kept.get_mut(&(client, server)).and_then(|kept| {
            kept.peek().filter(|free| free.0.since <= time)?;
            kept.pop()
        });
        match free {
            Some(Reverse(free)) => Ok(free.connection),
            None => self.open(client, server),
        }
    }

    /// The connection may carry another visit from `since` on.
    pub fn keep(&mut self, connection: Connection, since: i64) {
        self.kept
            .entry((connection.client.ip(), connection.server))
            .or_default()
            .push(Reverse(Free { since, connection }));
    }

    /// The last packet of the connection has been written.
    pub fn close(&mut self, client: SocketAddr, server: SocketAddr) {
        if let Some(ports) = self.ports.get_mut(&(client.ip(), server)) {
            ports.taken.remove(&client.port());
        }
    }
}

fn after(port: u16) -> u16 {
    port.checked_add(1).unwrap_or(PORT_LEAST)
}

/// Initial sequence numbers that look random and are the same in every export (splitmix64).
fn scramble(serial: u64) -> u64 {
    let mut z = serial.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn ends() -> (IpAddr, SocketAddr) {
        ("10.0.0.1".parse().unwrap(), "10.0.1.1:80".parse().unwrap())
    }

    #[test]
    fn the_connection_that_was_free_longest_is_used_first() {
        let (client, server) = ends();
        let mut all = Connections::default();
        let [a, b] = [0, 0].map(|time| all.take(client, server, time).unwrap());
        all.keep(b, 5);
        all.keep(a, 7);
        assert_eq!(all.take(client, server, 7).unwrap(), b);
        assert_eq!(all.take(client, server, 7).unwrap(), a);
        let third = all.take(client, server, 7).unwrap();
        assert!(third != a && third != b);
        all.keep(a, 9);
        assert_ne!(all.take(client, server, 8).unwrap(), a);
    }

    #[test]
    fn ports_are_used_again_once_they_are_free_and_run_out_with_a_sentence() {
        let (client, server) = ends();
        let mut all = Connections::default();
        let first = all.open(client, server).unwrap();
        while let Ok(connection) = all.open(client, server) {
            assert_ne!(connection.client, first.client);
        }
        let error = all.open(client, server).unwrap_err().to_string();
        assert!(error.contains("49152 connections"), "{error}");
        all.close(first.client, server);
        assert_eq!(all.open(client, server).unwrap().client, first.client);
    }
}
