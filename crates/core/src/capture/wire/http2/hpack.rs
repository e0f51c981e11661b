//! Header blocks of HTTP/2 (HPACK, RFC 7541), read by somebody who may have missed a part.
//!
//! ```text
//!  index   1 … 61     62      63      64 …
//!          static   newest  older   older
//! ```
//! Both ends keep a table of recent fields, and later blocks refer to them by their distance from the newest. A library
//! stops where one block is missing. Here, the table is emptied where blocks were lost: fields that come later get the
//! right distances again, and what lies behind them is unknown. For the same reason, sizes of tables need not be followed:
//! an entry that the encoder has dropped is never referred to.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

use super::super::software::Source;
use super::super::trace::Carrier;
use super::huffman;

/// Bytes and entries that are kept; the usual sizes of tables are 4 KiB, and 64 KiB in browsers. An entry counts 32
/// bytes or more there.
const BYTES_MAX: usize = 64 << 10;
const ENTRIES_MAX: usize = BYTES_MAX / 32;
/// The longest name that matters is `x-amzn-trace-id`.
const NAME_MAX: usize = 16;
const STATIC: u64 = 61;

/// The fields that describe an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Name {
    Method,
    Path,
    Status,
    ContentType,
    GrpcStatus,
    Trace(Carrier),
    Runs(Source),
    Other,
}

impl Name {
    pub fn of(name: &[u8]) -> Name {
        match name {
            b":method" => Name::Method,
            b":path" => Name::Path,
            b":status" => Name::Status,
            b"content-type" => Name::ContentType,
            b"grpc-status" => Name::GrpcStatus,
            _ => match (Carrier::named(name), Source::named(name)) {
                (Some(carrier), _) => Name::Trace(carrier),
                (_, Some(source)) => Name::Runs(source),
                _ => Name::Other,
            },
        }
    }

    /// Appendix A.
    fn of_static(index: u64) -> Name {
        match index {
            2 | 3 => Name::Method,
            4 | 5 => Name::Path,
            8..=14 => Name::Status,
            31 => Name::ContentType,
            54 => Name::Runs(Source::Server),
            60 => Name::Runs(Source::Via),
            _ => Name::Other,
        }
    }
}

fn static_value(index: u64) -> &'static [u8] {
    match index {
        2 => b"GET",
        3 => b"POST",
        4 => b"/",
        5 => b"/index.html",
        8 => b"200",
        9 => b"204",
        10 => b"206",
        11 => b"304",
        12 => b"400",
        13 => b"404",
        14 => b"500",
        _ => b"",
    }
}

/// A field of a block. `whole`: its value is there to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    pub name: Name,
    pub value: &'a [u8],
    pub whole: bool,
}

/// The fields that one side has sent.
#[derive(Debug, Default, Deserialize, Serialize)]
pub struct Table {
    /// The newest first. Values of other fields are left out.
    entries: VecDeque<(Name, Box<[u8]>)>,
    bytes: usize,
}

impl Table {
    /// Blocks were lost.
    pub fn forget(&mut self) {
        *self = Table::default();
    }

    /// Passes on the fields of a block, or of the beginning of one. False: it could not be read to its end, so that the
    /// table is empty now.
    pub fn read(&mut self, block: &[u8], each: &mut dyn FnMut(Field<'_>)) -> bool {
        let mut rest = Rest {
            bytes: block,
            cut: false,
        };
        let mut scratch = Vec::new();
        while !rest.bytes.is_empty() {
            if self.field(&mut rest, &mut scratch, each).is_none() {
                self.forget();
                return false;
            }
        }
        true
    }

    fn field(
        &mut self,
        rest: &mut Rest<'_>,
        scratch: &mut Vec<u8>,
        each: &mut dyn FnMut(Field<'_>),
    ) -> Option<()> {
        let first = *rest.bytes.first()?;
        let prefix = match first {
            0x80.. => 7,
            0x40..0x80 => 6,
            0x20..0x40 => 5,
            _ => 4,
        };
        let number = rest.number(prefix)?;
        match first {
            0x80.. if number == 0 => return None,
            0x80..=0xff if number <= STATIC => each(Field {
                name: Name::of_static(number),
                value: static_value(number),
                whole: true,
            }),
            0x80.. => {
                // What is not there was sent before the table was emptied.
                if let Some((name, value)) = self.dynamic(number) {
                    each(Field {
                        name: *name,
                        value,
                        whole: true,
                    });
                }
            }
            // The size of the table.
            0x20..0x40 => {}
            _ => {
                let name = match number {
                    0 => rest.name(7, scratch)?,
                    1..=STATIC => Name::of_static(number),
                    _ => self.dynamic(number).map_or(Name::Other, |(name, _)| *name),
                };
                let value = rest.value(name, scratch)?;
                each(Field {
                    name,
                    value,
                    whole: !rest.cut,
                });
                if rest.cut {
                    return None;
                }
                if first & 0x40 != 0 {
                    self.add(name, value);
                }
            }
        }
        Some(())
    }

    fn dynamic(&self, index: u64) -> Option<&(Name, Box<[u8]>)> {
        self.entries.get(usize::try_from(index - STATIC - 1).ok()?)
    }

    fn add(&mut self, name: Name, value: &[u8]) {
        self.bytes += value.len();
        self.entries.push_front((name, value.into()));
        while self.bytes > BYTES_MAX || self.entries.len() > ENTRIES_MAX {
            if let Some((_, value)) = self.entries.pop_back() {
                self.bytes -= value.len();
            }
        }
    }
}

/// The unread part of a block.
pub struct Rest<'b> {
    pub bytes: &'b [u8],
    /// It ended within a value.
    pub cut: bool,
}

impl<'b> Rest<'b> {
    /// Section 5.1, up to 2^35.
    pub fn number(&mut self, prefix: u32) -> Option<u64> {
        let (&first, mut rest) = self.bytes.split_first()?;
        let max = u8::MAX >> (8 - prefix);
        let mut number = u64::from(first & max);
        if first & max == max {
            for shift in [0, 7, 14, 21, 28, 35] {
                let (&byte, after) = rest.split_first().filter(|_| shift < 35)?;
                rest = after;
                number += u64::from(byte & 0x7f) << shift;
                if byte & 0x80 == 0 {
                    break;
                }
            }
        }
        self.bytes = rest;
        Some(number)
    }

    /// The bytes of a text as far as they are there, and whether they are Huffman's code. Section 5.2, with a length that
    /// begins in so many bits of the first byte.
    fn text(&mut self, prefix: u32) -> Option<(&'b [u8], bool)> {
        let coded = self.bytes.first()? & 1 << prefix != 0;
        let len = usize::try_from(self.number(prefix)?).ok()?;
        let (text, rest) = self.bytes.split_at_checked(len).unwrap_or_else(|| {
            self.cut = true;
            (self.bytes, &[])
        });
        self.bytes = rest;
        Some((text, coded))
    }

    pub fn name(&mut self, prefix: u32, scratch: &mut Vec<u8>) -> Option<Name> {
        let (text, coded) = self.text(prefix)?;
        Some(match coded {
            _ if self.cut => return None,
            _ if text.len() > NAME_MAX => Name::Other,
            false => Name::of(text),
            true => {
                scratch.clear();
                match huffman::decode(text, scratch) {
                    true => Name::of(scratch),
                    false => return None,
                }
            }
        })
    }

    /// The value of a field that matters; another is skipped.
    pub fn value<'s>(&mut self, name: Name, scratch: &'s mut Vec<u8>) -> Option<&'s [u8]> {
        let (text, coded) = self.text(7)?;
        scratch.clear();
        if name != Name::Other {
            match coded {
                false => scratch.extend_from_slice(text),
                true if !huffman::decode(text, scratch) && !self.cut => return None,
                true => {}
            }
        }
        Some(scratch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(table: &mut Table, block: &[u8]) -> Vec<String> {
        let mut seen = Vec::new();
        let whole = table.read(block, &mut |field| {
            if field.name != Name::Other {
                let more = if field.whole { "" } else { "…" };
                seen.push(format!(
                    "{:?} {}{more}",
                    field.name,
                    String::from_utf8_lossy(field.value)
                ));
            }
        });
        if !whole {
            seen.push("lost".to_owned());
        }
        seen
    }

    /// RFC 7541, C.4: three requests on one connection, with Huffman's code.
    const REQUESTS: [&[u8]; 3] = [
        b"\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff",
        b"\x82\x86\x84\xbe\x58\x86\xa8\xeb\x10\x64\x9c\xbf",
        b"\x82\x87\x85\xbf\x40\x88\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f\x89\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf",
    ];

    #[test]
    fn requests_of_the_rfc() {
        let mut table = Table::default();
        let seen = REQUESTS.map(|block| read(&mut table, block));
        assert_eq!(seen[0], ["Method GET", "Path /"]);
        assert_eq!(seen[1], ["Method GET", "Path /"]);
        assert_eq!(seen[2], ["Method GET", "Path /index.html"]);
        assert_eq!(table.entries.len(), 3);
    }

    #[test]
    fn responses_of_the_rfc() {
        // C.6: 302, 307 as a change of an older entry's name, and 200.
        let mut table = Table::default();
        let first = b"\x48\x82\x64\x02\x58\x85\xae\xc3\x77\x1a\x4b\x61\x96\xd0\x7a\xbe\x94\x10\x54\xd4\x44\xa8\x20\x05\x95\x04\x0b\x81\x66\xe0\x82\xa6\x2d\x1b\xff\x6e\x91\x9d\x29\xad\x17\x18\x63\xc7\x8f\x0b\x97\xc8\xe9\xae\x82\xae\x43\xd3";
        assert_eq!(read(&mut table, first), ["Status 302"]);
        assert_eq!(
            read(&mut table, b"\x48\x83\x64\x0e\xff\xc1\xc0\xbf"),
            ["Status 307"]
        );
        assert_eq!(read(&mut table, b"\x88\xc1\xc0\xbf"), ["Status 200"]);
        assert_eq!(
            read(&mut table, b"\xbe"),
            ["Status 307"],
            "the newest entry"
        );
    }

    #[test]
    fn after_a_loss_new_fields_are_known_and_older_ones_unknown() {
        let mut table = Table::default();
        let path = b"\x44\x02/a";
        assert_eq!(read(&mut table, path), ["Path /a"]);
        table.forget();
        assert_eq!(read(&mut table, b"\x82\xbe"), ["Method GET"]);
        assert_eq!(read(&mut table, b"\x44\x02/b"), ["Path /b"]);
        assert_eq!(read(&mut table, b"\xbe\xbf\x88"), ["Path /b", "Status 200"]);
    }

    #[test]
    fn a_cut_block_gives_what_is_there() {
        let mut table = Table::default();
        assert_eq!(
            read(&mut table, b"\x82\x04\x08/img"),
            ["Method GET", "Path /img…", "lost"]
        );
        let coded = &REQUESTS[0][..REQUESTS[0].len() - 3];
        assert_eq!(read(&mut table, coded), ["Method GET", "Path /", "lost"]);
    }

    #[test]
    fn damaged_blocks_are_lost() {
        let endless: &[u8] = b"\xff\xff\xff\xff\xff\xff\xff\xff";
        for block in [b"\x80", endless, b"\x40", b"\x40\x82\xff\xff\x01a"] {
            assert_eq!(read(&mut Table::default(), block), ["lost"], "{block:x?}");
        }
    }

    #[test]
    fn memory_is_bounded() {
        let mut table = Table::default();
        let path = [&b"\x44\x7f\xa1\x1e"[..], &[b'a'; 4000]].concat();
        for _ in 0..5_000 {
            assert!(table.read(&path, &mut |_| {}));
            assert!(table.read(b"\x40\x01a\x01b", &mut |_| {}));
        }
        assert!(table.bytes <= BYTES_MAX && table.entries.len() <= ENTRIES_MAX);
    }
}
