//! The messages: their lengths, and the fields that matter.

use crate::capture::wire::detect::Sign;
use crate::capture::wire::framing::Packet;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::HEADER_LEN;

/// Texts kept of a connection, and of a text: names need the command and the first table.
const STATEMENTS_MAX: usize = 4096;
const TEXT_MAX: usize = 1024;
/// The server's own limit (MaxAllocSize).
const LEN_MAX: u32 = 1 << 30;
/// The server's limit for startup packets (MAX_STARTUP_PACKET_LENGTH).
const STARTUP_MAX: u32 = 10_000;

const CLIENT_TYPES: &[u8] = b"QPBDECSHFXdcfp";
const SERVER_TYPES: &[u8] = b"RKSZTDCEINAGHWVvtns123dc";

fn number(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).fold(0, |n, &b| n << 8 | u32::from(b))
}

/// Length of the payload after the type and the length; a startup message has no type, its length begins with a zero.
pub fn client_len(header: &[u8]) -> Option<u64> {
    if header.first() != Some(&0) {
        return len(header, CLIENT_TYPES);
    }
    let len = number(header);
    (8..=STARTUP_MAX).contains(&len).then(|| u64::from(len) - 5)
}

pub fn server_len(header: &[u8]) -> Option<u64> {
    len(header, SERVER_TYPES)
}

fn len(header: &[u8], types: &[u8]) -> Option<u64> {
    let (kind, rest) = header.split_first()?;
    let len = number(rest);
    (types.contains(kind) && (4..LEN_MAX).contains(&len)).then(|| u64::from(len) - 4)
}

/// Whether a message begins with these first bytes of a segment; a megabyte at most, to be sure.
pub fn here(bytes: &[u8], len: fn(&[u8]) -> Option<u64>) -> bool {
    let header = bytes.get(..HEADER_LEN);
    header.and_then(len).is_some_and(|len| len < 1 << 20)
}

/// Whether a segment ends with a ReadyForQuery.
pub fn ends_ready(bytes: &[u8]) -> bool {
    matches!(bytes, [.., b'Z', 0, 0, 0, 5, b'I' | b'T' | b'E'])
}

pub enum Startup {
    Login,
    Cancel,
    Encrypt,
}

pub fn startup(packet: &Packet<'_>) -> Startup {
    // The first byte of the code was taken as part of the header.
    match (packet.header[4], packet.prefix) {
        (0x04, [0xd2, 0x16, 0x2e, ..]) => Startup::Cancel,
        (0x04, [0xd2, 0x16, 0x2f | 0x30, ..]) => Startup::Encrypt,
        _ => Startup::Login,
    }
}

/// Up to the zero that ends a string, and what follows it.
fn string(bytes: &[u8]) -> (&[u8], &[u8]) {
    match bytes.iter().position(|&b| b == 0) {
        Some(end) => (&bytes[..end], &bytes[end + 1..]),
        None => (bytes, b""),
    }
}

pub fn text(payload: &[u8]) -> &[u8] {
    string(payload).0
}

/// Name and text of a Parse.
pub fn parsed(payload: &[u8]) -> (&[u8], &[u8]) {
    let (name, rest) = string(payload);
    (name, text(rest))
}

/// The statement of a Bind.
pub fn bound(payload: &[u8]) -> &[u8] {
    let (_portal, rest) = string(payload);
    text(rest)
}

/// The version, if this ParameterStatus tells it.
pub fn server_version(payload: &[u8]) -> Option<&[u8]> {
    let (name, rest) = string(payload);
    (name == b"server_version").then(|| text(rest))
}

/// Statements that drivers send before the one that matters, in one batch with it.
pub fn is_prelude(sql: &[u8]) -> bool {
    let sql = sql.trim_ascii_start();
    [&b"BEGIN"[..], b"START", b"SET", b"SAVEPOINT", b"RELEASE"]
        .iter()
        .any(|word| {
            sql.get(..word.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(word))
        })
}

/// The texts of the prepared statements of a connection, by name; the unnamed one is "".
#[derive(Default, Deserialize, Serialize)]
pub struct Statements(FxHashMap<Box<[u8]>, Box<[u8]>>);

impl Statements {
    pub fn text(&self, name: &[u8]) -> Option<&[u8]> {
        self.0.get(name).map(|text| &**text)
    }

    /// Records a sent message.
    pub fn sent(&mut self, kind: u8, payload: &[u8]) {
        match (kind, payload) {
            (b'P', _) => {
                let (name, text) = parsed(payload);
                let known = self.0.contains_key(name);
                if (known || self.0.len() < STATEMENTS_MAX) && name.len() <= TEXT_MAX {
                    self.0
                        .insert(name.into(), text[..text.len().min(TEXT_MAX)].into());
                }
            }
            (b'C', [b'S', name @ ..]) => {
                self.0.remove(text(name));
            }
            _ => {}
        }
    }
}

/// SQLSTATEs are folded to numbers from here on, above those of MySQL (below 65,536).
pub const SQLSTATES: u32 = 100_000;

/// The SQLSTATE of an ErrorResponse, folded to a number: its value to the base of 36, above [`SQLSTATES`], so that
/// [`sqlstate`] finds it again. 0: it was cut off.
pub fn error(payload: &[u8]) -> u32 {
    let mut rest = payload;
    while let Some((&field, after)) = rest.split_first() {
        let (value, next) = string(after);
        if field == b'C' && value.len() == 5 {
            return fold(value);
        }
        rest = next;
    }
    0
}

fn fold(state: &[u8]) -> u32 {
    let digits = state.iter().map(|&b| char::from(b).to_digit(36));
    digits
        .into_iter()
        .try_fold(0, |n, digit| Some(n * 36 + digit?))
        .map_or(0, |n| n + SQLSTATES)
}

/// The SQLSTATE that was folded to `number`.
pub fn sqlstate(number: u32) -> String {
    let mut rest = number.saturating_sub(SQLSTATES);
    let mut state = [b'0'; 5];
    for digit in state.iter_mut().rev() {
        *digit = char::from_digit(rest % 36, 36).map_or(b'0', |c| c.to_ascii_uppercase() as u8);
        rest /= 36;
    }
    state.iter().map(|&b| char::from(b)).collect()
}

/// A startup message, or something that may be a message.
pub fn client_sign(first: &[u8]) -> Sign {
    match first {
        [0, 0, 0, _, 0x04, 0xd2, 0x16, 0x2e..=0x30, ..] => Sign::Certain,
        // The name of a parameter follows. Kafka's request for metadata begins likewise.
        [0, 0, _, _, 0, 3, 0, _, b'a'..=b'z' | b'_', ..] => Sign::Certain,
        [0, 0, _, _, 0, 3, 0, _] => Sign::Likely,
        _ if first.first() != Some(&0) && here(first, client_len) => Sign::Likely,
        _ => Sign::None,
    }
}

/// A request for authentication, or something that may be a message.
pub fn server_sign(first: &[u8]) -> Sign {
    match first {
        [b'R', 0, 0, 0, 8..=0x80, 0, 0, 0, 0..=12, ..] => Sign::Certain,
        _ if here(first, server_len) => Sign::Likely,
        _ => Sign::None,
    }
}
