//! The secrets of TLS sessions, as browsers, curl, OpenSSL and Java agents log them (`SSLKEYLOGFILE`): one a line, by the
//! random number of the client's hello. They come from a file or from blocks of a pcapng capture.
//!
//! ```text
//! CLIENT_RANDOM <random> <master secret>                 TLS 1.2
//! CLIENT_HANDSHAKE_TRAFFIC_SECRET <random> <secret>      TLS 1.3; likewise SERVER_…
//! CLIENT_TRAFFIC_SECRET_0 <random> <secret>
//! ```
//! Source: draft-ietf-tls-keylogfile.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, RwLock};

use rustc_hash::FxHashMap;

use crate::error::{Error, Result};

/// Sessions whose secrets are kept: about 400 bytes each. Later ones are left out.
const SESSIONS_MAX: usize = 1 << 18;
/// The largest key log: five lines of a session take 900 bytes.
const FILE_MAX: u64 = 256 << 20;
/// Of SHA-384.
const SECRET_MAX: usize = 48;

pub type Random = [u8; 32];
pub type Secret = Box<[u8]>;

/// What is known of one session.
#[derive(Clone, Default)]
pub struct Secrets {
    pub master: Option<Secret>,
    /// Of the client and of the server: first for the handshake, then for the data.
    pub handshake: [Option<Secret>; 2],
    pub traffic: [Option<Secret>; 2],
    /// Of the client, for the data that it sends before the handshake ends.
    pub early: Option<Secret>,
}

/// The secrets of all sessions, which the captures' files add to while connections are read.
#[derive(Clone, Default)]
pub struct Keys(Arc<RwLock<FxHashMap<Random, Secrets>>>);

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys of {} sessions", self.len())
    }
}

impl Keys {
    pub fn of_file(path: &Path) -> Result<Keys> {
        let failed = |source| Error::Io {
            path: path.to_owned(),
            source,
        };
        let refused = |reason: &str| Error::Options(format!("{}: {reason}", path.display()));
        // To open a named pipe would wait for its writer.
        if !path.metadata().map_err(failed)?.is_file() {
            return Err(refused("a key log must be a file"));
        }
        let file = File::open(path).map_err(failed)?;
        let mut text = Vec::new();
        file.take(FILE_MAX + 1)
            .read_to_end(&mut text)
            .map_err(failed)?;
        if text.len() as u64 > FILE_MAX {
            return Err(refused(
                "the key log is larger than 256 MiB; keep the lines of the sessions in the capture",
            ));
        }
        let keys = Keys::default();
        keys.add(&text);
        match keys.is_empty() {
            true => Err(refused(
                "no line is the secret of a TLS session; a key log has lines such as `CLIENT_RANDOM 0a1b… 2c3d…` \
                 (SSLKEYLOGFILE)",
            )),
            false => Ok(keys),
        }
    }

    pub fn len(&self) -> usize {
        self.0.read().map_or(0, |sessions| sessions.len())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The secrets in the lines of a key log; other lines are skipped.
    pub fn add(&self, text: &[u8]) {
        let Ok(mut sessions) = self.0.write() else {
            return;
        };
        for line in text.split(|&byte| byte == b'\n') {
            let Some((label, random, secret)) = parsed(line) else {
                continue;
            };
            if sessions.len() < SESSIONS_MAX || sessions.contains_key(&random) {
                sessions.entry(random).or_default().set(label, secret);
            }
        }
    }

    /// Everything that `others` know.
    pub fn add_all(&self, others: &Keys) {
        if Arc::ptr_eq(&self.0, &others.0) {
            return;
        }
        let (Ok(mut sessions), Ok(others)) = (self.0.write(), others.0.read()) else {
            return;
        };
        for (random, secrets) in others.iter() {
            if sessions.len() < SESSIONS_MAX {
                sessions.insert(*random, secrets.clone());
            }
        }
    }

    pub fn of(&self, random: &Random) -> Option<Secrets> {
        self.0.read().ok()?.get(random).cloned()
    }
}

#[derive(Clone, Copy)]
enum Label {
    Master,
    Handshake(usize),
    Traffic(usize),
    Early,
}

impl Secrets {
    fn set(&mut self, label: Label, secret: Secret) {
        *match label {
            Label::Master => &mut self.master,
            Label::Handshake(side) => &mut self.handshake[side & 1],
            Label::Traffic(side) => &mut self.traffic[side & 1],
            Label::Early => &mut self.early,
        } = Some(secret);
    }
}

fn parsed(line: &[u8]) -> Option<(Label, Random, Secret)> {
    let mut words = line.trim_ascii().split(|&byte| byte == b' ');
    let label = match words.next()? {
        b"CLIENT_RANDOM" => Label::Master,
        b"CLIENT_HANDSHAKE_TRAFFIC_SECRET" => Label::Handshake(0),
        b"SERVER_HANDSHAKE_TRAFFIC_SECRET" => Label::Handshake(1),
        b"CLIENT_TRAFFIC_SECRET_0" => Label::Traffic(0),
        b"SERVER_TRAFFIC_SECRET_0" => Label::Traffic(1),
        b"CLIENT_EARLY_TRAFFIC_SECRET" => Label::Early,
        _ => return None,
    };
    let random = hex(words.next()?)?.try_into().ok()?;
    let secret = hex(words.next()?)?;
    Some((label, random, secret.into()))
}

fn hex(text: &[u8]) -> Option<Vec<u8>> {
    if text.is_empty() || text.len() % 2 != 0 || text.len() > 2 * SECRET_MAX {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pairs = text.chunks_exact(2);
    pairs
        .map(|pair| Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_log() {
        let random = "ab".repeat(32);
        let text = format!(
            "# a comment\nCLIENT_RANDOM {random} {}\r\nSERVER_TRAFFIC_SECRET_0 {random} {}\nEXPORTER_SECRET {random} 00\n\
             CLIENT_RANDOM zz 00\nCLIENT_RANDOM {random}\nCLIENT_RANDOM {random} 123\n\u{ff}",
            "01".repeat(48),
            "02".repeat(32)
        );
        let keys = Keys::default();
        keys.add(text.as_bytes());
        assert_eq!(keys.len(), 1);
        let secrets = keys.of(&[0xab; 32]).unwrap_or_default();
        assert_eq!(secrets.master.as_deref(), Some(&[1; 48][..]));
        assert_eq!(secrets.traffic[1].as_deref(), Some(&[2; 32][..]));
        assert!(secrets.traffic[0].is_none() && secrets.handshake[0].is_none());
        assert_eq!(format!("{keys:?}"), "Keys of 1 sessions");
    }
}
