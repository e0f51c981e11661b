//! What the two hellos of a handshake say (RFC 5246 and 8446, section 4.1): random numbers, the version, the cipher suite,
//! the name of the server and the protocol inside.

use super::keys::Random;

const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;
const SERVER_NAME: u16 = 0;
const ALPN: u16 = 16;
const SUPPORTED_VERSIONS: u16 = 43;
/// The longest name that is kept, and protocols of an offer.
const NAME_MAX: usize = 100;
const OFFERS_MAX: usize = 4;
/// The random number of a HelloRetryRequest of TLS 1.3, which asks for another ClientHello: the hash of that word.
const RETRY: Random = *b"\xcf\x21\xad\x74\xe5\x9a\x61\x11\xbe\x1d\x8c\x02\x1e\x65\xb8\x91\xc2\xa2\x11\x16\x7a\xbb\x8c\x5e\x07\x9e\x09\xe2\xc8\xa8\x33\x9c";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hello {
    Client {
        random: Random,
        /// `shop.example (h2, http/1.1)`: the server's name and the protocols that the client offers.
        asked: String,
    },
    Server {
        random: Random,
        suite: u16,
        is_13: bool,
    },
    /// The server asks for another hello; it speaks TLS 1.3.
    Retry,
}

/// The first message of a handshake record, as far as it is there.
pub fn read(message: &[u8]) -> Option<Hello> {
    let mut rest = Rest(message);
    let kind = rest.take(1)?[0];
    rest.take(3 + 2)?;
    let random: Random = rest.take(32)?.try_into().ok()?;
    rest.counted(1)?;
    match kind {
        CLIENT_HELLO => {
            // The offer is a help only: a hello that is cut has none.
            let asked = rest
                .counted(2)
                .and_then(|_| rest.counted(1))
                .map(|_| asked(&mut rest));
            Some(Hello::Client {
                random,
                asked: asked.unwrap_or_default(),
            })
        }
        SERVER_HELLO if random == RETRY => Some(Hello::Retry),
        SERVER_HELLO => {
            let suite = rest.number()?;
            rest.take(1)?;
            let mut is_13 = false;
            each_extension(&mut rest, |kind, value| {
                is_13 |= kind == SUPPORTED_VERSIONS && value == [3, 4];
            });
            Some(Hello::Server {
                random,
                suite,
                is_13,
            })
        }
        _ => None,
    }
}

fn asked(rest: &mut Rest<'_>) -> String {
    let (mut name, mut offers) = (String::new(), Vec::new());
    each_extension(rest, |kind, value| match kind {
        SERVER_NAME => {
            // A list of names, of which only one kind was ever defined.
            let host = Rest(value)
                .counted(2)
                .and_then(|list| Rest(list.get(1..)?).counted(2));
            name = host.map_or(String::new(), plain);
        }
        ALPN => {
            let mut list = Rest(Rest(value).counted(2).unwrap_or(&[]));
            while let Some(offer) = list.counted(1).filter(|_| offers.len() < OFFERS_MAX) {
                offers.push(plain(offer));
            }
        }
        _ => {}
    });
    match (name.is_empty(), offers.is_empty()) {
        (_, true) => name,
        (true, false) => format!("({})", offers.join(", ")),
        (false, false) => format!("{name} ({})", offers.join(", ")),
    }
}

/// What may be shown of a name from the wire.
fn plain(name: &[u8]) -> String {
    let shown = |byte: &u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' | b'/' => char::from(*byte),
        _ => '?',
    };
    name.iter().take(NAME_MAX).map(shown).collect()
}

fn each_extension<'a>(rest: &mut Rest<'a>, mut each: impl FnMut(u16, &'a [u8])) {
    // A hello that is cut holds some of them.
    let Some(_) = rest.number() else { return };
    while let Some(kind) = rest.number() {
        match rest.counted(2) {
            Some(value) => each(kind, value),
            None => return,
        }
    }
}

struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u16> {
        self.take(2)?.try_into().ok().map(u16::from_be_bytes)
    }

    /// Bytes behind their count, which has `width` bytes.
    fn counted(&mut self, width: usize) -> Option<&'a [u8]> {
        let count = self
            .take(width)?
            .iter()
            .fold(0, |n, &byte| n << 8 | usize::from(byte));
        self.take(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_names_server_and_protocols() {
        let name = b"\0\0\0\x0b\0\x09\0\0\x06a.test";
        let alpn = b"\0\x10\0\x05\0\x03\x02h2";
        let extensions = [&[0, (name.len() + alpn.len()) as u8][..], name, alpn].concat();
        let hello = [
            &b"\x01\0\0\0\x03\x03"[..],
            &[9; 32],
            b"\0\0\x02\x13\x01\x01\0",
            &extensions,
        ]
        .concat();
        let expected = |asked: &str| {
            Some(Hello::Client {
                random: [9; 32],
                asked: asked.to_owned(),
            })
        };
        assert_eq!(read(&hello), expected("a.test (h2)"));
        assert_eq!(read(&hello[..hello.len() - 4]), expected("a.test"));
        assert_eq!(read(&hello[..40]), expected(""));
        assert_eq!(read(&hello[..30]), None);
    }

    #[test]
    fn a_server_chooses() {
        let hello = |random: [u8; 32]| {
            [
                &b"\x02\0\0\0\x03\x03"[..],
                &random,
                b"\0\x13\x02\0\0\x06\0\x2b\0\x02\x03\x04",
            ]
            .concat()
        };
        let expected = Hello::Server {
            random: [5; 32],
            suite: 0x1302,
            is_13: true,
        };
        assert_eq!(read(&hello([5; 32])), Some(expected));
        assert_eq!(read(&hello(RETRY)), Some(Hello::Retry));
    }
}
