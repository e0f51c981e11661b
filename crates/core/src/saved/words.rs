//! Values that are saved in another way than they are held: the words of the program, and long arrays.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// A word of the program: a reason, a kind, a name of a protocol.
pub type Fixed = &'static str;

/// Words that were read back; there are as many as the program has.
static WORDS: Mutex<BTreeSet<Fixed>> = Mutex::new(BTreeSet::new());
/// More than the program has. A file that holds more is not one of its own.
const WORDS_MAX: usize = 4096;

fn word(text: String) -> std::result::Result<Fixed, &'static str> {
    let mut words = WORDS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = words.get(text.as_str()) {
        return Ok(known);
    }
    if words.len() >= WORDS_MAX {
        return Err("more words than the program has");
    }
    let kept: Fixed = Box::leak(text.into_boxed_str());
    words.insert(kept);
    Ok(kept)
}

/// `#[serde(with = "crate::saved::fixed")]` for a [`Fixed`].
pub mod fixed {
    use super::{word, Fixed};
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(word: &Fixed, to: S) -> Result<S::Ok, S::Error> {
        word.serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Fixed, D::Error> {
        word(String::deserialize(from)?).map_err(D::Error::custom)
    }
}

/// The same for one that may be missing.
pub mod fixed_or_none {
    use super::{word, Fixed};
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(word: &Option<Fixed>, to: S) -> Result<S::Ok, S::Error> {
        word.serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Fixed>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        text.map(word).transpose().map_err(D::Error::custom)
    }
}

/// The same for counts by such words.
pub mod fixed_counts {
    use super::{word, Fixed};
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::collections::BTreeMap;

    type Counts = BTreeMap<Fixed, u64>;

    pub fn serialize<S: Serializer>(counts: &Counts, to: S) -> Result<S::Ok, S::Error> {
        counts.serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Counts, D::Error> {
        let counts = BTreeMap::<String, u64>::deserialize(from)?;
        let counts = counts
            .into_iter()
            .map(|(text, count)| Ok((word(text)?, count)));
        counts
            .collect::<Result<Counts, Fixed>>()
            .map_err(D::Error::custom)
    }
}

/// `#[serde(with = "crate::saved::array")]` for bytes of a fixed number.
pub mod array {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer, const N: usize>(
        bytes: &[u8; N],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        bytes.as_slice().serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>, const N: usize>(
        from: D,
    ) -> Result<[u8; N], D::Error> {
        let bytes = Vec::<u8>::deserialize(from)?;
        let wrong = |_| D::Error::custom("bytes of another number");
        bytes.try_into().map_err(wrong)
    }
}

/// The same for a list of such counts.
pub mod fixed_list {
    use super::{word, Fixed};
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    type List = Vec<(Fixed, u64)>;

    pub fn serialize<S: Serializer>(list: &List, to: S) -> Result<S::Ok, S::Error> {
        list.serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<List, D::Error> {
        let list = Vec::<(String, u64)>::deserialize(from)?.into_iter();
        let words = list.map(|(text, count)| Ok((word(text)?, count)));
        words
            .collect::<Result<List, Fixed>>()
            .map_err(D::Error::custom)
    }
}
