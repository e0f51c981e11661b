//! Names of interactions: few, readable, and the same for requests that do the same work.
//!
//! By default an HTTP request is named by its method and its path without ids ([`path`]), SQL by
//! its command and first table ([`sql`]), anything else by the command of its protocol. Rules of
//! the user come first; each is a regular expression on the raw text (`GET /x?y=z`, the SQL as
//! sent, `PING`) and the name that replaces it, where `$1` stands for a group.
//!
//! Names reach tables and reports that others see. They keep only [`plain`] words that are
//! [`common`] to several requests or name nobody ([`vocabulary`]), and at one place of a path only the first [`SIBLINGS_MAX`]
//! words, because a word that differs from request to request does not name a kind of work. The
//! option `keep` keeps queries and everything that is otherwise folded.

mod common;
mod path;
mod plain;
mod sql;
#[cfg(test)]
mod tests;
mod vocabulary;

use super::wire::Raw;
use crate::error::{Error, Result};
use crate::record::{Names, NO_NAME};
pub use common::without_rare_words;
use common::{Common, Words};
pub use path::word;
use regex::bytes::{Regex, RegexBuilder};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::hash::Hasher;

/// The most names: a reader cannot distinguish more in a table; later ones are combined.
pub const NAMES_MAX: usize = 10_000;
pub const OTHER: &str = "(other)";
/// Words at one place of a path: the routes of a server below one of them are fewer, the names of
/// users more.
pub const SIBLINGS_MAX: u32 = 100;
/// The most places of paths that are distinguished.
const PLACES_MAX: usize = 1 << 16;
/// Longer names are cut.
const NAME_MAX: usize = 200;
/// Raw texts stored with their name: at most 16 MiB, cleared together when full. Longer texts are
/// named each time.
const CACHE_MAX: usize = 1 << 16;
const CACHED_TEXT_MAX: usize = 256;
/// The largest compiled size of a user's expression (the regex crate's own default is ten times as
/// much).
const REGEX_BYTES_MAX: usize = 1 << 20;

/// The name of the requests whose raw text matches.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    #[serde(rename = "match")]
    pub matches: String,
    pub name: String,
}

/// Turns a raw text into an index of the table of interactions.
#[derive(Debug, Default, Deserialize, Serialize)]
pub struct Namer {
    #[serde(skip)]
    rules: Vec<(Regex, String)>,
    ids: FxHashMap<String, u32>,
    cache: FxHashMap<u64, Cached>,
    /// Raw texts are names.
    keep: bool,
    /// Prefixes of paths that were seen, and the number of words after each.
    places: FxHashMap<u64, u32>,
    common: Common,
    /// The path that is being named.
    #[serde(skip)]
    shape: Vec<u8>,
}

#[derive(Debug, Deserialize, Serialize)]
struct Cached {
    text: Text<Box<[u8]>>,
    id: u32,
}

/// The kind of a raw text and its two parts (the first is empty unless it is HTTP, or names a collection).
type Text<T> = (u8, T, T);

impl Namer {
    /// `keep`: names keep queries, literals, and everything that is not a plain word.
    pub fn new(rules: &[Rule], keep: bool) -> Result<Namer> {
        let compile = |rule: &Rule| {
            let regex = RegexBuilder::new(&rule.matches)
                .size_limit(REGEX_BYTES_MAX)
                .build();
            let regex = regex
                .map_err(|e| Error::Options(format!("names: match {:?}: {e}", rule.matches)))?;
            Ok((regex, rule.name.clone()))
        };
        let rules = rules.iter().map(compile).collect::<Result<_>>()?;
        Ok(Namer {
            rules,
            keep,
            ..Namer::default()
        })
    }

    /// Takes the rules of a new one.
    pub fn revive(&mut self, new: Namer) {
        self.rules = new.rules;
    }

    /// The index of a name in `interactions`; a new name is added.
    pub fn name(&mut self, raw: Raw<'_>, interactions: &mut Vec<String>) -> u32 {
        let mut shape = std::mem::take(&mut self.shape);
        let id = self.name_of(raw, &mut shape, interactions);
        self.shape = shape;
        id
    }

    fn name_of(
        &mut self,
        raw: Raw<'_>,
        shape: &mut Vec<u8>,
        interactions: &mut Vec<String>,
    ) -> u32 {
        let text = match raw {
            // Without rules the query does not matter: one entry for all of them.
            Raw::Http { method, target } if self.rules.is_empty() && !self.keep => {
                path::without_numbers(super::wire::path_of(target), shape);
                (b'h', method, &shape[..])
            }
            Raw::Http { method, target } => (b'h', method, target),
            Raw::Sql(sql) => (b's', &b""[..], sql),
            Raw::Collection {
                command,
                collection,
            } => (b'm', command.as_bytes(), collection.as_bytes()),
            Raw::Command(command) => (b'c', &b""[..], command.as_bytes()),
            Raw::Word(word) => (b'w', &b""[..], word.as_bytes()),
            Raw::Unknown => return NO_NAME,
        };
        let hash = hash(text);
        if let Some(cached) = self.cache.get(&hash) {
            if (cached.text.0, &*cached.text.1, &*cached.text.2) == text {
                return cached.id;
            }
        }
        let (name, words) = self.compose(text);
        let id = self.intern(name, words, interactions);
        if text.1.len() + text.2.len() <= CACHED_TEXT_MAX {
            if self.cache.len() >= CACHE_MAX {
                self.cache.clear();
            }
            self.cache.insert(
                hash,
                Cached {
                    text: (text.0, text.1.into(), text.2.into()),
                    id,
                },
            );
        }
        id
    }

    /// The server received a request of this name.
    #[inline]
    pub fn count(&mut self, interaction: u32, server: u32) {
        self.common.count(interaction, server);
    }

    /// New names have all their words folded, until it is known which of the words are common.
    #[inline]
    pub fn hide(&mut self, names: &mut Names) {
        while let Some(name) = names.interactions.get(names.folded.len()) {
            let interaction = names.folded.len() as u32;
            let hidden = self.common.hidden(interaction, name);
            let called = hidden.map(|name| self.intern(name, None, &mut names.interactions));
            names.folded.push(called.unwrap_or(interaction));
        }
    }

    /// From now on, rare words are folded, according to the requests counted so far.
    pub fn settle(&mut self, names: &mut Names) {
        for (interaction, name) in self.common.folded(&names.interactions).unwrap_or_default() {
            let called = self.intern(name, None, &mut names.interactions);
            self.hide(names);
            names.refold(interaction, called);
        }
    }

    /// A name, and those of its words that are folded unless they are common.
    fn compose(&mut self, (kind, first, second): Text<&[u8]>) -> (String, Option<Words>) {
        let (name, words) = match self.by_rule(kind, first, second) {
            Some(name) => (name, None),
            None if matches!(kind, b'h' | b'm') && self.keep => (joined(first, second), None),
            None if kind == b'h' => self.among_siblings(path::name(first, second)),
            None if kind == b's' && !self.keep => of_statement(sql::name(second)),
            None if kind == b'm' => of_statement(sql::of_collection(first, second)),
            None if kind == b'w' && !self.keep => ("{}".to_owned(), None),
            None => (String::from_utf8_lossy(second).into_owned(), None),
        };
        (shorten(name), words)
    }

    /// The name of a path, with words beyond the first at their places folded.
    fn among_siblings(&mut self, name: String) -> (String, Option<Words>) {
        let Some((method, path)) = name.split_once(" /") else {
            return (name, None);
        };
        let mut kept = format!("{method} ");
        let words = Words::Path(kept.len() + 1);
        let mut before = 0;
        for word in path.split('/') {
            let mut here = below(before, word.as_bytes());
            let known = self.places.contains_key(&here);
            let siblings = self.places.get(&before).copied().unwrap_or(0);
            let room = siblings < SIBLINGS_MAX && self.places.len() < PLACES_MAX;
            kept.push('/');
            if known || room {
                kept.push_str(word);
            } else {
                kept.push_str("{}");
                here = below(before, b"{}");
            }
            if !known && room {
                self.places.insert(here, 0);
                *self.places.entry(before).or_insert(0) += 1;
            }
            before = here;
        }
        (kept, Some(words))
    }

    fn by_rule(&self, kind: u8, first: &[u8], second: &[u8]) -> Option<String> {
        if self.rules.is_empty() {
            return None;
        }
        let whole;
        let text = match kind {
            b'h' | b'm' => {
                whole = [first, b" ", second].concat();
                &whole[..]
            }
            _ => second,
        };
        let (captures, name) = self
            .rules
            .iter()
            .find_map(|(regex, name)| Some((regex.captures(text)?, name)))?;
        let mut expanded = Vec::new();
        captures.expand(name.as_bytes(), &mut expanded);
        Some(String::from_utf8_lossy(&expanded).into_owned())
    }

    fn intern(
        &mut self,
        name: String,
        words: Option<Words>,
        interactions: &mut Vec<String>,
    ) -> u32 {
        if let Some(&id) = self.ids.get(&name) {
            return id;
        }
        if self.ids.len() >= NAMES_MAX && name != OTHER {
            return self.intern(OTHER.to_string(), None, interactions);
        }
        let id = u32::try_from(interactions.len()).unwrap_or(NO_NAME);
        self.common.add(id, words);
        interactions.push(name.clone());
        self.ids.insert(name, id);
        id
    }
}

/// The place of a word below another place.
fn below(before: u64, word: &[u8]) -> u64 {
    let mut hasher = rustc_hash::FxHasher::default();
    hasher.write_u64(before);
    hasher.write(word);
    hasher.finish()
}

fn of_statement((command, table): (String, Option<String>)) -> (String, Option<Words>) {
    match table {
        Some(table) => {
            let words = Words::Table(command.len() + 1);
            (format!("{command} {table}"), Some(words))
        }
        None => (command, None),
    }
}

fn joined(method: &[u8], target: &[u8]) -> String {
    let (method, target) = (
        String::from_utf8_lossy(method),
        String::from_utf8_lossy(target),
    );
    format!("{method} {target}")
}

fn hash((kind, first, second): Text<&[u8]>) -> u64 {
    let mut hasher = rustc_hash::FxHasher::default();
    hasher.write_u8(kind);
    hasher.write(first);
    hasher.write(second);
    hasher.finish()
}

fn shorten(mut name: String) -> String {
    if name.len() > NAME_MAX {
        let end = (0..=NAME_MAX - '…'.len_utf8())
            .rev()
            .find(|&i| name.is_char_boundary(i))
            .unwrap_or(0);
        name.truncate(end);
        name.push('…');
    }
    name
}
