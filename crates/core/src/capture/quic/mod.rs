//! QUIC (RFC 9000 and 9369): datagrams → connections, handshakes, and with secrets the requests of HTTP/3 in them.
//! ```text
//! packet     headers                  protect     packets → payloads: Initial ones always, others with their secrets
//! frames     payloads → frames        order       bytes in their order, sets of packet numbers
//! connection handshake, losses        requests    streams → visits       http3, qpack   what is in a stream
//! ```
//! A connection begins with a client's Initial packet that its own key opens, so that no other datagram can be taken for
//! one. Its packets are found by the ids in them, or else by their ends, so that a client may change its address.
//! Nobody repeats a packet: a packet number that comes again is a copy, and lost bytes come with a new number.

mod connection;
mod frames;
mod http3;
mod order;
mod packet;
mod protect;
mod qpack;
mod requests;
#[cfg(test)]
mod tests;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::ledger::Ledger;
use super::wire::Side;
use super::{Endpoint, Segment};
use connection::{Connection, Level};
use packet::{first, Header, Id, Kind};

/// Connections that are followed at once. When there are more, the more silent half is given up.
const CONNECTIONS: usize = 1 << 13;
/// Bytes that the streams of all connections hold together. When there are more, the more silent half is given up as well.
const HELD_MAX: usize = 128 << 20;
/// Ids of so many bytes are hardly ever equal by chance.
const DISTINCT: usize = 4;
/// Packets of one datagram.
const COALESCED_MAX: usize = 16;

/// For the report of a reading.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Report {
    /// Connections whose client's first packet is in the capture; those that the server answered, and those whose
    /// handshake was completed.
    pub connections: u64,
    pub answered: u64,
    pub handshakes: u64,
    pub unanswered: u64,
    /// Servers that wanted another first packet: with a token, or of another version.
    pub retries: u64,
    pub negotiations: u64,
    /// First packets that were sent again because nobody had answered; those that never reached the server, as its
    /// acknowledgements show.
    pub repeated: u64,
    pub initials_lost: u64,
    /// From the client's hello, as it reached the server, to the first packet of the server.
    pub answer_min_ns: Option<i64>,
    pub answer_max_ns: i64,
    /// Changes of a client's address.
    pub migrations: u64,
    /// Requests that were read; connections with packets that stay closed, and none that was read.
    pub requests: u64,
    pub closed: u64,
    pub packets_unread: u64,
    /// Packets that were sent and never acknowledged; those that were acknowledged, and not captured.
    pub packets_lost: u64,
    pub packets_unseen: u64,
    /// Datagrams of which the capture holds only the beginning.
    pub cut: u64,
    /// Connections given up because too many were open.
    pub evicted: u64,
}

#[derive(Default, Deserialize, Serialize)]
pub struct Quic {
    open: FxHashMap<u32, Connection>,
    serial: u32,
    /// By an id and the server's end.
    by_id: FxHashMap<(Id, Endpoint), u32>,
    /// By both ends, the smaller first.
    by_ends: FxHashMap<(Endpoint, Endpoint), u32>,
    /// Bit n: some id has n bytes.
    lengths: u32,
    /// Bytes that the streams of all connections hold.
    held: usize,
    #[serde(skip)]
    scratch: Vec<u8>,
}

/// Reads payloads on one connection as if their packets had been opened: damaged bytes pass no seal. Each has its side and
/// whether it is part of the handshake. `http3`: the streams hold frames of HTTP/3.
pub fn read_plain<'p>(
    http3: bool,
    payloads: impl IntoIterator<Item = (Side, bool, &'p [u8])>,
) -> Ledger {
    let [client, server] = [1, 2].map(|host| Endpoint {
        ip: std::net::Ipv4Addr::new(10, 0, 0, host).into(),
        port: 443,
    });
    let mut ledger = Ledger::default();
    let mut connection = Connection::new(client, server, packet::V1, Id::default(), 0);
    connection.speak_http3(http3);
    for (number, (side, shaking, payload)) in (0_u32..).zip(payloads) {
        let level = if shaking { Level::Initial } else { Level::Data };
        let opened = Some((u64::from(number), payload));
        connection.packet(side, level, opened, i64::from(number), &mut ledger);
    }
    connection.finish(&mut ledger);
    ledger
}

fn ends(segment: &Segment<'_>) -> (Endpoint, Endpoint) {
    both(segment.from, segment.to)
}

fn both(one: Endpoint, other: Endpoint) -> (Endpoint, Endpoint) {
    (one.min(other), one.max(other))
}

impl Quic {
    pub fn datagram(&mut self, segment: &Segment<'_>, ledger: &mut Ledger) {
        let mut rest = segment.payload;
        for _ in 0..COALESCED_MAX {
            let Some((header, len)) = first(rest) else {
                break;
            };
            let Some((packet, more)) = rest.split_at_checked(len) else {
                break;
            };
            self.packet(header, packet, segment, ledger);
            rest = more;
        }
        // A packet that is cut has no end to be opened at.
        let known = self.by_ends.contains_key(&ends(segment));
        ledger.quic.cut +=
            u64::from(known && (segment.payload.len() as u64) < u64::from(segment.len));
    }

    fn packet(
        &mut self,
        header: Header,
        packet: &[u8],
        segment: &Segment<'_>,
        ledger: &mut Ledger,
    ) {
        let time = segment.time;
        match header {
            Header::Negotiation {
                to,
                from,
                versions_at,
            } => {
                let versions = packet.get(versions_at..).unwrap_or(&[]);
                if let Some((_, Side::Server, connection)) = self.find(Some(to), segment) {
                    connection.negotiate([to, from], versions, time, ledger);
                }
            }
            Header::Short => self.short(packet, segment, ledger),
            Header::Long {
                kind: Kind::Retry,
                from,
                to,
                ..
            } => {
                if let Some((serial, Side::Server, connection)) = self.find(Some(to), segment) {
                    if connection.retry(from, packet, time, ledger) {
                        self.know(serial, from);
                    }
                }
            }
            Header::Long {
                kind,
                version,
                to,
                from,
                number_at,
            } => {
                let known = self.find(Some(to), segment).map(|(serial, ..)| serial);
                let known = known
                    .filter(|&serial| !self.begins_anew(serial, kind, version, &to, segment))
                    .or_else(|| match kind {
                        Kind::Initial => {
                            self.begin(version, to, (packet, number_at), segment, ledger)
                        }
                        _ => None,
                    });
                if let Some(serial) = known {
                    self.know(serial, from);
                    let level = (Level::of(kind), version, to);
                    self.read(serial, level, (packet, number_at), segment, ledger);
                }
            }
        }
    }

    /// A packet of an open connection.
    fn short(&mut self, packet: &[u8], segment: &Segment<'_>, ledger: &mut Ledger) {
        let known = self.known_id(packet, segment);
        let ends = || self.by_ends.get(&ends(segment)).copied();
        let Some(serial) = known.map(|(_, serial)| serial).or_else(ends) else {
            return;
        };
        // Without an id, the packet number follows the first byte.
        let number_at = 1 + known.map_or(0, |(len, _)| len);
        let level = (Level::Data, 0, Id::default());
        self.read(serial, level, (packet, number_at), segment, ledger);
    }

    /// The connection of a packet, and who sent it.
    fn find(
        &mut self,
        to: Option<Id>,
        segment: &Segment<'_>,
    ) -> Option<(u32, Side, &mut Connection)> {
        let by_id = |end: Endpoint| self.by_id.get(&(to?, end)).copied();
        let serial = by_id(segment.to).or_else(|| by_id(segment.from));
        let serial = serial.or_else(|| self.by_ends.get(&ends(segment)).copied())?;
        let connection = self.open.get_mut(&serial)?;
        let side = side_of(connection, segment);
        Some((serial, side, connection))
    }

    /// The longest known id in a short header: its length, and its connection. A short id is found by chance in the packets
    /// of others, so that it counts only at the ends of its connection.
    fn known_id(&self, packet: &[u8], segment: &Segment<'_>) -> Option<(usize, u32)> {
        let here = self.by_ends.get(&ends(segment)).copied();
        (1..=20)
            .rev()
            .filter(|len| self.lengths >> len & 1 == 1)
            .find_map(|len| {
                let id = Id::of(packet.get(1..=len)?)?;
                let by_id = |end| self.by_id.get(&(id, end)).map(|&serial| (len, serial));
                let found = by_id(segment.to).or_else(|| by_id(segment.from));
                found.filter(|&(len, serial)| len >= DISTINCT || here == Some(serial))
            })
    }

    /// Whether a client begins a new connection at the same ends as an earlier one.
    fn begins_anew(
        &self,
        serial: u32,
        kind: Kind,
        version: u32,
        to: &Id,
        segment: &Segment<'_>,
    ) -> bool {
        let Some(connection) = self.open.get(&serial) else {
            return true;
        };
        let by_id = self.by_id.get(&(*to, segment.to)) == Some(&serial);
        let by_client = side_of(connection, segment) == Side::Client;
        kind == Kind::Initial
            && by_client
            && !by_id
            && version == connection.version
            && connection.is_answered()
    }

    /// A client's first packet, which its own key opens.
    fn begin(
        &mut self,
        version: u32,
        to: Id,
        (packet, number_at): (&[u8], usize),
        segment: &Segment<'_>,
        ledger: &mut Ledger,
    ) -> Option<u32> {
        let (client, server) = (segment.from, segment.to);
        let mut connection = Connection::new(client, server, version, to, segment.time);
        let mut scratch = std::mem::take(&mut self.scratch);
        let opened = connection.open(
            Side::Client,
            (Level::Initial, version, to),
            (packet, number_at),
            &mut scratch,
        );
        self.scratch = scratch;
        opened?;
        if self.open.len() >= CONNECTIONS {
            self.make_room(ledger);
        }
        ledger.quic.connections += 1;
        self.serial = self.serial.wrapping_add(1);
        self.open.insert(self.serial, connection);
        self.by_ends.insert(ends(segment), self.serial);
        self.know(self.serial, to);
        Some(self.serial)
    }

    /// The connection is found by this id.
    fn know(&mut self, serial: u32, id: Id) {
        if let Some(connection) = self.open.get_mut(&serial) {
            connection.add_id(id);
            index_ids(connection, serial, &mut self.by_id, &mut self.lengths);
        }
    }

    fn read(
        &mut self,
        serial: u32,
        (level, version, to): (Level, u32, Id),
        (packet, number_at): (&[u8], usize),
        segment: &Segment<'_>,
        ledger: &mut Ledger,
    ) {
        let Some(connection) = self.open.get_mut(&serial) else {
            return;
        };
        let side = side_of(connection, segment);
        let mut scratch = std::mem::take(&mut self.scratch);
        let opened = connection.open(
            side,
            (level, version, to),
            (packet, number_at),
            &mut scratch,
        );
        let (known, held) = (connection.ids.len(), connection.held());
        let payload = opened
            .as_ref()
            .and_then(|opened| Some((opened.number, scratch.get(..opened.len)?)));
        let far = if side == Side::Client {
            segment.from
        } else {
            segment.to
        };
        // A packet with a copied id changes nothing, unless no packet can be opened anyway.
        let genuine = payload.is_some() || !connection.has_keys();
        if far != connection.client && level == Level::Data && genuine {
            ledger.quic.migrations += 1;
            // Packets to the last address may still come. Those before it would fill the memory.
            if let Some(before) = connection.move_to(far) {
                let before = both(before, connection.server);
                if self.by_ends.get(&before) == Some(&serial) {
                    self.by_ends.remove(&before);
                }
            }
            self.by_ends.insert(ends(segment), serial);
        }
        connection.packet(side, level, payload, segment.time, ledger);
        if connection.ids.len() > known {
            index_ids(connection, serial, &mut self.by_id, &mut self.lengths);
        }
        self.held = self.held.saturating_sub(held) + connection.held();
        self.scratch = scratch;
        if self.held > HELD_MAX {
            self.make_room(ledger);
        }
    }

    fn make_room(&mut self, ledger: &mut Ledger) {
        let mut times: Vec<i64> = self
            .open
            .values()
            .map(|connection| connection.last)
            .collect();
        times.sort_unstable();
        let Some(&middle) = times.get(times.len() / 2) else {
            return;
        };
        let silent = self
            .open
            .iter()
            .filter(|(_, connection)| connection.last <= middle);
        let mut silent: Vec<u32> = silent.map(|(&serial, _)| serial).collect();
        silent.sort_unstable();
        for serial in silent {
            if let Some(mut connection) = self.open.remove(&serial) {
                ledger.quic.evicted += 1;
                connection.finish(ledger);
            }
        }
        self.held = self.open.values().map(Connection::held).sum();
        let open = &self.open;
        self.by_id.retain(|_, serial| open.contains_key(serial));
        self.by_ends.retain(|_, serial| open.contains_key(serial));
    }

    /// Derives again what a saved state does not hold.
    pub fn revive(&mut self, ledger: &Ledger) {
        for connection in self.open.values_mut() {
            connection.revive(ledger);
        }
    }

    /// The recording is over.
    pub fn finish(&mut self, ledger: &mut Ledger) {
        let mut all: Vec<(u32, Connection)> = self.open.drain().collect();
        all.sort_unstable_by_key(|(serial, _)| *serial);
        for (_, connection) in &mut all {
            connection.finish(ledger);
        }
    }
}

fn side_of(connection: &Connection, segment: &Segment<'_>) -> Side {
    match segment.from == connection.server {
        true => Side::Server,
        false => Side::Client,
    }
}

fn index_ids(
    connection: &Connection,
    serial: u32,
    by_id: &mut FxHashMap<(Id, Endpoint), u32>,
    lengths: &mut u32,
) {
    for id in connection.ids.iter().filter(|id| !id.is_empty()) {
        by_id.insert((*id, connection.server), serial);
        *lengths |= 1 << id.len();
    }
}
