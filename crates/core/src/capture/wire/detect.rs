//! The protocol of a connection: from the bytes of both sides, never from the server's port alone.
//!
//! Certain signs (a start line, a magic, a greeting) count on any port. Likely ones (the length and
//! code of a MySQL or PostgreSQL message) count on the protocol's own port, on a server whose
//! protocol is known, or if both sides show them. A connection without a sign is read by change of
//! direction until a message of the client shows one ([`again`]).

use crate::error::Result;
use crate::saved;
use serde::de::DeserializeOwned;

use super::ajp::{self, Ajp};
use super::amqp;
use super::cassandra;
use super::dns;
use super::fastcgi::{self, FastCgi};
use super::http::{self, Http};
use super::http2::{self, Http2};
use super::kafka;
use super::ldap;
use super::memcached::{self, Memcached};
use super::mongodb;
use super::mysql::{self, MySql};
use super::opaque::Opaque;
use super::paired::Paired;
use super::postgres::{self, Postgres};
use super::redis::{self, Redis};
use super::{Kind, Protocol};

/// How certain the first bytes of one side are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sign {
    None,
    Likely,
    Certain,
}

/// The sign in a side's first bytes.
type Looks = fn(&[u8]) -> Sign;

/// To add a protocol: its file, and one line here and in [`open`].
const PROTOCOLS: [(Kind, Looks, Looks); 15] = [
    (Kind::Opaque, tls, tls),
    (Kind::Http, http::client_sign, http::server_sign),
    (Kind::Http2, http2::client_sign, http2::server_sign),
    (Kind::Ajp, ajp::client_sign, ajp::server_sign),
    (Kind::FastCgi, fastcgi::client_sign, fastcgi::server_sign),
    (Kind::MySql, mysql::client_sign, mysql::server_sign),
    (Kind::Postgres, postgres::client_sign, postgres::server_sign),
    (Kind::Redis, redis::client_sign, redis::server_sign),
    (
        Kind::Memcached,
        memcached::client_sign,
        memcached::server_sign,
    ),
    (Kind::MongoDb, mongodb::client_sign, mongodb::server_sign),
    (Kind::Kafka, kafka::client_sign, kafka::server_sign),
    (
        Kind::Cassandra,
        cassandra::client_sign,
        cassandra::server_sign,
    ),
    (Kind::Amqp, amqp::client_sign, amqp::server_sign),
    (Kind::Ldap, ldap::client_sign, ldap::server_sign),
    (Kind::Dns, dns::client_sign, dns::server_sign),
];

/// Common ports of servers: IANA's, and the defaults of servers and proxies.
pub fn usual(port: u16) -> Option<Kind> {
    match port {
        80 | 81 | 3000 | 5000 | 8000..=8008 | 8010..=8099 | 8888 => Some(Kind::Http),
        8009 => Some(Kind::Ajp),
        9000 => Some(Kind::FastCgi),
        // Of gRPC's examples.
        50051 => Some(Kind::Http2),
        3306..=3309 => Some(Kind::MySql),
        5432 | 5433 | 6432 => Some(Kind::Postgres),
        6379..=6381 | 7000..=7005 => Some(Kind::Redis),
        11211 => Some(Kind::Memcached),
        27017..=27019 => Some(Kind::MongoDb),
        9092 => Some(Kind::Kafka),
        9042 => Some(Kind::Cassandra),
        5672 => Some(Kind::Amqp),
        389 => Some(Kind::Ldap),
        53 => Some(Kind::Dns),
        _ => None,
    }
}

/// The protocol in the first bytes of both sides, and its certainty. None: undecided; call again
/// with more.
pub(in crate::capture) fn detect(
    server_port: u16,
    client_first: &[u8],
    server_first: &[u8],
) -> Option<(Kind, Sign)> {
    let mut likely = None;
    for (kind, client, server) in PROTOCOLS {
        let signs = (client(client_first), server(server_first));
        if signs.0.max(signs.1) == Sign::Certain {
            return Some((kind, Sign::Certain));
        }
        let both = signs.0.min(signs.1) == Sign::Likely;
        let either = signs.0.max(signs.1) == Sign::Likely;
        if both && likely.is_none() || either && usual(server_port) == Some(kind) {
            likely = Some((kind, Sign::Likely));
        }
    }
    likely
}

/// The protocol in a message of the client in the middle of a connection, whose server may be
/// `known` to speak something.
pub fn again(server_port: u16, known: Option<Kind>, client: &[u8]) -> Option<Kind> {
    let expected = |kind| known == Some(kind) || usual(server_port) == Some(kind);
    let shown = |(kind, looks, _): &(Kind, Looks, Looks)| match looks(client) {
        Sign::Certain => *kind != Kind::Opaque,
        Sign::Likely => expected(*kind),
        Sign::None => false,
    };
    PROTOCOLS.iter().find(|p| shown(p)).map(|p| p.0)
}

pub fn open(kind: Kind) -> Box<dyn Protocol> {
    match kind {
        Kind::Http => Box::new(Http::default()),
        Kind::Http2 => Box::new(Http2::default()),
        Kind::Ajp => Box::new(Ajp::default()),
        Kind::FastCgi => Box::new(FastCgi::default()),
        Kind::MySql => Box::new(MySql::default()),
        Kind::Postgres => Box::new(Postgres::default()),
        Kind::Redis => Box::new(Redis::default()),
        Kind::Memcached => Box::new(Memcached::default()),
        Kind::MongoDb => Box::new(Paired::<mongodb::MongoDb>::default()),
        Kind::Kafka => Box::new(Paired::<kafka::Kafka>::default()),
        Kind::Cassandra => Box::new(cassandra::Cql::default()),
        Kind::Amqp => Box::new(Paired::<amqp::Amqp>::default()),
        Kind::Ldap => Box::new(Paired::<ldap::Ldap>::default()),
        Kind::Dns => Box::new(Paired::<dns::Dns>::default()),
        Kind::Opaque => Box::new(Opaque::new()),
    }
}

/// The same with the state that [`Protocol::saved`] gave.
pub fn reopen(kind: Kind, state: &[u8]) -> Result<Box<dyn Protocol>> {
    fn of<P: Protocol + DeserializeOwned + 'static>(state: &[u8]) -> Result<Box<dyn Protocol>> {
        let mut protocol: P = saved::value(state)?;
        protocol.revive();
        Ok(Box::new(protocol))
    }
    match kind {
        Kind::Http => of::<Http>(state),
        Kind::Http2 => of::<Http2>(state),
        Kind::Ajp => of::<Ajp>(state),
        Kind::FastCgi => of::<FastCgi>(state),
        Kind::MySql => of::<MySql>(state),
        Kind::Postgres => of::<Postgres>(state),
        Kind::Redis => of::<Redis>(state),
        Kind::Memcached => of::<Memcached>(state),
        Kind::MongoDb => of::<Paired<mongodb::MongoDb>>(state),
        Kind::Kafka => of::<Paired<kafka::Kafka>>(state),
        Kind::Cassandra => of::<cassandra::Cql>(state),
        Kind::Amqp => of::<Paired<amqp::Amqp>>(state),
        Kind::Ldap => of::<Paired<ldap::Ldap>>(state),
        Kind::Dns => of::<Paired<dns::Dns>>(state),
        Kind::Opaque => of::<Opaque>(state),
    }
}

/// `#[serde(with = "detect::state")]` for a protocol.
pub mod state {
    use super::{reopen, Kind, Protocol};
    use serde::de::Error as _;
    use serde::ser::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::ops::Deref;

    pub fn serialize<S: Serializer>(
        protocol: &impl Deref<Target = dyn Protocol>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let state = protocol.saved().map_err(S::Error::custom)?;
        state.serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Box<dyn Protocol>, D::Error> {
        let (kind, state) = <(Kind, Vec<u8>)>::deserialize(from)?;
        reopen(kind, &state).map_err(D::Error::custom)
    }
}

/// A TLS record of version 3.x: a handshake, or the data of an established session. Data of SSL 3.0
/// (RFC 7568: not to be used) is not recognised: a MySQL command of 791 bytes begins the same way.
fn tls(bytes: &[u8]) -> Sign {
    match bytes {
        // Type, version, length below 2^14 + 2048 (RFC 8446, section 5.2); a ClientHello or ServerHello in a handshake.
        [0x16, 3, 0..=4, 0..=0x48, _, 1 | 2, ..] | [0x17, 3, 1..=4, 0..=0x48, ..] => Sign::Certain,
        _ => Sign::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXECUTE: &[u8] = b"\x12\0\0\0\x17\x01\0\0\0";

    fn kind(port: u16, client: &[u8], server: &[u8]) -> Option<Kind> {
        detect(port, client, server).map(|found| found.0)
    }

    #[test]
    fn content_decides_and_the_port_helps() {
        let http = Some(Kind::Http);
        assert_eq!(kind(1234, b"GET /s HTTP/1.1\r\n", b""), http);
        assert_eq!(kind(3306, b"", b"HTTP/1.1 200 OK"), http);
        let tls = [
            &b"\x16\x03\x01\x02\x00\x01\x00"[..],
            b"\x17\x03\x03\x00\x20secret",
        ];
        assert_eq!(
            tls.map(|first| kind(80, first, b"")),
            [Some(Kind::Opaque); 2]
        );
        let forward = b"\x12\x34\x00\x93\x02\x02\x00\x08HTTP";
        assert_eq!(kind(1, forward, b""), Some(Kind::Ajp));
        assert_eq!(kind(1, b"", b"AB\x00\x02\x05\x01"), Some(Kind::Ajp));
        let begin = b"\x01\x01\0\x01\0\x08\0\0\0\x01\0\0\0\0\0\0";
        assert_eq!(kind(80, begin, b""), Some(Kind::FastCgi));
        let stdout = b"\x01\x06\0\x01\x0b\xb8\0\0Content-type";
        assert_eq!(
            [9000, 80].map(|port| kind(port, b"", stdout)),
            [Some(Kind::FastCgi), None]
        );
    }

    #[test]
    fn databases_show_themselves_too() {
        let mysql = Some(Kind::MySql);
        assert_eq!(kind(1, b"", b"\x4a\0\0\0\x0a5.5.5-10.11"), mysql);
        assert_eq!(kind(3306, EXECUTE, b""), mysql);
        assert_eq!(kind(4000, EXECUTE, b""), None);
        let select_of_791_bytes = b"\x17\x03\0\0\x03SELECT";
        assert_eq!(kind(3306, select_of_791_bytes, b""), mysql);
        assert_eq!(kind(4000, EXECUTE, b"\x02\0\0\x01\x03\0"), mysql);
        let postgres = Some(Kind::Postgres);
        assert_eq!(kind(1, b"\0\0\0\x20\0\x03\0\0user", b""), postgres);
        assert_eq!(kind(1, b"\0\0\0\x20\0\x03\0\x02_pq_.", b""), postgres);
        let kafka_metadata = b"\0\0\0\x16\0\x03\0\x02\0\0\0\x01\0\x03abc\0\0\0\x01\0\x03def";
        assert_eq!(kind(9092, kafka_metadata, b""), Some(Kind::Kafka));
        assert_eq!(kind(1, kafka_metadata, b""), None);
        assert_eq!(kind(5432, b"Q\0\0\0\x0dSELECT 1\0", b""), postgres);
        assert_eq!(kind(1, b"S\0\0\0\x04", b"Z\0\0\0\x05I"), postgres);
        assert_eq!(kind(1, b"*1\r\n$4\r\nPING\r\n", b""), Some(Kind::Redis));
        assert_eq!(kind(6379, b"", b"+PONG\r\n"), Some(Kind::Redis));
        assert_eq!(kind(1, b"", b"+PONG\r\n"), None);
    }

    /// Number, protocol 0, length, unit, function, address or length, and values (MODBUS Messaging on TCP/IP, V1.0b).
    #[test]
    fn modbus_is_no_frame_of_http2() {
        for number in 0..=u16::MAX {
            let [high, low] = number.to_be_bytes();
            for address in [0, 1, 2] {
                let ask = [high, low, 0, 0, 0, 6, 1, 3, address, 0, 0, 10];
                let answer = [high, low, 0, 0, 0, 7, 1, 3, 4, 0, 1, 0, 2];
                assert_eq!(kind(502, &ask, &answer), None);
                assert_eq!(kind(502, &[ask, ask].concat(), &answer), None);
            }
        }
    }

    #[test]
    fn a_port_alone_says_nothing() {
        for port in [80, 8080, 9000, 3306, 4000] {
            assert_eq!(kind(port, &[b'x'; 640], &[b'x'; 640]), None);
        }
    }

    #[test]
    fn a_message_in_the_middle_shows_its_protocol() {
        assert_eq!(again(1234, None, b"POST /a HTTP/1.1\r\n"), Some(Kind::Http));
        assert_eq!(again(4000, None, EXECUTE), None);
        assert_eq!(again(4000, Some(Kind::MySql), EXECUTE), Some(Kind::MySql));
        assert_eq!(again(3306, None, EXECUTE), Some(Kind::MySql));
        assert_eq!(again(443, None, b"\x17\x03\x03\x00\x20secret"), None);
    }
}
