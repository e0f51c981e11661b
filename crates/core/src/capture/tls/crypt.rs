//! Opens the records of one side of a session: AES-GCM and ChaCha20-Poly1305, of TLS 1.2 (RFC 5246, 5288, 7905) and 1.3
//! (RFC 8446). The ciphers are those of *ring*.

use std::collections::VecDeque;

use ring::aead::{
    Aad, LessSafeKey, Nonce, UnboundKey, AES_128_GCM, AES_256_GCM, CHACHA20_POLY1305,
};
use ring::{aead, hkdf, hmac};

use super::keys::Secret;

/// Records that may be missing where some were lost.
const SKIPPED_MAX: u64 = 64;
/// After so many records in a row that no key opens, the rest is left closed.
const FAILURES_MAX: u32 = 8;
const IV: usize = 12;
const TAG: usize = 16;
/// The part of the nonce of AES-GCM in TLS 1.2 that each record carries.
const EXPLICIT: usize = 8;

#[derive(Clone, Copy)]
pub struct Suite {
    aead: &'static aead::Algorithm,
    hkdf: hkdf::Algorithm,
    hmac: hmac::Algorithm,
    chacha: bool,
}

impl Suite {
    /// By IANA's number; None: Tailrace cannot open its records.
    pub fn of(number: u16) -> Option<Suite> {
        let sha256 = (hkdf::HKDF_SHA256, hmac::HMAC_SHA256);
        let sha384 = (hkdf::HKDF_SHA384, hmac::HMAC_SHA384);
        let (aead, (hkdf, hmac)) = match number {
            0x1301 | 0xc02b | 0xc02f | 0x009c | 0x009e => (&AES_128_GCM, sha256),
            0x1302 | 0xc02c | 0xc030 | 0x009d | 0x009f => (&AES_256_GCM, sha384),
            0x1303 | 0xcca8 | 0xcca9 | 0xccaa => (&CHACHA20_POLY1305, sha256),
            _ => return None,
        };
        Some(Suite {
            aead,
            hkdf,
            hmac,
            chacha: aead == &CHACHA20_POLY1305,
        })
    }

    pub fn key(&self, key: &[u8]) -> Option<LessSafeKey> {
        UnboundKey::new(self.aead, key).ok().map(LessSafeKey::new)
    }

    pub fn key_len(&self) -> usize {
        self.aead.key_len()
    }

    pub fn is_chacha(&self) -> bool {
        self.chacha
    }

    /// HKDF-Expand-Label (RFC 8446, section 7.1) without a context.
    pub fn expand(&self, secret: &[u8], label: &[u8], len: usize) -> Option<Vec<u8>> {
        struct Len(usize);
        impl hkdf::KeyType for Len {
            fn len(&self) -> usize {
                self.0
            }
        }
        let name_len = [(b"tls13 ".len() + label.len()) as u8];
        let info = [
            &(len as u16).to_be_bytes()[..],
            &name_len,
            b"tls13 ",
            label,
            &[0],
        ];
        let mut out = vec![0; len];
        let prk = hkdf::Prk::new_less_safe(self.hkdf, secret);
        prk.expand(&info, Len(len)).ok()?.fill(&mut out).ok()?;
        Some(out)
    }

    /// P_hash of RFC 5246, section 5.
    fn prf(&self, secret: &[u8], seed: &[&[u8]], len: usize) -> Vec<u8> {
        let key = hmac::Key::new(self.hmac, secret);
        let seed = seed.concat();
        let (mut out, mut a) = (Vec::new(), hmac::sign(&key, &seed));
        while out.len() < len {
            out.extend_from_slice(hmac::sign(&key, &[a.as_ref(), &seed].concat()).as_ref());
            a = hmac::sign(&key, a.as_ref());
        }
        out.truncate(len);
        out
    }
}

/// The keys of one side, and which record comes next.
pub struct Opener {
    suite: Suite,
    current: Option<Key>,
    /// Of TLS 1.3: the secrets that come after the current key's.
    secrets: VecDeque<Secret>,
    /// The secret of the current key, from which a later one may be made (KeyUpdate).
    latest: Option<Secret>,
    /// An unknown number of records is missing.
    pub skipped: bool,
    failures: u32,
}

struct Key {
    key: LessSafeKey,
    iv: [u8; IV],
    /// AES-GCM of TLS 1.2.
    explicit: bool,
    is_13: bool,
    /// The number of the next record.
    number: u64,
}

impl Opener {
    /// The client's and the server's, of TLS 1.2.
    pub fn of_master(
        suite: Suite,
        master: &[u8],
        client: &[u8],
        server: &[u8],
    ) -> Option<[Opener; 2]> {
        let key_len = suite.aead.key_len();
        let iv_len = if suite.chacha { IV } else { IV - EXPLICIT };
        let block = suite.prf(
            master,
            &[b"key expansion", server, client],
            2 * (key_len + iv_len),
        );
        let (keys, ivs) = block.split_at_checked(2 * key_len)?;
        let opener = |side: usize| {
            let mut iv = [0; IV];
            iv[..iv_len].copy_from_slice(ivs.get(side * iv_len..(side + 1) * iv_len)?);
            let current = Key {
                key: suite.key(keys.get(side * key_len..(side + 1) * key_len)?)?,
                iv,
                explicit: !suite.chacha,
                is_13: false,
                number: 0,
            };
            Some(Opener::new(suite, Some(current), VecDeque::new()))
        };
        Some([opener(0)?, opener(1)?])
    }

    /// One side's of TLS 1.3, from its secrets in the order of their use.
    pub fn of_secrets(suite: Suite, secrets: impl IntoIterator<Item = Secret>) -> Option<Opener> {
        let secrets: VecDeque<Secret> = secrets.into_iter().collect();
        (!secrets.is_empty()).then(|| Opener::new(suite, None, secrets))
    }

    fn new(suite: Suite, current: Option<Key>, secrets: VecDeque<Secret>) -> Opener {
        Opener {
            suite,
            current,
            secrets,
            latest: None,
            skipped: false,
            failures: 0,
        }
    }

    /// The content of a record and its kind: what is in `scratch`, up to the returned length.
    pub fn open(
        &mut self,
        header: [u8; 5],
        body: &[u8],
        scratch: &mut Vec<u8>,
    ) -> Option<(u8, usize)> {
        if self.failures >= FAILURES_MAX {
            return None;
        }
        let tries = if self.skipped { SKIPPED_MAX } else { 1 };
        let with_current = self
            .current
            .as_mut()
            .and_then(|key| key.open(tries, header, body, scratch));
        let opened = with_current.or_else(|| self.open_with_next(tries, header, body, scratch));
        match opened {
            Some(_) => (self.skipped, self.failures) = (false, 0),
            None => self.failures += 1,
        }
        opened
    }

    /// A record that was on the wire and not captured to its end.
    pub fn skip(&mut self) {
        if let Some(key) = &mut self.current {
            key.number += 1;
        }
        // It may have been the first under the next key.
        self.skipped = true;
    }

    /// The side changed its key, after its handshake or by a KeyUpdate.
    fn open_with_next(
        &mut self,
        tries: u64,
        header: [u8; 5],
        body: &[u8],
        scratch: &mut Vec<u8>,
    ) -> Option<(u8, usize)> {
        let secret = match (self.secrets.front(), &self.latest) {
            (Some(next), _) => next.clone(),
            (None, Some(latest)) => self
                .suite
                .expand(latest, b"traffic upd", latest.len())?
                .into(),
            (None, None) => return None,
        };
        let key = self
            .suite
            .expand(&secret, b"key", self.suite.aead.key_len())?;
        let mut key = Key {
            key: self.suite.key(&key)?,
            iv: self.suite.expand(&secret, b"iv", IV)?.try_into().ok()?,
            explicit: false,
            is_13: true,
            number: 0,
        };
        let opened = key.open(tries, header, body, scratch)?;
        self.secrets.pop_front();
        (self.current, self.latest) = (Some(key), Some(secret));
        Some(opened)
    }
}

impl Key {
    fn open(
        &mut self,
        tries: u64,
        header: [u8; 5],
        body: &[u8],
        scratch: &mut Vec<u8>,
    ) -> Option<(u8, usize)> {
        let first = self.number;
        (first..first.saturating_add(tries)).find_map(|number| {
            let opened = self.open_as(number, header, body, scratch)?;
            self.number = number + 1;
            Some(opened)
        })
    }

    fn open_as(
        &self,
        number: u64,
        header: [u8; 5],
        body: &[u8],
        scratch: &mut Vec<u8>,
    ) -> Option<(u8, usize)> {
        let mut nonce = self.iv;
        let sealed = if self.explicit {
            let (explicit, sealed) = body.split_at_checked(EXPLICIT)?;
            nonce[IV - EXPLICIT..].copy_from_slice(explicit);
            sealed
        } else {
            let last = nonce.iter_mut().rev().zip(number.to_le_bytes());
            last.for_each(|(byte, of_number)| *byte ^= of_number);
            body
        };
        let len = sealed.len().checked_sub(TAG)?;
        scratch.clear();
        scratch.extend_from_slice(sealed);
        let nonce = Nonce::assume_unique_for_key(nonce);
        if self.is_13 {
            let opened = self
                .key
                .open_in_place(nonce, Aad::from(header), scratch)
                .ok()?;
            // The content ends with its kind; zeros may follow.
            let end = opened.iter().rposition(|&byte| byte != 0)?;
            return Some((opened[end], end));
        }
        let mut about = [0; 13];
        about[..8].copy_from_slice(&number.to_be_bytes());
        about[8..11].copy_from_slice(&header[..3]);
        about[11..].copy_from_slice(&(len as u16).to_be_bytes());
        self.key
            .open_in_place(nonce, Aad::from(about), scratch)
            .ok()?;
        Some((header[0], len))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// RFC 8448, section 3: the server's handshake traffic secret and its key and iv.
    #[test]
    fn keys_of_the_rfc() {
        let secret = b"\xb6\x7b\x7d\x69\x0c\xc1\x6c\x4e\x75\xe5\x42\x13\xcb\x2d\x37\xb4\xe9\xc9\x12\xbc\xde\xd9\x10\x5d\x42\xbe\xfd\x59\xd3\x91\xad\x38";
        let key = b"\x3f\xce\x51\x60\x09\xc2\x17\x27\xd0\xf2\xe4\xe8\x6e\xe4\x03\xbc";
        let iv = b"\x5d\x31\x3e\xb2\x67\x12\x76\xee\x13\x00\x0b\x30";
        let suite = Suite::of(0x1301).unwrap();
        assert_eq!(suite.expand(secret, b"key", 16).unwrap(), key);
        assert_eq!(suite.expand(secret, b"iv", IV).unwrap(), iv);
    }

    #[test]
    fn a_record_that_no_key_opens_is_tried_few_times() {
        let suite = Suite::of(0x1303).unwrap();
        let mut opener = Opener::of_secrets(suite, [Secret::from([7; 32])]).unwrap();
        for _ in 0..2 * FAILURES_MAX {
            let opened = opener.open([23, 3, 3, 0, 40], &[0; 40], &mut Vec::new());
            assert_eq!(opened, None);
        }
        assert_eq!(opener.failures, FAILURES_MAX);
    }
}
