//! Headers of QUIC packets, as far as they are not protected (RFC 8999, RFC 9000, section 17, and RFC 9369), and the
//! numbers of variable length (RFC 9000, section 16).

use serde::{Deserialize, Serialize};

pub const V1: u32 = 1;
pub const V2: u32 = 0x6b33_43cf;
const ID_MAX: usize = 20;
const LONG: u8 = 0x80;
const FIXED: u8 = 0x40;

/// A connection id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
pub struct Id {
    len: u8,
    bytes: [u8; ID_MAX],
}

impl Id {
    pub fn of(bytes: &[u8]) -> Option<Id> {
        let mut id = Id {
            len: bytes.len() as u8,
            ..Id::default()
        };
        id.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(id)
    }

    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len()).unwrap_or(&[])
    }

    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Initial,
    Early,
    Handshake,
    Retry,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    Long {
        kind: Kind,
        version: u32,
        to: Id,
        from: Id,
        /// Where the protected packet number begins.
        number_at: usize,
    },
    /// A packet of an open connection: the id follows its first byte, and only its receiver knows how long it is.
    Short,
    /// The server speaks other versions, which begin at this place.
    Negotiation {
        to: Id,
        from: Id,
        versions_at: usize,
    },
}

/// The first packet of a datagram, and its length. None: this is no packet of QUIC, or of another version.
pub fn first(datagram: &[u8]) -> Option<(Header, usize)> {
    let mut rest = Rest(datagram);
    let first = rest.byte()?;
    if first & LONG == 0 {
        return (first & FIXED != 0).then_some((Header::Short, datagram.len()));
    }
    let version = u32::from_be_bytes(rest.take(4)?.try_into().ok()?);
    let (to, from) = (rest.id()?, rest.id()?);
    if version == 0 {
        let sound = !rest.0.is_empty() && rest.0.len() % 4 == 0;
        let negotiation = Header::Negotiation {
            to,
            from,
            versions_at: datagram.len() - rest.0.len(),
        };
        return sound.then_some((negotiation, datagram.len()));
    }
    let kind = match (version, first >> 4 & 3) {
        (V1, 0) | (V2, 1) => Kind::Initial,
        (V1, 1) | (V2, 2) => Kind::Early,
        (V1, 2) | (V2, 3) => Kind::Handshake,
        (V1, 3) | (V2, 0) => Kind::Retry,
        _ => return None,
    };
    if first & FIXED == 0 {
        return None;
    }
    let mut len = datagram.len();
    let mut number_at = len;
    if kind != Kind::Retry {
        if kind == Kind::Initial {
            let token = rest.length()?;
            rest.take(token)?;
        }
        let protected = rest.length()?;
        number_at = len - rest.0.len();
        rest.take(protected)?;
        len -= rest.0.len();
    }
    let header = Header::Long {
        kind,
        version,
        to,
        from,
        number_at,
    };
    Some((header, len))
}

/// The unread part of something.
pub struct Rest<'a>(pub &'a [u8]);

impl<'a> Rest<'a> {
    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    /// A number of 1, 2, 4 or 8 bytes, below 2^62.
    pub fn number(&mut self) -> Option<u64> {
        let first = *self.0.first()?;
        let bytes = self.take(1 << (first >> 6))?;
        let (head, tail) = bytes.split_first()?;
        let begin = u64::from(head & 0x3f);
        Some(tail.iter().fold(begin, |n, &byte| n << 8 | u64::from(byte)))
    }

    pub fn length(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok()
    }

    pub fn id(&mut self) -> Option<Id> {
        let len = self.byte()?;
        Id::of(self.take(usize::from(len))?)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_rfc() {
        for (bytes, number) in [
            (
                &b"\xc2\x19\x7c\x5e\xff\x14\xe8\x8c"[..],
                151_288_809_941_952_652,
            ),
            (b"\x9d\x7f\x3e\x7d", 494_878_333),
            (b"\x7b\xbd", 15_293),
            (b"\x25", 37),
        ] {
            assert_eq!(Rest(bytes).number(), Some(number));
            assert_eq!(Rest(&bytes[..bytes.len() - 1]).number(), None);
        }
    }

    #[test]
    fn headers() {
        let initial = b"\xc3\0\0\0\x01\x02ab\x01c\0\x05\0\0\0\0\0more";
        let (header, len) = first(initial).unwrap();
        assert_eq!(len, initial.len() - 4);
        let expected = Header::Long {
            kind: Kind::Initial,
            version: V1,
            to: Id::of(b"ab").unwrap(),
            from: Id::of(b"c").unwrap(),
            number_at: 12,
        };
        assert_eq!(header, expected);
        assert_eq!(first(b"\x40abc"), Some((Header::Short, 4)));
        let negotiation = first(b"\x80\0\0\0\0\x01a\0\0\0\0\x01");
        assert_eq!(negotiation.map(|(_, len)| len), Some(12));
        for damaged in [&b""[..], b"\x00abc", b"\xc0\0\0\0\x07\0\0", &initial[..14]] {
            assert_eq!(first(damaged), None);
        }
    }
}
