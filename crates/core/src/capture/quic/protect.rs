//! The protection of packets (RFC 9001, section 5; RFC 9369, section 3.3): first that of the header, which hides the
//! packet number, then that of the payload.

use ring::aead::quic::{self, HeaderProtectionKey};
use ring::aead::{self, Aad, LessSafeKey, Nonce};
use ring::hmac;

use super::packet::{Id, V2};
use crate::capture::tls::{Secret, Suite};

const IV: usize = 12;
const SAMPLE: usize = 16;
/// A sample begins where a packet number of this length would end.
const NUMBER_MAX: usize = 4;
const SALT_V1: [u8; 20] =
    *b"\x38\x76\x2c\xf7\xf5\x59\x34\xb3\x4d\x17\x9a\xe6\xa4\xc8\x0c\xad\xcc\xbb\x7f\x0a";
const SALT_V2: [u8; 20] =
    *b"\x0d\xed\xe3\xde\xf7\x00\xa6\xdb\x81\x93\x81\xbe\x6e\x26\x9d\xcb\xf9\xbd\x2e\xd9";
/// The keys and nonces of the tag that ends a Retry packet.
const RETRY_V1: ([u8; 16], [u8; IV]) = (
    *b"\xbe\x0c\x69\x0b\x9f\x66\x57\x5a\x1d\x76\x6b\x54\xe3\x68\xc8\x4e",
    *b"\x46\x15\x99\xd3\x5d\x63\x2b\xf2\x23\x98\x25\xbb",
);
const RETRY_V2: ([u8; 16], [u8; IV]) = (
    *b"\x8f\xb4\xb0\x1b\x56\xac\x48\xe2\x60\xfb\xcb\xce\xad\x7c\xcc\x92",
    *b"\xd8\x69\x69\xbc\x2d\x7c\x6d\x99\x90\xef\xb0\x4a",
);
const PHASE: u8 = 0x04;
/// Updates of the key that may lie in a hole of the capture.
const UPDATES_MAX: usize = 3;

/// Opens the packets that one side sends with the secrets of one level.
pub struct Opener {
    suite: Suite,
    version: u32,
    mask: HeaderProtectionKey,
    secret: Secret,
    current: Key,
    /// The bit of the header that goes with the current key, and the number of the first packet with it.
    phase: bool,
    since: u64,
    previous: Option<Key>,
}

struct Key {
    key: LessSafeKey,
    iv: [u8; IV],
}

/// The number of a packet; its payload is in `scratch`, up to this length.
pub struct Opened {
    pub number: u64,
    pub len: usize,
}

fn label(version: u32, name: &str) -> String {
    format!("quic{} {name}", if version == V2 { "v2" } else { "" })
}

fn expand(suite: &Suite, version: u32, secret: &[u8], name: &str, len: usize) -> Option<Vec<u8>> {
    suite.expand(secret, label(version, name).as_bytes(), len)
}

impl Key {
    fn of(suite: &Suite, version: u32, secret: &[u8]) -> Option<Key> {
        let key = expand(suite, version, secret, "key", suite.key_len())?;
        Some(Key {
            key: suite.key(&key)?,
            iv: expand(suite, version, secret, "iv", IV)?.try_into().ok()?,
        })
    }

    fn open(
        &self,
        number: u64,
        header: &[u8],
        body: &[u8],
        scratch: &mut Vec<u8>,
    ) -> Option<usize> {
        let mut nonce = self.iv;
        let last = nonce.iter_mut().rev().zip(number.to_le_bytes());
        last.for_each(|(byte, of_number)| *byte ^= of_number);
        scratch.clear();
        scratch.extend_from_slice(body);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let opened = self.key.open_in_place(nonce, Aad::from(header), scratch);
        opened.ok().map(|opened| opened.len())
    }
}

impl Opener {
    pub fn new(suite: Suite, version: u32, secret: Secret) -> Option<Opener> {
        let algorithm = match suite.key_len() {
            16 => &quic::AES_128,
            _ if suite.is_chacha() => &quic::CHACHA20,
            _ => &quic::AES_256,
        };
        let mask = expand(&suite, version, &secret, "hp", suite.key_len())?;
        Some(Opener {
            mask: HeaderProtectionKey::new(algorithm, &mask).ok()?,
            current: Key::of(&suite, version, &secret)?,
            suite,
            version,
            secret,
            phase: false,
            since: 0,
            previous: None,
        })
    }

    /// The client's and the server's for Initial packets, whose secrets follow from the id that the client has drawn.
    pub fn of_initial(version: u32, id: &Id) -> Option<[Opener; 2]> {
        let suite = Suite::of(0x1301)?;
        let salt = if version == V2 { SALT_V2 } else { SALT_V1 };
        let salt = hmac::Key::new(hmac::HMAC_SHA256, &salt);
        let secret = hmac::sign(&salt, id.bytes());
        let opener = |label: &[u8]| {
            let secret = suite.expand(secret.as_ref(), label, 32)?;
            Opener::new(suite, version, secret.into())
        };
        Some([opener(b"client in")?, opener(b"server in")?])
    }

    /// `largest`: the largest number so far, from which the short one in the header follows.
    pub fn open(
        &mut self,
        packet: &[u8],
        number_at: usize,
        largest: Option<u64>,
        scratch: &mut Vec<u8>,
    ) -> Option<Opened> {
        let sample = packet.get(number_at + NUMBER_MAX..)?.get(..SAMPLE)?;
        let mask = self.mask.new_mask(sample).ok()?;
        let long = packet.first()? & 0x80 != 0;
        let first = packet.first()? ^ (mask[0] & if long { 0x0f } else { 0x1f });
        let number_len = usize::from(first & 3) + 1;
        let (header, body) = packet.split_at_checked(number_at + number_len)?;
        let mut header = header.to_vec();
        *header.first_mut()? = first;
        let mut short = 0;
        for (byte, mask) in header.get_mut(number_at..)?.iter_mut().zip(&mask[1..]) {
            *byte ^= mask;
            short = short << 8 | u64::from(*byte);
        }
        let number = whole_number(largest, short, 8 * number_len as u32);
        let phase = !long && first & PHASE != 0;
        let len = self.open_payload(phase, number, &header, body, scratch)?;
        Some(Opened { number, len })
    }

    fn open_payload(
        &mut self,
        phase: bool,
        number: u64,
        header: &[u8],
        body: &[u8],
        scratch: &mut Vec<u8>,
    ) -> Option<usize> {
        if phase == self.phase {
            if let Some(len) = self.current.open(number, header, body, scratch) {
                return Some(len);
            }
        } else if number < self.since {
            let previous = self.previous.as_ref()?;
            return previous.open(number, header, body, scratch);
        }
        if header.first()? & 0x80 != 0 {
            return None;
        }
        // The side has updated its key.
        let mut secret = self.secret.clone();
        for update in 0..UPDATES_MAX {
            secret = expand(&self.suite, self.version, &secret, "ku", secret.len())?.into();
            if (phase == self.phase) == (update % 2 == 0) {
                continue;
            }
            let key = Key::of(&self.suite, self.version, &secret)?;
            if let Some(len) = key.open(number, header, body, scratch) {
                self.previous = Some(std::mem::replace(&mut self.current, key));
                (self.secret, self.phase, self.since) = (secret, phase, number);
                return Some(len);
            }
        }
        None
    }
}

/// Whether the tag of a Retry packet shows that it answers an Initial packet to this id (RFC 9001, section 5.8).
pub fn answers(retry: &[u8], version: u32, id: &Id) -> bool {
    let (key, nonce) = if version == V2 { RETRY_V2 } else { RETRY_V1 };
    let tag_at = retry.len().saturating_sub(aead::AES_128_GCM.tag_len());
    let (packet, tag) = retry.split_at(tag_at);
    let whole = [&[id.len() as u8], id.bytes(), packet].concat();
    let key = aead::UnboundKey::new(&aead::AES_128_GCM, &key).map(LessSafeKey::new);
    key.is_ok_and(|key| {
        let nonce = Nonce::assume_unique_for_key(nonce);
        let mut tag = tag.to_vec();
        key.open_in_place(nonce, Aad::from(whole), &mut tag).is_ok()
    })
}

/// RFC 9000, appendix A.3.
fn whole_number(largest: Option<u64>, short: u64, bits: u32) -> u64 {
    let expected = largest.map_or(0, |largest| largest.saturating_add(1));
    let (window, half) = (1_u64 << bits, 1_u64 << (bits - 1));
    let candidate = expected & !(window - 1) | short;
    if candidate.saturating_add(half) <= expected && candidate < (1 << 62) - window {
        candidate + window
    } else if candidate > expected.saturating_add(half) && candidate >= window {
        candidate - window
    } else {
        candidate
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_rfc() {
        assert_eq!(whole_number(Some(0xa82f_30ea), 0x9b32, 16), 0xa82f_9b32);
        assert_eq!(whole_number(None, 0, 8), 0);
        assert_eq!(whole_number(Some(255), 0, 8), 256);
        assert_eq!(whole_number(Some(256), 255, 8), 255);
    }

    /// RFC 9001, appendix A.4.
    #[test]
    fn the_tag_of_the_rfc() {
        let retry = b"\xff\x00\x00\x00\x01\x00\x08\xf0\x67\xa5\x50\x2a\x42\x62\xb5token\x04\xa2\x65\xba\x2e\xff\x4d\x82\x90\x58\xfb\x3f\x0f\x24\x96\xba";
        let id = Id::of(b"\x83\x94\xc8\xf0\x3e\x51\x57\x08").unwrap();
        assert!(answers(retry, super::super::packet::V1, &id));
        assert!(!answers(retry, V2, &id));
        assert!(!answers(retry, super::super::packet::V1, &Id::default()));
        for len in 0..retry.len() {
            assert!(!answers(&retry[..len], super::super::packet::V1, &id));
        }
    }

    /// RFC 9001, appendix A.3: the server's Initial.
    #[test]
    fn a_packet_of_the_rfc() {
        let packet = b"\xcf\x00\x00\x00\x01\x00\x08\xf0\x67\xa5\x50\x2a\x42\x62\xb5\x00\x40\x75\xc0\xd9\x5a\x48\x2c\xd0\x99\x1c\xd2\x5b\x0a\xac\x40\x6a\x58\x16\xb6\x39\x41\x00\xf3\x7a\x1c\x69\x79\x75\x54\x78\x0b\xb3\x8c\xc5\xa9\x9f\x5e\xde\x4c\xf7\x3c\x3e\xc2\x49\x3a\x18\x39\xb3\xdb\xcb\xa3\xf6\xea\x46\xc5\xb7\x68\x4d\xf3\x54\x8e\x7d\xde\xb9\xc3\xbf\x9c\x73\xcc\x3f\x3b\xde\xd7\x4b\x56\x2b\xfb\x19\xfb\x84\x02\x2f\x8e\xf4\xcd\xd9\x37\x95\xd7\x7d\x06\xed\xbb\x7a\xaf\x2f\x58\x89\x18\x50\xab\xbd\xca\x3d\x20\x39\x8c\x27\x64\x56\xcb\xc4\x21\x58\x40\x7d\xd0\x74\xee";
        let id = Id::of(b"\x83\x94\xc8\xf0\x3e\x51\x57\x08").unwrap();
        let mut openers = Opener::of_initial(super::super::packet::V1, &id).unwrap();
        let mut scratch = Vec::new();
        let opened = openers[1].open(packet, 18, None, &mut scratch).unwrap();
        assert_eq!(opened.number, 1);
        assert_eq!(scratch[..5], [2, 0, 0, 0, 0]);
        assert!(openers[0].open(packet, 18, None, &mut scratch).is_none());
        let mut damaged = *packet;
        damaged[60] ^= 1;
        assert!(openers[1].open(&damaged, 18, None, &mut scratch).is_none());
    }
}
