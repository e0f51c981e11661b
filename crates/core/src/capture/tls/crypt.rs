//! Opens the records of one side of a session: AES-GCM and ChaCha20-Poly1305, of TLS 1.2 (RFC 5246, 5288, 7905) and 1.3
//! (RFC 8446). The ciphers are those of *ring*.

use ring::aead::{
    Aad, LessSafeKey, Nonce, UnboundKey, AES_128_GCM, AES_256_GCM, CHACHA20_POLY1305,
};
use ring::{aead, hkdf, hmac};

use super::keys::Secret;
use super::HANDSHAKE;

/// Records that may be missing where some were lost.
const SKIPPED_MAX: u64 = 64;
/// After so many records in a row that no key opens, the rest is left closed.
const FAILURES_MAX: u32 = 8;
const IV: usize = 12;
const TAG: usize = 16;
/// The longest key of these ciphers.
const KEY_MAX: usize = 32;
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
        let mut out = vec![0; len];
        self.fill(&self.prk(secret), label, &mut out)?;
        Some(out)
    }

    /// The secret as the key of a hash, which takes as long to make as a label to expand.
    fn prk(&self, secret: &[u8]) -> hkdf::Prk {
        hkdf::Prk::new_less_safe(self.hkdf, secret)
    }

    fn fill(&self, prk: &hkdf::Prk, label: &[u8], out: &mut [u8]) -> Option<()> {
        struct Len(usize);
        impl hkdf::KeyType for Len {
            fn len(&self) -> usize {
                self.0
            }
        }
        let name_len = [(b"tls13 ".len() + label.len()) as u8];
        let info = [
            &(out.len() as u16).to_be_bytes()[..],
            &name_len,
            b"tls13 ",
            label,
            &[0],
        ];
        prk.expand(&info, Len(out.len())).ok()?.fill(out).ok()
    }

    /// The key and the nonces of TLS 1.3 that a secret gives.
    fn key_of(&self, secret: &[u8]) -> Option<Key> {
        let prk = self.prk(secret);
        let (mut key, mut iv) = ([0; KEY_MAX], [0; IV]);
        let key = key.get_mut(..self.key_len())?;
        self.fill(&prk, b"key", key)?;
        self.fill(&prk, b"iv", &mut iv)?;
        Some(Key {
            key: self.key(key)?,
            iv,
            explicit: false,
            is_13: true,
            number: 0,
        })
    }

    /// P_hash of RFC 5246, section 5.
    fn prf(&self, secret: &[u8], seed: &[&[u8]], len: usize) -> Vec<u8> {
        let key = hmac::Key::new(self.hmac, secret);
        let seed = seed.concat();
        let (mut out, mut a) = (Vec::new(), hmac::sign(&key, &seed));
        loop {
            out.extend_from_slice(hmac::sign(&key, &[a.as_ref(), &seed].concat()).as_ref());
            if out.len() >= len {
                break;
            }
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
    /// Of TLS 1.3: the secret of the handshake, until a key is made of it.
    handshake: Option<Secret>,
    /// Records of the handshake that were left closed.
    left: u64,
    /// The secret of what follows the handshake, and its key, until that opens a record.
    traffic: Option<(Secret, Key)>,
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
            Some(Opener::new(suite, Some(current)))
        };
        Some([opener(0)?, opener(1)?])
    }

    /// One side's of TLS 1.3, from its secrets.
    pub fn of_secrets(
        suite: Suite,
        handshake: Option<Secret>,
        traffic: Option<Secret>,
    ) -> Option<Opener> {
        let is_any = handshake.is_some() || traffic.is_some();
        let traffic = match traffic {
            Some(secret) => Some((secret.clone(), suite.key_of(&secret)?)),
            None => None,
        };
        is_any.then(|| Opener {
            handshake,
            traffic,
            ..Opener::new(suite, None)
        })
    }

    fn new(suite: Suite, current: Option<Key>) -> Opener {
        Opener {
            suite,
            current,
            handshake: None,
            left: 0,
            traffic: None,
            latest: None,
            skipped: false,
            failures: 0,
        }
    }

    /// The content of a record and its kind: what is in `scratch`, up to the returned length. Before the
    /// side's first traffic, up to `shaken` records that the key of the traffic does not open count as handshake: their
    /// content is left closed, because their key takes longer to make than a record to open.
    pub fn open(
        &mut self,
        header: [u8; 5],
        body: &[u8],
        shaken: u64,
        scratch: &mut Vec<u8>,
    ) -> Option<(u8, usize)> {
        if self.failures >= FAILURES_MAX {
            return None;
        }
        let is_shaking = self.left < shaken && !self.skipped && self.current.is_none();
        let tries = if self.skipped { SKIPPED_MAX } else { 1 };
        let with_current = self
            .current
            .as_mut()
            .and_then(|key| key.open(tries, header, body, scratch));
        let opened = with_current
            .or_else(|| self.open_with_traffic(tries, header, body, scratch))
            .or_else(|| is_shaking.then(|| self.leave_closed()).flatten())
            .or_else(|| self.open_with_next(tries, header, body, scratch));
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

    /// A record of the handshake, whose key has not been made.
    fn leave_closed(&mut self) -> Option<(u8, usize)> {
        self.handshake.as_ref()?;
        self.left += 1;
        Some((HANDSHAKE, 0))
    }

    /// The handshake of the side is over.
    fn open_with_traffic(
        &mut self,
        tries: u64,
        header: [u8; 5],
        body: &[u8],
        scratch: &mut Vec<u8>,
    ) -> Option<(u8, usize)> {
        let (_, key) = self.traffic.as_mut()?;
        let opened = key.open(tries, header, body, scratch)?;
        let (secret, key) = self.traffic.take()?;
        (self.current, self.latest, self.handshake) = (Some(key), Some(secret), None);
        Some(opened)
    }

    /// The handshake goes on, or the side changed its key by a KeyUpdate.
    fn open_with_next(
        &mut self,
        tries: u64,
        header: [u8; 5],
        body: &[u8],
        scratch: &mut Vec<u8>,
    ) -> Option<(u8, usize)> {
        let secret = match (&self.handshake, &self.latest, &self.traffic) {
            (Some(handshake), _, _) => handshake.clone(),
            (None, Some(latest), None) => self
                .suite
                .expand(latest, b"traffic upd", latest.len())?
                .into(),
            _ => return None,
        };
        let mut key = self.suite.key_of(&secret)?;
        if self.handshake.is_some() {
            key.number = self.left;
        }
        let opened = key.open(tries, header, body, scratch)?;
        if self.handshake.take().is_none() {
            self.latest = Some(secret);
        }
        self.current = Some(key);
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
        let mut opener = Opener::of_secrets(suite, None, Some(Secret::from([7; 32]))).unwrap();
        for _ in 0..2 * FAILURES_MAX {
            let opened = opener.open([23, 3, 3, 0, 40], &[0; 40], 0, &mut Vec::new());
            assert_eq!(opened, None);
        }
        assert_eq!(opener.failures, FAILURES_MAX);
    }

    /// A record of TLS 1.3 as its sender seals it.
    fn sealed(secret: &Secret, number: u64, kind: u8, content: &[u8]) -> ([u8; 5], Vec<u8>) {
        let key = Suite::of(0x1301).unwrap().key_of(secret).unwrap();
        let mut nonce = key.iv;
        let last = nonce.iter_mut().rev().zip(number.to_le_bytes());
        last.for_each(|(byte, of_number)| *byte ^= of_number);
        let mut body = [content, &[kind]].concat();
        let header = [23, 3, 3, 0, (body.len() + TAG) as u8];
        let nonce = Nonce::assume_unique_for_key(nonce);
        let sealed = key.key;
        sealed
            .seal_in_place_append_tag(nonce, Aad::from(header), &mut body)
            .unwrap();
        (header, body)
    }

    #[test]
    fn records_left_closed_are_counted_and_bounded() {
        let [shaking, traffic] = [3, 7].map(|byte| Secret::from([byte; 32]));
        let suite = Suite::of(0x1301).unwrap();
        let opener = || Opener::of_secrets(suite, Some(shaking.clone()), Some(traffic.clone()));
        let mut out = Vec::new();

        let mut server = opener().unwrap();
        let mut open = |secret, number, kind, shaken| {
            let (header, body) = sealed(secret, number, kind, b"what it says");
            server.open(header, &body, shaken, &mut out)
        };
        assert_eq!(open(&shaking, 0, HANDSHAKE, u64::MAX), Some((HANDSHAKE, 0)));
        assert_eq!(open(&shaking, 1, HANDSHAKE, u64::MAX), Some((HANDSHAKE, 0)));
        // The next one, which is to be opened, has its number nevertheless.
        assert_eq!(open(&shaking, 2, HANDSHAKE, 0), Some((HANDSHAKE, 12)));
        assert_eq!(open(&traffic, 0, 23, u64::MAX), Some((23, 12)));
        assert_eq!(
            open(&traffic, 1, HANDSHAKE, u64::MAX),
            Some((HANDSHAKE, 12))
        );
        let renewed = suite.expand(&traffic, b"traffic upd", 32).unwrap().into();
        assert_eq!(open(&renewed, 0, 23, u64::MAX), Some((23, 12)));

        let mut client = opener().unwrap();
        let other = Secret::from([9; 32]);
        let (header, body) = sealed(&other, 0, 23, b"what it says");
        assert_eq!(
            client.open(header, &body, 1, &mut out),
            Some((HANDSHAKE, 0))
        );
        assert_eq!(client.open(header, &body, 1, &mut out), None);
    }
}
