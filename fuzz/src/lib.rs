//! Any bytes at all, handed to everything in the engine that reads what somebody else made: nothing panics, and what
//! comes out keeps its promises. One function a target; `fuzz/run` searches, `cargo test -p tailrace-fuzz` replays.

mod calls;
mod connections;
mod conversation;
mod files;
mod kernel;
mod promises;
mod quic;
mod sealed;
mod spans;
mod texts;

use tailrace_core::capture::wire::Kind;

/// The name of a target, which is that of its folder in `corpus/`, and what it does with bytes.
type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: [Target; 26] = [
    ("calls", calls::link),
    ("capture", files::capture),
    ("connections", connections::follow),
    ("names", texts::name),
    ("netlink", kernel::netlink),
    ("proc", kernel::proc),
    ("quic", quic::read),
    ("response", texts::response),
    ("spans", spans::cut),
    ("table", files::table),
    ("tls", sealed::open),
    ("wire_ajp", |bytes| conversation::drive(Kind::Ajp, bytes)),
    ("wire_amqp", |bytes| conversation::drive(Kind::Amqp, bytes)),
    ("wire_cassandra", |bytes| {
        conversation::drive(Kind::Cassandra, bytes)
    }),
    ("wire_dns", |bytes| conversation::drive(Kind::Dns, bytes)),
    ("wire_fastcgi", |bytes| {
        conversation::drive(Kind::FastCgi, bytes)
    }),
    ("wire_http", |bytes| conversation::drive(Kind::Http, bytes)),
    ("wire_http2", |bytes| {
        conversation::drive(Kind::Http2, bytes)
    }),
    ("wire_kafka", |bytes| {
        conversation::drive(Kind::Kafka, bytes)
    }),
    ("wire_ldap", |bytes| conversation::drive(Kind::Ldap, bytes)),
    ("wire_memcached", |bytes| {
        conversation::drive(Kind::Memcached, bytes)
    }),
    ("wire_mongodb", |bytes| {
        conversation::drive(Kind::MongoDb, bytes)
    }),
    ("wire_mysql", |bytes| {
        conversation::drive(Kind::MySql, bytes)
    }),
    ("wire_opaque", |bytes| {
        conversation::drive(Kind::Opaque, bytes)
    }),
    ("wire_postgres", |bytes| {
        conversation::drive(Kind::Postgres, bytes)
    }),
    ("wire_redis", |bytes| {
        conversation::drive(Kind::Redis, bytes)
    }),
];

pub fn target(name: &str) -> Option<fn(&[u8])> {
    let found = TARGETS.iter().find(|(known, _)| *known == name);
    found.map(|&(_, run)| run)
}

/// Numbers out of the bytes of an input; zero where it has ended.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn short(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn is_over(&self) -> bool {
        self.0.is_empty()
    }
}
