//! JSON in one pass, without a tree: the caller asks for what it wants, and all else is skipped.
//!
//! ```text
//! parser.object(|parser, key| match key { b"kind" => kind = parser.scalar()?, _ => parser.skip()? })
//! ```
//!
//! The whole text is checked, also what is skipped. Values of a kind that the caller does not expect are skipped as well:
//! files of others have them. Texts are bytes, because they may be no UTF-8.

use std::borrow::Cow;

/// Lists and objects that are open at once, as in serde_json; deeper text is damaged.
const DEPTH_MAX: u32 = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The text ends within a value.
    Short,
    /// It is no JSON.
    Wrong,
}

pub type Result<T> = std::result::Result<T, Fault>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Scalar<'t> {
    Text(Cow<'t, [u8]>),
    /// A whole number, as it is written.
    Integer(&'t [u8]),
    /// Another number, as it is written.
    Real(&'t [u8]),
    Bool(bool),
    #[default]
    Null,
    /// A list or an object.
    Nested,
}

impl<'t> Scalar<'t> {
    /// Text that is not empty, or the digits of a whole number.
    pub fn text(&self) -> Option<&[u8]> {
        match self {
            Scalar::Text(text) => (!text.is_empty()).then_some(text),
            Scalar::Integer(digits) => Some(digits),
            _ => None,
        }
    }

    /// A number, or text of one.
    pub fn number(&self) -> Option<f64> {
        let text = match self {
            Scalar::Text(text) => text,
            Scalar::Integer(text) | Scalar::Real(text) => *text,
            _ => return None,
        };
        let number: f64 = std::str::from_utf8(text).ok()?.trim().parse().ok()?;
        number.is_finite().then_some(number)
    }

    /// A whole number below 10¹⁹ that is not negative, or text of one; at most what 63 bits hold.
    pub fn whole(&self) -> Option<i64> {
        let digits = self.text()?;
        let number: u64 = (digits.len() < 20)
            .then(|| {
                digits.iter().try_fold(0_u64, |number, byte| {
                    byte.is_ascii_digit()
                        .then(|| number * 10 + u64::from(byte - b'0'))
                })
            })
            .flatten()?;
        Some(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

#[derive(Clone)]
pub struct Parser<'t> {
    text: &'t [u8],
    at: usize,
    depth: u32,
}

impl<'t> Parser<'t> {
    pub fn new(text: &'t [u8]) -> Self {
        Parser {
            text,
            at: 0,
            depth: 0,
        }
    }

    /// Bytes that were read, as far as the damage if there is any.
    pub fn position(&self) -> usize {
        self.at
    }

    /// The members of an object; `each` reads the value of each. Anything else is skipped.
    pub fn object(&mut self, mut each: impl FnMut(&mut Self, &[u8]) -> Result<()>) -> Result<()> {
        if self.peek()? != b'{' {
            return self.skip();
        }
        self.deeper()?;
        if self.peek()? == b'}' {
            return self.shallower();
        }
        loop {
            if self.peek()? != b'"' {
                return Err(Fault::Wrong);
            }
            let key = self.string()?;
            self.require(b':')?;
            each(self, &key)?;
            match self.peek()? {
                b',' => self.at += 1,
                b'}' => return self.shallower(),
                _ => return Err(Fault::Wrong),
            }
        }
    }

    /// The items of a list; `each` reads each. Anything else is skipped.
    pub fn list(&mut self, mut each: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        if self.peek()? != b'[' {
            return self.skip();
        }
        self.deeper()?;
        if self.peek()? == b']' {
            return self.shallower();
        }
        loop {
            each(self)?;
            match self.peek()? {
                b',' => self.at += 1,
                b']' => return self.shallower(),
                _ => return Err(Fault::Wrong),
            }
        }
    }

    /// The same for a list of objects; other items are skipped.
    pub fn objects(&mut self, mut each: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        self.list(|parser| match parser.peek()? {
            b'{' => each(parser),
            _ => parser.skip(),
        })
    }

    pub fn scalar(&mut self) -> Result<Scalar<'t>> {
        match self.peek()? {
            b'"' => self.string().map(Scalar::Text),
            b'{' | b'[' => self.skip().map(|()| Scalar::Nested),
            b't' => self.word(b"true").map(|()| Scalar::Bool(true)),
            b'f' => self.word(b"false").map(|()| Scalar::Bool(false)),
            b'n' => self.word(b"null").map(|()| Scalar::Null),
            _ => self.number(),
        }
    }

    pub fn skip(&mut self) -> Result<()> {
        match self.peek()? {
            b'{' => self.object(|parser, _| parser.skip()),
            b'[' => self.list(Self::skip),
            _ => self.scalar().map(drop),
        }
    }

    /// The next byte that is no space.
    pub fn peek(&mut self) -> Result<u8> {
        loop {
            match self.text.get(self.at) {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.at += 1,
                Some(&byte) => return Ok(byte),
                None => return Err(Fault::Short),
            }
        }
    }

    fn require(&mut self, byte: u8) -> Result<()> {
        if self.peek()? != byte {
            return Err(Fault::Wrong);
        }
        self.at += 1;
        Ok(())
    }

    fn deeper(&mut self) -> Result<()> {
        self.at += 1;
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Fault::Wrong);
        }
        Ok(())
    }

    fn shallower(&mut self) -> Result<()> {
        self.at += 1;
        self.depth -= 1;
        Ok(())
    }

    fn word(&mut self, word: &[u8]) -> Result<()> {
        let rest = &self.text[self.at..];
        let common = rest.len().min(word.len());
        if rest[..common] != word[..common] {
            return Err(Fault::Wrong);
        }
        self.at += common;
        if common < word.len() {
            return Err(Fault::Short);
        }
        Ok(())
    }

    fn number(&mut self) -> Result<Scalar<'t>> {
        let rest = &self.text[self.at..];
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let len = rest.iter().position(|byte| !is_part(byte));
        let number = &rest[..len.unwrap_or(rest.len())];
        let form = form_of_number(number);
        if len.is_none() && self.depth > 0 {
            return Err(Fault::Short);
        }
        self.at += number.len();
        match form {
            Some(true) => Ok(Scalar::Integer(number)),
            Some(false) => Ok(Scalar::Real(number)),
            None => Err(Fault::Wrong),
        }
    }

    /// The text of a string, which begins here.
    fn string(&mut self) -> Result<Cow<'t, [u8]>> {
        let text = self.text;
        let begin = self.at + 1;
        let mut owned = Vec::new();
        let mut from = begin;
        loop {
            let rest = text.get(from..).ok_or(Fault::Short)?;
            let end = from + plain(rest);
            match text.get(end) {
                Some(b'"') => {
                    self.at = end + 1;
                    return Ok(if owned.is_empty() && from == begin {
                        Cow::Borrowed(&text[begin..end])
                    } else {
                        owned.extend_from_slice(&text[from..end]);
                        Cow::Owned(owned)
                    });
                }
                Some(b'\\') => {
                    self.at = end;
                    owned.extend_from_slice(&text[from..end]);
                    from = escape(text, end + 1, &mut owned)?;
                }
                Some(_) => {
                    self.at = end;
                    return Err(Fault::Wrong);
                }
                None => return Err(Fault::Short),
            }
        }
    }
}

/// Whether a number is whole; None: it is none.
fn form_of_number(text: &[u8]) -> Option<bool> {
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = digits(text);
    if whole == 0 || (whole > 1 && text[0] == b'0') {
        return None;
    }
    let mut rest = &text[whole..];
    let is_whole = rest.is_empty();
    if let Some(part) = rest.strip_prefix(b".") {
        let len = digits(part);
        if len == 0 {
            return None;
        }
        rest = &part[len..];
    }
    if let Some(part) = rest.strip_prefix(b"e").or(rest.strip_prefix(b"E")) {
        let part = part
            .strip_prefix(b"-")
            .or(part.strip_prefix(b"+"))
            .unwrap_or(part);
        let len = digits(part);
        if len == 0 {
            return None;
        }
        rest = &part[len..];
    }
    rest.is_empty().then_some(is_whole)
}

/// Bytes before the first quote, backslash or control character, eight at a time: `hasless` and `haszero` of
/// S. E. Anderson's Bit Twiddling Hacks, of which the lowest hit is exact.
fn plain(text: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    let zero = |word: u64| word.wrapping_sub(ONES) & !word;
    let mut chunks = text.chunks_exact(8);
    for (i, chunk) in chunks.by_ref().enumerate() {
        let word = chunk.try_into().map_or(0, u64::from_le_bytes);
        let control = word.wrapping_sub(ONES * 0x20) & !word;
        let quote = zero(word ^ (ONES * u64::from(b'"')));
        let slash = zero(word ^ (ONES * u64::from(b'\\')));
        let hits = (control | quote | slash) & HIGH;
        if hits != 0 {
            return i * 8 + hits.trailing_zeros() as usize / 8;
        }
    }
    let rest = chunks.remainder();
    let special = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
    let len = rest.iter().position(special).unwrap_or(rest.len());
    text.len() - rest.len() + len
}

/// Adds what an escape means, of which `at` is the byte after the backslash; returns the byte after it.
fn escape(text: &[u8], at: usize, into: &mut Vec<u8>) -> Result<usize> {
    let byte = match text.get(at).ok_or(Fault::Short)? {
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'b' => 8,
        b'f' => 12,
        &byte @ (b'"' | b'\\' | b'/') => byte,
        b'u' => return unicode(text, at + 1, into),
        _ => return Err(Fault::Wrong),
    };
    into.push(byte);
    Ok(at + 1)
}

/// The same for `\u`; the half of a pair becomes U+FFFD.
fn unicode(text: &[u8], at: usize, into: &mut Vec<u8>) -> Result<usize> {
    let first = hex(text, at)?;
    let (mut code, mut next) = (first, at + 4);
    if (0xD800..0xDC00).contains(&first) && text.get(next..next + 2) == Some(b"\\u") {
        let second = hex(text, next + 2)?;
        if (0xDC00..0xE000).contains(&second) {
            code = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
            next += 6;
        }
    }
    let character = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
    into.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    Ok(next)
}

fn hex(text: &[u8], at: usize) -> Result<u32> {
    (at..at + 4).try_fold(0, |number, at| {
        let byte = *text.get(at).ok_or(Fault::Short)?;
        let digit = char::from(byte).to_digit(16).ok_or(Fault::Wrong)?;
        Ok(number * 16 + digit)
    })
}

#[cfg(test)]
mod tests;
