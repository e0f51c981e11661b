//! The variables of a request: pairs of lengths, a name and a value, in a stream of records.

use crate::capture::wire::Raw;
use serde::{Deserialize, Serialize};

/// Variables gathered for one request: PHP's frameworks need some 2 KiB, and nginx sends no head
/// longer than 32 KiB.
pub(super) const PARAMS_MAX: usize = 16 << 10;

#[derive(Default, Deserialize, Serialize)]
pub(super) struct Params(Vec<u8>);

/// The values of the variables.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Variables<'a> {
    pub method: &'a [u8],
    pub target: &'a [u8],
    pub target_whole: bool,
}

impl Params {
    /// More of the stream; false: no more is kept.
    pub(super) fn push(&mut self, bytes: &[u8]) -> bool {
        let room = PARAMS_MAX - self.0.len();
        self.0.extend_from_slice(&bytes[..bytes.len().min(room)]);
        bytes.len() <= room
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// As far as they have arrived. The requested URI is preferred to the file that answers it.
    pub(super) fn read(&self) -> Variables<'_> {
        const TARGETS: [&[u8]; 4] = [
            b"REQUEST_URI",
            b"DOCUMENT_URI",
            b"SCRIPT_NAME",
            b"SCRIPT_FILENAME",
        ];
        let mut found = Variables::default();
        let mut rank = (false, usize::MAX);
        let mut rest = &self.0[..];
        while let Some((name, value, whole)) = pair(&mut rest) {
            if name == b"REQUEST_METHOD" && whole {
                found.method = value;
            }
            let Some(place) = TARGETS.iter().position(|target| *target == name) else {
                continue;
            };
            // A complete value is preferred to a better one whose end was cut off.
            if !value.is_empty() && (!whole, place) < (!rank.0, rank.1) {
                rank = (whole, place);
                (found.target, found.target_whole) = (value, whole);
            }
        }
        found
    }
}

impl<'a> Variables<'a> {
    pub(super) fn raw(&self) -> Raw<'a> {
        match (self.method, self.target) {
            (_, b"") => Raw::Unknown,
            (b"", target) => Raw::Http {
                method: b"?",
                target,
            },
            (method, target) => Raw::Http { method, target },
        }
    }
}

/// The next name, its value, and whether that is complete.
fn pair<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], &'a [u8], bool)> {
    let (name, value) = (length(rest)?, length(rest)?);
    let (name, after) = rest.split_at_checked(name)?;
    let whole = after.len() >= value;
    let (value, after) = after.split_at(value.min(after.len()));
    *rest = after;
    Some((name, value, whole))
}

/// One byte, or four of which the first has its highest bit set.
fn length(rest: &mut &[u8]) -> Option<usize> {
    let (&first, after) = rest.split_first()?;
    if first < 0x80 {
        *rest = after;
        return Some(usize::from(first));
    }
    let (four, after) = rest.split_first_chunk::<4>()?;
    *rest = after;
    usize::try_from(u32::from_be_bytes(*four) & 0x7fff_ffff).ok()
}
