//! Thrift's compact protocol, for the footer of a Parquet file and the headers of its pages. It
//! allocates nothing, and a list is never longer than the remaining bytes. None: damaged.

/// The nesting depth; Parquet's own structures reach 6.
const DEPTH: usize = 16;

pub mod kind {
    pub const TRUE: u8 = 1;
    pub const FALSE: u8 = 2;
    pub const BYTE: u8 = 3;
    pub const I16: u8 = 4;
    pub const I64: u8 = 6;
    pub const DOUBLE: u8 = 7;
    pub const BINARY: u8 = 8;
    pub const LIST: u8 = 9;
    pub const SET: u8 = 10;
    pub const MAP: u8 = 11;
    pub const STRUCT: u8 = 12;
    pub const UUID: u8 = 13;
}

/// The remaining bytes.
#[derive(Clone, Copy)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// Passes each field of a structure to `each`, which must read or [`Reader::skip`] its value.
    pub fn fields(&mut self, mut each: impl FnMut(i16, u8, &mut Self) -> Option<()>) -> Option<()> {
        let mut id = 0_i16;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Some(());
            }
            id = match head >> 4 {
                0 => i16::try_from(self.signed()?).ok()?,
                delta => id.checked_add(i16::from(delta))?,
            };
            each(id, head & 15, self)?;
        }
    }

    /// Passes each structure of a list to `each`.
    pub fn structures(
        &mut self,
        kind: u8,
        mut each: impl FnMut(&mut Self) -> Option<()>,
    ) -> Option<()> {
        let (count, inner) = self.list(kind)?;
        if inner != kind::STRUCT && count > 0 {
            return None;
        }
        (0..count).try_for_each(|_| each(self))
    }

    pub fn number(&mut self, kind: u8) -> Option<i64> {
        match kind {
            kind::I16..=kind::I64 => self.signed(),
            _ => None,
        }
    }

    pub fn binary(&mut self, kind: u8) -> Option<&'a [u8]> {
        let length = match kind {
            kind::BINARY => self.unsigned()?,
            _ => return None,
        };
        self.take(usize::try_from(length).ok()?)
    }

    pub fn skip(&mut self, kind: u8) -> Option<()> {
        self.skip_within(kind, DEPTH)
    }

    fn skip_within(&mut self, kind: u8, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match kind {
            kind::TRUE | kind::FALSE => {}
            kind::BYTE => drop(self.take(1)?),
            kind::I16..=kind::I64 => drop(self.unsigned()?),
            kind::DOUBLE => drop(self.take(8)?),
            kind::UUID => drop(self.take(16)?),
            kind::BINARY => drop(self.binary(kind)?),
            kind::LIST | kind::SET => {
                let (count, inner) = self.list(kind)?;
                (0..count).try_for_each(|_| self.skip_element(inner, depth))?;
            }
            kind::MAP => {
                let count = self.count()?;
                let kinds = if count > 0 { self.byte()? } else { 0 };
                for _ in 0..count {
                    self.skip_element(kinds >> 4, depth)?;
                    self.skip_element(kinds & 15, depth)?;
                }
            }
            kind::STRUCT => self.fields(|_, kind, reader| reader.skip_within(kind, depth))?,
            _ => return None,
        }
        Some(())
    }

    /// In a list a truth value takes a byte; as a field it is in the field's header.
    fn skip_element(&mut self, kind: u8, depth: usize) -> Option<()> {
        match kind {
            kind::TRUE | kind::FALSE => self.take(1).map(drop),
            kind => self.skip_within(kind, depth),
        }
    }

    fn list(&mut self, kind: u8) -> Option<(usize, u8)> {
        if kind != kind::LIST && kind != kind::SET {
            return None;
        }
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => self.count()?,
            few => usize::from(few),
        };
        (count <= self.0.len()).then_some((count, head & 15))
    }

    fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(self.unsigned()?).ok()?;
        (count <= self.0.len()).then_some(count)
    }

    fn signed(&mut self) -> Option<i64> {
        let zigzag = self.unsigned()?;
        Some((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64))
    }

    fn unsigned(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_their_numbers_and_values() {
        // 1: i32 = -3, 4: "ab", 20: list of two truth values, end
        let bytes = [0x15, 5, 0x38, 2, b'a', b'b', 0x09, 40, 0x21, 1, 2, 0];
        let mut seen = Vec::new();
        let mut reader = Reader(&bytes);
        let read = reader.fields(|id, kind, reader| {
            match id {
                1 => seen.push(reader.number(kind)?),
                4 => seen.push(reader.binary(kind)?.len() as i64),
                _ => reader.skip(kind)?,
            }
            Some(())
        });
        assert_eq!((read, seen, reader.0.len()), (Some(()), vec![-3, 2], 0));
    }

    #[test]
    fn what_is_cut_longer_than_itself_or_too_deep_is_damaged() {
        let endless_list = [0x19, 0xf5, 0xff, 0xff, 0xff, 0xff, 0x07];
        let deep = vec![0x1c; 100_000];
        for bytes in [&endless_list[..], &deep, &[0x15], &[0x18, 200, 1]] {
            let mut reader = Reader(bytes);
            assert_eq!(reader.fields(|_, kind, reader| reader.skip(kind)), None);
        }
    }
}
