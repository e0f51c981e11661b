//! How many connections of QUIC a capture begins: handshakes by both ends.

use super::headers::Network;
use super::short;
use rustc_hash::FxHashSet;
use std::net::SocketAddr;

/// Connections that are distinguished, about 6 MB.
const CONNECTIONS: usize = 1 << 16;

#[derive(Default)]
pub(super) struct Handshakes(FxHashSet<(SocketAddr, SocketAddr)>);

impl Handshakes {
    /// A datagram with a packet of a handshake.
    pub fn add(&mut self, datagram: &Network<'_>) {
        let (Ok(from), Ok(to)) = (short(datagram.bytes, 0), short(datagram.bytes, 2)) else {
            return;
        };
        let ends = [
            SocketAddr::new(datagram.from, from),
            SocketAddr::new(datagram.to, to),
        ];
        if self.0.len() < CONNECTIONS {
            self.0.insert((ends[0].min(ends[1]), ends[0].max(ends[1])));
        }
    }

    /// Pairs of ends; there may be more if this is [`CONNECTIONS`].
    pub fn connections(&self) -> u64 {
        self.0.len() as u64
    }
}
