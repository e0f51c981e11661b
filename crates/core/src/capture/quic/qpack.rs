//! Field sections of HTTP/3 (QPACK, RFC 9204), read by somebody who may have missed a part. It is HPACK with a table that a
//! stream of its own fills, so that sections may come before the entries that they refer to.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::super::wire::http2::hpack::{Field, Name, Rest};
use super::super::wire::software::Source;

/// Entries and bytes that are kept: a table of 64 KiB holds no more.
const ENTRIES_MAX: usize = 2048;
const BYTES_MAX: usize = 64 << 10;
/// The longest instruction.
const PENDING_MAX: usize = 64 << 10;

/// Appendix A, as far as a field describes an exchange.
fn fixed(index: u64) -> (Name, &'static [u8]) {
    match index {
        1 => (Name::Path, b"/"),
        15 => (Name::Method, b"CONNECT"),
        16 => (Name::Method, b"DELETE"),
        17 => (Name::Method, b"GET"),
        18 => (Name::Method, b"HEAD"),
        19 => (Name::Method, b"OPTIONS"),
        20 => (Name::Method, b"POST"),
        21 => (Name::Method, b"PUT"),
        24 => (Name::Status, b"103"),
        25 => (Name::Status, b"200"),
        26 => (Name::Status, b"304"),
        27 => (Name::Status, b"404"),
        28 => (Name::Status, b"503"),
        44..=54 => (Name::ContentType, b""),
        63 => (Name::Status, b"100"),
        64 => (Name::Status, b"204"),
        65 => (Name::Status, b"206"),
        66 => (Name::Status, b"302"),
        67 => (Name::Status, b"400"),
        68 => (Name::Status, b"403"),
        69 => (Name::Status, b"421"),
        70 => (Name::Status, b"425"),
        71 => (Name::Status, b"500"),
        92 => (Name::Runs(Source::Server), b""),
        _ => (Name::Other, b""),
    }
}

/// A field. Copies of it share its value: an instruction of one byte copies up to 64 KiB.
type Entry = (Name, Arc<[u8]>);

/// The table that one side fills.
#[derive(Debug, Default, Deserialize, Serialize)]
pub struct Table {
    /// The newest first. Values of other fields are left out.
    entries: VecDeque<Entry>,
    bytes: usize,
    inserted: u64,
    /// Instructions were lost, so that nobody knows the numbers of later entries.
    lost: bool,
    pending: Vec<u8>,
    /// The most entries of the other side's table, from its SETTINGS.
    pub entries_max: Option<u64>,
}

impl Table {
    /// Bytes of the stream of instructions.
    pub fn instructions(&mut self, bytes: &[u8]) {
        if self.lost {
            return;
        }
        let mut pending = std::mem::take(&mut self.pending);
        pending.extend_from_slice(bytes);
        let (mut rest, mut scratch) = (pending.as_slice(), Vec::new());
        while let Some((instruction, after)) = whole_instruction(rest) {
            let mut one = Rest {
                bytes: instruction,
                cut: false,
            };
            if self.instruction(&mut one, &mut scratch).is_none() {
                return self.lose();
            }
            rest = after;
        }
        let read = pending.len() - rest.len();
        pending.drain(..read);
        self.pending = pending;
        if self.pending.len() > PENDING_MAX {
            self.lose();
        }
    }

    /// Some of them were lost.
    pub fn lose(&mut self) {
        let entries_max = self.entries_max;
        *self = Table {
            lost: true,
            entries_max,
            ..Table::default()
        };
    }

    fn instruction(&mut self, rest: &mut Rest<'_>, scratch: &mut Vec<u8>) -> Option<()> {
        let first = *rest.bytes.first()?;
        let name = match first {
            0x80.. => {
                let index = rest.number(6)?;
                match first & 0x40 {
                    0 => self.newest(index).map_or(Name::Other, |(name, _)| *name),
                    _ => fixed(index).0,
                }
            }
            0x40.. => rest.name(5, scratch)?,
            // The size of the table.
            0x20.. => {
                rest.number(5)?;
                return Some(());
            }
            _ => {
                let index = rest.number(5)?;
                let copied = self.newest(index).cloned();
                self.add(copied.unwrap_or((Name::Other, [].into())));
                return Some(());
            }
        };
        let value = rest.value(name, scratch)?;
        if rest.cut {
            return None;
        }
        self.add((name, value.into()));
        Some(())
    }

    fn add(&mut self, entry: Entry) {
        self.inserted += 1;
        self.bytes += entry.1.len();
        self.entries.push_front(entry);
        while self.bytes > BYTES_MAX || self.entries.len() > ENTRIES_MAX {
            if let Some((_, value)) = self.entries.pop_back() {
                self.bytes -= value.len();
            }
        }
    }

    fn newest(&self, index: u64) -> Option<&Entry> {
        self.entries.get(usize::try_from(index).ok()?)
    }

    /// The entry with this number, counted from 0.
    fn entry(&self, number: u64) -> Option<&Entry> {
        self.newest(self.inserted.checked_sub(number)?.checked_sub(1)?)
    }

    /// Whether a section refers to entries that are still to come.
    pub fn awaits(&self, section: &[u8]) -> bool {
        let mut rest = Rest {
            bytes: section,
            cut: false,
        };
        let required = rest.number(8).map_or(0, |coded| self.required(coded));
        !self.lost && required > self.inserted
    }

    /// Section 4.5.1.1.
    fn required(&self, coded: u64) -> u64 {
        let Some(before) = coded.checked_sub(1) else {
            return 0;
        };
        let full = 2 * self.entries_max.unwrap_or(0);
        if full == 0 {
            return before;
        }
        let most = self.inserted + full / 2;
        let required = most / full * full + before;
        match required > most && required >= full {
            true => required - full,
            false => required,
        }
    }

    /// Passes on the fields of a section, as far as they are known.
    pub fn read(&self, section: &[u8], each: &mut dyn FnMut(Field<'_>)) {
        let mut rest = Rest {
            bytes: section,
            cut: false,
        };
        let mut scratch = Vec::new();
        let Some(base) = self.base(&mut rest) else {
            return;
        };
        while !rest.bytes.is_empty() && self.field(base, &mut rest, &mut scratch, each).is_some() {}
    }

    fn base(&self, rest: &mut Rest<'_>) -> Option<u64> {
        let required = self.required(rest.number(8)?);
        let below = rest.bytes.first()? & 0x80 != 0;
        let delta = rest.number(7)?;
        match below {
            true => Some(required.saturating_sub(delta).saturating_sub(1)),
            false => Some(required.saturating_add(delta)),
        }
    }

    fn field(
        &self,
        base: u64,
        rest: &mut Rest<'_>,
        scratch: &mut Vec<u8>,
        each: &mut dyn FnMut(Field<'_>),
    ) -> Option<()> {
        let first = *rest.bytes.first()?;
        let before = |index: u64| self.entry(base.checked_sub(index)?.checked_sub(1)?);
        let after = |index: u64| self.entry(base.checked_add(index)?);
        let found = match first {
            0xc0.. => return tell(Some(fixed(rest.number(6)?)), each),
            0x80.. => return tell(before(rest.number(6)?).map(borrowed), each),
            0x10..0x20 => return tell(after(rest.number(4)?).map(borrowed), each),
            0x50..0x60 | 0x70..0x80 => Some(fixed(rest.number(4)?).0),
            0x40.. => before(rest.number(4)?).map(|(name, _)| *name),
            0x20.. => Some(rest.name(3, scratch)?),
            _ => after(rest.number(3)?).map(|(name, _)| *name),
        };
        let name = found.unwrap_or(Name::Other);
        let value = rest.value(name, scratch)?;
        each(Field {
            name,
            value,
            whole: !rest.cut,
        });
        Some(())
    }
}

/// The first instruction, if it is there to its end, and what follows. Only lengths are read, so that an instruction that
/// comes in many pieces costs no more than one.
fn whole_instruction(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut rest = Rest { bytes, cut: false };
    let skip = |rest: &mut Rest<'_>, prefix| {
        let len = usize::try_from(rest.number(prefix)?).ok()?;
        rest.bytes = rest.bytes.get(len..)?;
        Some(())
    };
    match *bytes.first()? {
        0x80.. => {
            rest.number(6)?;
            skip(&mut rest, 7)?;
        }
        0x40.. => {
            skip(&mut rest, 5)?;
            skip(&mut rest, 7)?;
        }
        _ => {
            rest.number(5)?;
        }
    }
    bytes.split_at_checked(bytes.len() - rest.bytes.len())
}

fn borrowed((name, value): &Entry) -> (Name, &[u8]) {
    (*name, value)
}

fn tell(field: Option<(Name, &[u8])>, each: &mut dyn FnMut(Field<'_>)) -> Option<()> {
    if let Some((name, value)) = field {
        each(Field {
            name,
            value,
            whole: true,
        });
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(table: &Table, section: &[u8]) -> Vec<String> {
        let mut seen = Vec::new();
        table.read(section, &mut |field| {
            seen.push(format!(
                "{:?} {}",
                field.name,
                String::from_utf8_lossy(field.value)
            ));
        });
        seen
    }

    /// RFC 9204, appendix B.1 and B.2.
    #[test]
    fn sections_of_the_rfc() {
        let mut table = Table::default();
        assert_eq!(
            read(&table, b"\0\0\x51\x0b/index.html"),
            ["Path /index.html"]
        );
        let section = b"\x03\x81\x10\x11";
        assert!(table.awaits(section));
        // In two pieces: the capacity, :authority, and :path.
        table.instructions(b"\x3f\xbd\x01\xc0\x0fwww.example.com\xc1\x0c/sa");
        assert!(table.awaits(section));
        table.instructions(b"mple/path");
        assert!(!table.awaits(section));
        assert_eq!(read(&table, section), ["Other ", "Path /sample/path"]);
        // B.3 and B.4: a field of its own, and a copy of the oldest entry.
        table.instructions(b"\x4acustom-key\x0ccustom-value\x02");
        assert_eq!(table.inserted, 4);
        assert_eq!(
            read(&table, b"\x05\0\x80\xc1\x81"),
            ["Other ", "Path /", "Other "]
        );
    }

    #[test]
    fn instructions_in_pieces_of_any_length() {
        let all = b"\x3f\xbd\x01\xc1\x05/shop\x4acustom-key\x0ccustom-value\x01\x01\xc1\x7f\x01";
        let long = [&all[..], &[b'a'; 128]].concat();
        for size in 1..=long.len() {
            let mut table = Table::default();
            for piece in long.chunks(size) {
                table.instructions(piece);
            }
            assert_eq!((table.inserted, table.pending.len()), (5, 0), "{size}");
            assert_eq!(table.entries[0].1.len(), 128);
            assert!(Arc::ptr_eq(&table.entries[2].1, &table.entries[4].1));
        }
        let mut damaged = Table::default();
        damaged.instructions(b"\xc1\xffa");
        assert!(!damaged.lost);
        damaged.instructions(&[b'a'; PENDING_MAX]);
        damaged.instructions(&[0xff; 8]);
        assert!(damaged.pending.len() <= PENDING_MAX);
    }

    #[test]
    fn the_required_count_wraps() {
        let table = Table {
            entries_max: Some(3),
            inserted: 10,
            ..Table::default()
        };
        // Section 4.5.1.1: 9 entries are required, 100 bytes are the most.
        assert_eq!(table.required(4), 9);
        assert_eq!(table.required(0), 0);
    }

    #[test]
    fn after_a_loss_only_what_needs_no_table_is_known() {
        let mut table = Table::default();
        table.lose();
        table.instructions(b"\xc1\x01/");
        let section = b"\x03\x81\x10\xd1";
        assert!(!table.awaits(section));
        assert_eq!(read(&table, section), ["Method GET"]);
        for damaged in [&b""[..], b"\xff", b"\0\0\x51\x7f/", b"\0\0\x27\xff\xff\xff"] {
            read(&table, damaged);
        }
    }
}
