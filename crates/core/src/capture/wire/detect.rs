//! Which protocol a connection speaks: by its first bytes, and by the server's port where these could be several.
//!
//! Certain signs (a start line, a magic, a greeting) count on any port. Likely ones (the length and code of a MySQL or
//! PostgreSQL message) count on the protocol's own port, or if both sides show them. A connection that was open before
//! the recording began may show nothing for a while: on a known port it is then read as what that port is for.

use super::ajp::{self, Ajp};
use super::http::{self, Http};
use super::mysql::{self, MySql};
use super::opaque::Opaque;
use super::postgres::{self, Postgres};
use super::redis::{self, Redis};
use super::{Kind, Protocol};

/// How sure the first bytes of one side make us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sign {
    None,
    Likely,
    Certain,
}

/// What a side's first bytes say.
type Looks = fn(&[u8]) -> Sign;

/// Adding a protocol: its file, and one line here and in [`open`].
const PROTOCOLS: [(Kind, Looks, Looks); 6] = [
    (Kind::Opaque, tls, tls),
    (Kind::Http, http::client_sign, http::server_sign),
    (Kind::Ajp, ajp::client_sign, ajp::server_sign),
    (Kind::MySql, mysql::client_sign, mysql::server_sign),
    (Kind::Postgres, postgres::client_sign, postgres::server_sign),
    (Kind::Redis, redis::client_sign, redis::server_sign),
];

/// Ports by which servers are commonly reached: IANA's, and the defaults of servers and proxies.
fn usual(port: u16) -> Option<Kind> {
    match port {
        80 | 81 | 3000 | 5000 | 8000..=8008 | 8010..=8099 | 8888 | 9000 => Some(Kind::Http),
        8009 => Some(Kind::Ajp),
        3306..=3309 => Some(Kind::MySql),
        5432 | 5433 | 6432 => Some(Kind::Postgres),
        6379..=6381 | 7000..=7005 => Some(Kind::Redis),
        _ => None,
    }
}

/// So many bytes without a sign, and the port decides: more than any start line or greeting needs to show itself.
const PORT_DECIDES: usize = 64;

/// None: not yet decided, to be asked again with more.
pub fn detect(server_port: u16, client_first: &[u8], server_first: &[u8]) -> Option<Kind> {
    let hint = usual(server_port);
    let mut likely = None;
    for (kind, client, server) in PROTOCOLS {
        let signs = (client(client_first), server(server_first));
        if signs.0.max(signs.1) == Sign::Certain {
            return Some(kind);
        }
        let both = signs.0.min(signs.1) == Sign::Likely;
        let either = signs.0.max(signs.1) == Sign::Likely;
        if both && likely.is_none() || either && hint == Some(kind) {
            likely = Some(kind);
        }
    }
    likely.or(hint.filter(|_| client_first.len() + server_first.len() >= PORT_DECIDES))
}

pub fn open(kind: Kind) -> Box<dyn Protocol> {
    match kind {
        Kind::Http => Box::new(Http::default()),
        Kind::Ajp => Box::new(Ajp::default()),
        Kind::MySql => Box::new(MySql::default()),
        Kind::Postgres => Box::new(Postgres::default()),
        Kind::Redis => Box::new(Redis::default()),
        Kind::Opaque => Box::new(Opaque::new()),
    }
}

/// A TLS record of version 3.x: a handshake, or the data of one long over. Data of SSL 3.0 (RFC 7568: not to be used) is
/// not looked for: a MySQL command of 791 bytes begins the same way.
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

    #[test]
    fn content_decides_and_the_port_helps() {
        let http = Some(Kind::Http);
        assert_eq!(detect(1234, b"GET /s HTTP/1.1\r\n", b""), http);
        assert_eq!(detect(3306, b"", b"HTTP/1.1 200 OK"), http);
        assert_eq!(
            detect(80, b"\x16\x03\x01\x02\x00\x01\x00", b""),
            Some(Kind::Opaque)
        );
        assert_eq!(
            detect(443, b"\x17\x03\x03\x00\x20secret", b""),
            Some(Kind::Opaque)
        );
        assert_eq!(
            detect(1, b"\x12\x34\x00\x93\x02\x02\x00\x08HTTP", b""),
            Some(Kind::Ajp)
        );
        assert_eq!(detect(1, b"", b"AB\x00\x02\x05\x01"), Some(Kind::Ajp));
        assert_eq!(
            detect(1, b"", b"\x4a\0\0\0\x0a5.5.5-10.11"),
            Some(Kind::MySql)
        );
        let execute = b"\x12\0\0\0\x17\x01\0\0\0";
        assert_eq!(detect(3306, execute, b""), Some(Kind::MySql));
        assert_eq!(detect(4000, execute, b""), None);
        let select_of_791_bytes = b"\x17\x03\0\0\x03SELECT";
        assert_eq!(detect(3306, select_of_791_bytes, b""), Some(Kind::MySql));
        assert_eq!(
            detect(4000, execute, b"\x02\0\0\x01\x03\0"),
            Some(Kind::MySql)
        );
    }

    #[test]
    fn databases_show_themselves_too() {
        assert_eq!(
            detect(1, b"\0\0\0\x20\0\x03\0\0user", b""),
            Some(Kind::Postgres)
        );
        assert_eq!(
            detect(5432, b"Q\0\0\0\x0dSELECT 1\0", b""),
            Some(Kind::Postgres)
        );
        assert_eq!(
            detect(1, b"S\0\0\0\x04", b"Z\0\0\0\x05I"),
            Some(Kind::Postgres)
        );
        assert_eq!(detect(1, b"*1\r\n$4\r\nPING\r\n", b""), Some(Kind::Redis));
        assert_eq!(detect(6379, b"", b"+PONG\r\n"), Some(Kind::Redis));
        assert_eq!(detect(1, b"", b"+PONG\r\n"), None);
    }

    #[test]
    fn a_connection_without_signs_waits_and_then_goes_by_its_port() {
        assert_eq!(detect(80, b"", b""), None);
        assert_eq!(detect(80, b"", b"the middle of a page"), None);
        assert_eq!(detect(80, b"", &[b'x'; 64]), Some(Kind::Http));
        assert_eq!(detect(4000, b"", &[b'x'; 640]), None);
    }
}
