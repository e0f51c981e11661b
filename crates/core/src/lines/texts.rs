//! The different texts of a column, by numbers that stay the same.

use rustc_hash::FxHashMap;

/// So many, and so many bytes of them together: a column of more has no texts that are alike.
const TEXTS_MAX: usize = 1 << 16;
const BYTES_MAX: usize = 8 << 20;

/// Number 0 is for no text.
#[derive(Debug)]
pub struct Texts {
    numbers: FxHashMap<String, u32>,
    texts: Vec<String>,
    bytes: usize,
    last: u32,
}

impl Default for Texts {
    fn default() -> Self {
        Texts {
            numbers: FxHashMap::default(),
            texts: vec![String::new()],
            bytes: 0,
            last: 0,
        }
    }
}

impl Texts {
    /// The number of a text; None if it is not UTF-8, or if there is no room for it.
    pub fn number(&mut self, text: &[u8]) -> Option<u32> {
        // Most lines of a log have the text of the line before.
        if self.last > 0 && self.texts.get(self.last as usize)?.as_bytes() == text {
            return Some(self.last);
        }
        let text = std::str::from_utf8(text).ok()?;
        let number = match self.numbers.get(text) {
            Some(&number) => number,
            None => {
                let number = u32::try_from(self.texts.len()).ok()?;
                self.bytes += text.len();
                if self.texts.len() > TEXTS_MAX || self.bytes > BYTES_MAX {
                    self.bytes -= text.len();
                    return None;
                }
                self.numbers.insert(text.to_owned(), number);
                self.texts.push(text.to_owned());
                number
            }
        };
        self.last = number;
        Some(number)
    }

    /// The texts by their numbers.
    pub fn all(&self) -> &[String] {
        &self.texts
    }
}
