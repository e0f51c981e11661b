//! The names of one column of a row group, in the order of their first use.

use super::NO_NAME;
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef};
use rustc_hash::FxHashMap;
use std::borrow::Cow;

/// No index: a row without a name, or a name that no row has used yet.
pub const NO_INDEX: u32 = u32::MAX;

/// It is not bounded: a capture has few names, and writers of other tables have them in memory
/// anyway.
#[derive(Default)]
pub struct Dictionary {
    known: FxHashMap<String, u32>,
    /// The index of each of the writer's own numbers, for names that rows have used.
    by_number: Vec<u32>,
    /// Each name after its length.
    plain: Vec<u8>,
}

impl Dictionary {
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// The least and the greatest name.
    pub fn ends(&self) -> (Option<&String>, Option<&String>) {
        (self.known.keys().min(), self.known.keys().max())
    }

    /// Bits of an index.
    pub fn width(&self) -> u32 {
        u32::BITS - (self.known.len().saturating_sub(1) as u32).leading_zeros()
    }

    /// All names, as a page has them.
    pub fn take_plain(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.plain)
    }

    pub fn index(&mut self, name: &str) -> u32 {
        if let Some(&index) = self.known.get(name) {
            return index;
        }
        let index = self.known.len() as u32;
        self.known.insert(name.to_owned(), index);
        self.plain
            .extend_from_slice(&(name.len() as u32).to_le_bytes());
        self.plain.extend_from_slice(name.as_bytes());
        index
    }

    /// The index of a numbered name, if it has one; [`NO_INDEX`] for [`NO_NAME`].
    #[inline(always)]
    pub fn index_of<'n>(
        &mut self,
        number: u32,
        name_of: impl Fn(u32) -> Option<Cow<'n, str>>,
    ) -> Option<u32> {
        match self.by_number.get(number as usize) {
            Some(&index) if index != NO_INDEX => Some(index),
            _ if number == NO_NAME => Some(NO_INDEX),
            _ => Some(self.learn(number, &name_of(number)?)),
        }
    }

    #[cold]
    fn learn(&mut self, number: u32, name: &str) -> u32 {
        let index = self.index(name);
        let least = (number as usize + 1).max(self.by_number.len());
        self.by_number.resize(least, NO_INDEX);
        self.by_number[number as usize] = index;
        index
    }

    /// The indices of the present names.
    pub fn gather(&mut self, array: &ArrayRef, indices: &mut Vec<u32>) {
        let dictionary = array.as_dictionary::<Int32Type>();
        let (keys, values) = (dictionary.keys(), dictionary.values().as_string::<i32>());
        let mut indices_of = vec![NO_INDEX; values.len()];
        let mut index = |key: i32| {
            let place = &mut indices_of[key as usize];
            if *place == NO_INDEX {
                *place = self.index(values.value(key as usize));
            }
            *place
        };
        if keys.null_count() == 0 {
            indices.extend(keys.values().iter().map(|&key| index(key)));
        } else {
            indices.extend(keys.iter().flatten().map(index));
        }
    }
}
