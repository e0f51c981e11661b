//! Replies: which packet is the last of one.
//!
//! ```text
//! First ─ OK, ERR ─► whole          First ◄── more results ──┐
//!   ├─ columns ─► Columns ─► AfterColumns ─► Rows ─ EOF, OK, ERR
//!   ├─ prepared ─► Definitions ─► whole, unless an EOF follows (the login was not seen)
//!   └─ infile ─► Infile ─ the client sends lines ─► First
//! ```
//! Whether EOF packets are sent is settled by the packets where the login was not seen: an EOF is five bytes, the OK
//! that took its place at least seven.

use super::command::{deprecates_eof, length, Expects};
use crate::capture::wire::framing::Packet;
use crate::capture::wire::Outcome;
use serde::{Deserialize, Serialize};

const OK: u8 = 0x00;
const INFILE: u8 = 0xfb;
const EOF: u8 = 0xfe;
const ERR: u8 = 0xff;
const HEADER_LEN: u64 = 4;
const EOF_LEN: u64 = 5;
const OK_LEN_MIN: u64 = 7;
/// A row may begin like an EOF only if its first field has 16 MiB.
const EOF_LEN_MAX: u64 = 0xff_ffff;
/// MariaDB's progress reports come as this error.
const PROGRESS: u16 = 0xffff;
/// More columns than a table can have (4096 in MySQL and MariaDB, with room for joins): it is not a
/// column count.
const COLUMNS_MAX: u64 = 0xffff;

const CURSOR_EXISTS: u16 = 0x0040;
const MORE_RESULTS: u16 = 0x0008;
/// MySQL's CLIENT_OPTIONAL_RESULTSET_METADATA; MariaDB uses the bit for something else and sets no CLIENT_MYSQL.
const OPTIONAL_METADATA: u64 = 1 << 25 | 1;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum Reply {
    #[default]
    First,
    Columns(u64),
    AfterColumns,
    Rows,
    /// Parameters and columns of a prepared statement still to come.
    Definitions(u32),
    /// All definitions have arrived; an EOF may follow.
    WholeUnlessEof,
    Infile,
    /// The framing is lost: it ends at the last byte before the next command.
    Blind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    More,
    /// This may be the last packet: the deciding byte was cut off.
    Unsure,
    /// A statement got its id; `whole`: nothing else follows.
    Prepared {
        id: u32,
        whole: bool,
    },
    Whole(Outcome),
}

impl Reply {
    pub fn advance(
        &mut self,
        packet: &Packet<'_>,
        expects: Expects,
        flags: Option<u64>,
    ) -> Verdict {
        let first = packet.prefix.first().copied();
        if first == Some(ERR) && *self != Reply::Infile && *self != Reply::Blind {
            return match error_number(packet.prefix) {
                PROGRESS => Verdict::More,
                _ => Verdict::Whole(error(packet.prefix)),
            };
        }
        match *self {
            Reply::First => self.first(packet, expects, flags),
            Reply::Columns(_) if is_eof(packet) => {
                *self = Reply::Rows;
                Verdict::More
            }
            Reply::Columns(left) => {
                *self = if left > 1 {
                    Reply::Columns(left - 1)
                } else {
                    Reply::AfterColumns
                };
                Verdict::More
            }
            Reply::AfterColumns if is_eof(packet) => {
                *self = Reply::Rows;
                match status(packet) {
                    Some(status) if status & CURSOR_EXISTS != 0 => Verdict::Whole(Outcome::Ok),
                    Some(_) => Verdict::More,
                    None => Verdict::Unsure,
                }
            }
            Reply::AfterColumns | Reply::Rows => self.row(packet),
            Reply::Definitions(left) => self.definition(packet, left, flags),
            Reply::WholeUnlessEof => Verdict::Whole(Outcome::Ok),
            Reply::Infile => {
                *self = Reply::First;
                self.first(packet, expects, flags)
            }
            Reply::Blind => Verdict::More,
        }
    }

    /// Whether a loss of `n` bytes that begins with a packet is just the packet after the rows, as
    /// at the end of most replies with a short snap length: a row would have to be as short as
    /// that, with the end in a segment of its own.
    pub fn may_end_in(self, n: u64, flags: Option<u64>) -> bool {
        let eof = n == HEADER_LEN + EOF_LEN && deprecates_eof(flags) != Some(true);
        let ok = n == HEADER_LEN + OK_LEN_MIN && deprecates_eof(flags) != Some(false);
        matches!(self, Reply::Rows) && (eof || ok)
    }

    fn first(&mut self, packet: &Packet<'_>, expects: Expects, flags: Option<u64>) -> Verdict {
        let first = packet.prefix.first().copied();
        match (expects, first) {
            (_, Some(ERR)) => Verdict::Whole(error(packet.prefix)),
            (Expects::Login, Some(OK)) => Verdict::Whole(Outcome::Ok),
            (Expects::Login, Some(_)) => Verdict::More,
            (Expects::Login, None) => Verdict::Unsure,
            (Expects::Prepared, Some(OK)) => self.prepared(packet, flags),
            (Expects::Rows, _) => {
                *self = Reply::Rows;
                self.row(packet)
            }
            (Expects::Results, Some(OK)) if packet.len >= OK_LEN_MIN => {
                self.end_of_result(status(packet))
            }
            (Expects::Results, Some(INFILE)) => {
                *self = Reply::Infile;
                Verdict::More
            }
            (Expects::Results, Some(_)) => self.columns(packet, flags),
            (Expects::Results, None) => self.blind(),
            _ => Verdict::Whole(Outcome::Ok),
        }
    }

    fn columns(&mut self, packet: &Packet<'_>, flags: Option<u64>) -> Verdict {
        let optional = flags.is_some_and(|f| f & OPTIONAL_METADATA == OPTIONAL_METADATA);
        // MySQL says before the count whether definitions follow, MariaDB after it; neither does
        // unless it was agreed.
        let (count, follow) = match packet.prefix {
            [follow, rest @ ..] if optional => (length(rest).map(|l| l.0), *follow != 0),
            [0, rest @ ..] if packet.len < OK_LEN_MIN => (length(rest).map(|l| l.0), false),
            bytes => match length(bytes) {
                Some((count, rest)) => (Some(count), rest.first() != Some(&0)),
                None => (None, false),
            },
        };
        *self = match count {
            Some(count) if count <= COLUMNS_MAX && follow && count > 0 => Reply::Columns(count),
            Some(count) if count <= COLUMNS_MAX => Reply::AfterColumns,
            _ => return self.blind(),
        };
        Verdict::More
    }

    fn row(&mut self, packet: &Packet<'_>) -> Verdict {
        match packet.prefix.first() {
            Some(&EOF) if packet.len < EOF_LEN_MAX => return self.end_of_result(status(packet)),
            Some(_) => *self = Reply::Rows,
            None => {
                *self = Reply::Rows;
                return Verdict::Unsure;
            }
        }
        Verdict::More
    }

    fn end_of_result(&mut self, status: Option<u16>) -> Verdict {
        if status.is_some_and(|status| status & MORE_RESULTS == 0) {
            return Verdict::Whole(Outcome::Ok);
        }
        *self = Reply::First;
        match status {
            Some(_) => Verdict::More,
            None => Verdict::Unsure,
        }
    }

    /// The bytes cannot be read, nor what follows.
    fn blind(&mut self) -> Verdict {
        *self = Reply::Blind;
        Verdict::Unsure
    }

    fn prepared(&mut self, packet: &Packet<'_>, flags: Option<u64>) -> Verdict {
        let &[_, a, b, c, d, columns_low, columns_high, params_low, params_high, ..] =
            packet.prefix
        else {
            return self.blind();
        };
        let number = |low, high| u32::from(u16::from_le_bytes([low, high]));
        let left = number(columns_low, columns_high) + number(params_low, params_high);
        *self = Reply::Definitions(left);
        if left > 0 && deprecates_eof(flags) == Some(false) {
            // One EOF after the parameters, one after the columns, where there are any.
            let groups = u32::from(number(columns_low, columns_high) > 0)
                + u32::from(number(params_low, params_high) > 0);
            *self = Reply::Definitions(left + groups);
        }
        Verdict::Prepared {
            id: u32::from_le_bytes([a, b, c, d]),
            whole: left == 0,
        }
    }

    fn definition(&mut self, packet: &Packet<'_>, left: u32, flags: Option<u64>) -> Verdict {
        let known = deprecates_eof(flags);
        if known.is_none() && is_eof(packet) {
            return Verdict::More;
        }
        match (left, known) {
            (2.., _) => *self = Reply::Definitions(left - 1),
            (_, Some(_)) => return Verdict::Whole(Outcome::Ok),
            (_, None) => *self = Reply::WholeUnlessEof,
        }
        Verdict::More
    }
}

/// By its length alone if its first byte was cut off: a definition is longer.
pub fn is_eof(packet: &Packet<'_>) -> bool {
    packet.len == EOF_LEN && matches!(packet.prefix.first(), None | Some(&EOF))
}

/// Whether a reply may begin with a packet of this length and first byte: what is too short for its kind is not one.
pub fn first_byte(first: u8, a: u8, b: u8, c: u8) -> bool {
    let len = u64::from(a) | u64::from(b) << 8 | u64::from(c) << 16;
    match first {
        OK => len >= OK_LEN_MIN || len == 2,
        EOF => len < EOF_LEN_MAX,
        ERR => len >= 3,
        INFILE => len > 1,
        _ => len <= 10,
    }
}

pub fn error(payload: &[u8]) -> Outcome {
    Outcome::Error(u32::from(error_number(payload)))
}

fn error_number(payload: &[u8]) -> u16 {
    match payload {
        [_, low, high, ..] => u16::from_le_bytes([*low, *high]),
        _ => 0,
    }
}

/// The status flags of an OK or EOF packet; None where they were cut off.
fn status(packet: &Packet<'_>) -> Option<u16> {
    let fields = match packet.prefix {
        [EOF, _, _, rest @ ..] if packet.len == EOF_LEN => Some(rest),
        [_, rest @ ..] => length(rest)
            .and_then(|(_, rest)| length(rest))
            .map(|(_, rest)| rest),
        [] => None,
    };
    match fields {
        Some([low, high, ..]) => Some(u16::from_le_bytes([*low, *high])),
        _ => None,
    }
}

/// The capabilities in the server's greeting.
/// The version in a greeting, which is a text that ends with a zero, unless it was cut.
pub fn greeting_version(payload: &[u8]) -> &[u8] {
    let version = payload.get(1..).unwrap_or_default();
    let end = version.iter().position(|&b| b == 0);
    &version[..end.unwrap_or(version.len())]
}

pub fn greeting_flags(payload: &[u8]) -> Option<u64> {
    let version_end = payload.iter().position(|&b| b == 0)?;
    // Thread id, first part of the scramble, filler.
    let rest = payload.get(version_end + 1 + 4 + 8 + 1..)?;
    let low = u64::from(u16::from_le_bytes([*rest.first()?, *rest.get(1)?]));
    let high = match rest.get(5..7) {
        Some(&[low, high]) => u64::from(u16::from_le_bytes([low, high])),
        _ => 0,
    };
    Some(low | high << 16)
}
