//! The attributes of a span that somebody asks for, by the number of their key.

use std::borrow::Cow;

use rustc_hash::FxHashMap;
use serde::Deserialize;

use crate::json::{Parser, Result, Scalar};

/// Which attributes answer which question: for each, the keys of its answer, the best first. Conventions were renamed, so
/// there are several.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// What a span does: the first alternative of which all parts are there …
    pub labels: Vec<Vec<Keys>>,
    /// … or these parts and the span's name.
    pub otherwise: Vec<Keys>,
    /// How it ended.
    pub outcome: Vec<Keys>,
    /// What a client calls.
    pub peer: Keys,
    /// Whose clock its times are of; those of a resource come before those of its spans.
    pub host: Keys,
    /// Any of them says that the trace was kept for what happened in it.
    pub chosen: Keys,
    /// Names of inner spans that last until a worker takes the request.
    pub queued: Vec<String>,
    /// How the names of inner spans end that last until a pool gives a connection.
    pub connection: Vec<String>,
}

type Keys = Vec<String>;
/// The number of a key.
pub type Slot = u8;
/// As many as a mask has bits.
const SLOTS_MAX: usize = 64;

/// Bytes of a text that count, twice those of a request line of nginx or Apache: a resource's text is read again for each
/// of its spans, of which there may be 100,000.
const TEXT_MAX: usize = 16 << 10;

/// Keys that belong to a form of traces, so the plan does not name them.
pub const SERVICE: Slot = 0;
pub const KIND: Slot = 1;
pub const ERROR: Slot = 2;
pub const OTEL_STATUS: Slot = 3;
pub const SAMPLER: Slot = 4;
pub const SAMPLER_PARAM: Slot = 5;
pub const PROBABILITY: Slot = 6;
const OWN: [&str; 7] = [
    "service.name",
    "span.kind",
    "error",
    "otel.status_code",
    "sampler.type",
    "sampler.param",
    "sampling.probability",
];

/// The plan with numbers for keys.
pub struct Known {
    slots: FxHashMap<Vec<u8>, Slot>,
    pub labels: Vec<Vec<Vec<Slot>>>,
    pub otherwise: Vec<Vec<Slot>>,
    pub outcome: Vec<Vec<Slot>>,
    pub peer: Vec<Slot>,
    pub host: Vec<Slot>,
    pub chosen: u64,
    queued: Vec<Vec<u8>>,
    connection: Vec<Vec<u8>>,
}

impl Known {
    /// None: the plan has too many keys.
    pub fn of(plan: &Plan) -> Option<Self> {
        let mut slots = FxHashMap::default();
        for key in OWN {
            number(&mut slots, key)?;
        }
        let mut of = |keys: &Keys| -> Option<Vec<Slot>> {
            keys.iter().map(|key| number(&mut slots, key)).collect()
        };
        let labels = plan.labels.iter();
        let labels: Option<Vec<Vec<Vec<Slot>>>> = labels
            .map(|parts| parts.iter().map(&mut of).collect())
            .collect();
        let (peer, host) = (of(&plan.peer)?, of(&plan.host)?);
        let (otherwise, outcome): (Option<_>, Option<_>) = (
            plan.otherwise.iter().map(&mut of).collect(),
            plan.outcome.iter().map(&mut of).collect(),
        );
        let chosen = mask(&of(&plan.chosen)?);
        let bytes = |names: &[String]| names.iter().map(|name| name.clone().into_bytes()).collect();
        Some(Known {
            labels: labels?,
            otherwise: otherwise?,
            outcome: outcome?,
            peer,
            host,
            chosen,
            queued: bytes(&plan.queued),
            connection: bytes(&plan.connection),
            slots,
        })
    }

    /// Whether an inner span of this name lasts until a worker takes the request.
    pub fn is_queued(&self, name: &[u8]) -> bool {
        let mut names = self.queued.iter();
        names.any(|known| known.eq_ignore_ascii_case(name))
    }

    /// Whether an inner span of this name lasts until a pool gives a connection.
    pub fn is_connection(&self, name: &[u8]) -> bool {
        let ends = |known: &Vec<u8>| {
            let at = name.len().checked_sub(known.len());
            at.is_some_and(|at| name[at..].eq_ignore_ascii_case(known))
        };
        self.connection.iter().any(ends)
    }

    pub fn slot(&self, key: &[u8]) -> Option<Slot> {
        self.slots.get(key).copied()
    }
}

fn number(slots: &mut FxHashMap<Vec<u8>, Slot>, key: &str) -> Option<Slot> {
    let next = slots.len();
    let slot = *slots
        .entry(key.as_bytes().to_vec())
        .or_insert(Slot::try_from(next).ok()?);
    (usize::from(slot) < SLOTS_MAX).then_some(slot)
}

fn mask(slots: &[Slot]) -> u64 {
    slots.iter().fold(0, |mask, slot| mask | 1 << slot)
}

#[derive(Clone)]
pub struct Attributes<'t> {
    present: u64,
    /// One for each key.
    values: Vec<(Slot, Scalar<'t>)>,
    /// The place of each key that is present, among the values.
    places: [u8; SLOTS_MAX],
}

impl Default for Attributes<'_> {
    fn default() -> Self {
        Attributes {
            present: 0,
            values: Vec::new(),
            places: [0; SLOTS_MAX],
        }
    }
}

impl<'t> Attributes<'t> {
    pub fn clear(&mut self) {
        self.present = 0;
        self.values.clear();
    }

    /// Of a key that comes twice, the last value counts.
    pub fn set(&mut self, slot: Slot, value: Scalar<'t>) {
        let value = beginning(value);
        if self.has(slot) {
            let place = usize::from(self.places[usize::from(slot)]);
            if let Some((_, former)) = self.values.get_mut(place) {
                *former = value;
            }
            return;
        }
        self.present |= 1 << slot;
        // There are fewer values than slots.
        self.places[usize::from(slot)] = self.values.len() as u8;
        self.values.push((slot, value));
    }

    pub fn has(&self, slot: Slot) -> bool {
        self.has_any(1 << slot)
    }

    pub fn has_any(&self, mask: u64) -> bool {
        self.present & mask != 0
    }

    pub fn get(&self, slot: Slot) -> Option<&Scalar<'t>> {
        if !self.has(slot) {
            return None;
        }
        let place = usize::from(self.places[usize::from(slot)]);
        self.values.get(place).map(|(_, value)| value)
    }

    /// The text of the first of these keys that has one.
    pub fn first(&self, slots: &[Slot]) -> Option<&[u8]> {
        slots.iter().find_map(|&slot| self.get(slot)?.text())
    }

    /// Takes what `above` has of these keys.
    pub fn take(&mut self, above: &Attributes<'t>, slots: &[Slot]) {
        if above.has_any(mask(slots)) {
            for &slot in slots {
                if let Some(value) = above.get(slot) {
                    self.set(slot, value.clone());
                }
            }
        }
    }

    /// Takes what `above` has and is missing here.
    pub fn complete(&mut self, above: &Attributes<'t>) {
        let own = self.present;
        for (slot, value) in &above.values {
            if own & (1 << slot) == 0 {
                self.set(*slot, value.clone());
            }
        }
    }
}

/// Reads `[{"key": "http.route", "value": …}]`; `read` reads a value.
pub fn pairs<'t>(
    parser: &mut Parser<'t>,
    known: &Known,
    into: &mut Attributes<'t>,
    read: impl Fn(&mut Parser<'t>) -> Result<Scalar<'t>>,
) -> Result<()> {
    parser.objects(|parser| {
        let (mut slot, mut value) = (None, Scalar::Null);
        parser.object(|parser, key| {
            match key {
                b"key" => slot = parser.scalar()?.text().and_then(|key| known.slot(key)),
                b"value" => value = read(parser)?,
                _ => parser.skip()?,
            }
            Ok(())
        })?;
        if let Some(slot) = slot {
            into.set(slot, value);
        }
        Ok(())
    })
}

/// The value without what makes its text too long.
pub fn beginning(value: Scalar<'_>) -> Scalar<'_> {
    match value {
        Scalar::Text(Cow::Borrowed(text)) => {
            Scalar::Text(Cow::Borrowed(text.get(..TEXT_MAX).unwrap_or(text)))
        }
        Scalar::Text(Cow::Owned(mut text)) => {
            text.truncate(TEXT_MAX);
            Scalar::Text(Cow::Owned(text))
        }
        value => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_value_and_a_long_text_is_cut() {
        let mut values = Attributes::default();
        for _ in 0..3 {
            values.set(SERVICE, Scalar::Text(Cow::Owned(vec![b'a'; 1 << 20])));
            values.set(KIND, Scalar::Text(Cow::Borrowed(&[b'b'; TEXT_MAX + 1])));
        }
        values.set(ERROR, Scalar::Integer(b"1"));
        values.set(ERROR, Scalar::Integer(b"2"));
        assert_eq!(values.values.len(), 3);
        assert_eq!(values.get(ERROR), Some(&Scalar::Integer(b"2")));
        for slot in [SERVICE, KIND] {
            assert_eq!(values.first(&[slot]).map(<[u8]>::len), Some(TEXT_MAX));
        }
    }
}
