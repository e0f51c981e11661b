//! What many requests have in common stays in names; what one or two have alone is folded.
//!
//! A plain word may still be somebody's name (`/u/alice`). A word of a path, or the table of a statement, stays if
//! [`COMMON`] requests of one server have it at that place, or if it [names nobody](super::vocabulary). Those that fewer have become `{}`, all of one place together,
//! so that what follows them is still known where it is common:
//!
//! ```text
//! /u/alice/edit  1 ┐                        /u/{}/edit  4
//! /u/bob/edit    2 ┼─▶ u 6, edit below u ─▶
//! /u/carol/edit  1 ┘   4, alice 1, bob 2    /u/dave     3
//! /u/dave        3     dave 3
//! ```
//! Requests of one server are counted, for one request passes several, under one name.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

use super::path;

/// Requests that share a word which identifies none of them: what is seen once or twice may be a person's own.
pub const COMMON: u8 = 3;
/// Names and servers that are counted together; names beyond stay [`hidden`](Common::hidden).
const COUNTED_MAX: usize = 1 << 18;

/// Where the words of a name begin that may be folded, and what they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Words {
    Path(usize),
    Table(usize),
}

impl Words {
    /// What is before the words of a name, and these.
    fn of(self, name: &str) -> (&str, Vec<&str>) {
        let (Words::Path(begin) | Words::Table(begin)) = self;
        let (head, tail) = name.split_at_checked(begin).unwrap_or((name, ""));
        match self {
            Words::Path(_) => (head, tail.split('/').collect()),
            Words::Table(_) => (head, vec![tail]),
        }
    }
}

#[derive(Debug, Default, Deserialize, Serialize)]
pub struct Common {
    /// Of each interaction that has words.
    words: FxHashMap<u32, Words>,
    /// Of each interaction: no word of it is folded.
    is_common: Vec<bool>,
    /// By interaction and server, up to [`COMMON`].
    requests: FxHashMap<(u32, u32), u8>,
    changed: bool,
}

/// An interaction at a server.
struct Counted<'a> {
    interaction: u32,
    server: u32,
    requests: u32,
    words: Vec<&'a str>,
}

impl Common {
    /// The interaction is new. One without words, as the user's own, is never folded.
    pub fn add(&mut self, interaction: u32, words: Option<Words>) {
        let index = interaction as usize;
        self.is_common
            .resize(self.is_common.len().max(index + 1), true);
        if let Some(words) = words {
            self.words.insert(interaction, words);
            self.is_common[index] = false;
        }
    }

    /// A request of this name came to the server.
    #[inline]
    pub fn count(&mut self, interaction: u32, server: u32) {
        if let Some(false) = self.is_common.get(interaction as usize) {
            self.count_rare(interaction, server);
        }
    }

    #[cold]
    fn count_rare(&mut self, interaction: u32, server: u32) {
        let key = (interaction, server);
        if self.requests.len() >= COUNTED_MAX && !self.requests.contains_key(&key) {
            return;
        }
        let requests = self.requests.entry(key).or_insert(0);
        *requests += 1;
        self.is_common[interaction as usize] = *requests >= COMMON;
        self.changed = true;
    }

    /// The current form of each counted name with words; None if no request was counted since the last call.
    pub fn folded(&mut self, interactions: &[String]) -> Option<Vec<(u32, String)>> {
        if !std::mem::take(&mut self.changed) {
            return None;
        }
        let (mut paths, mut tables) = (Vec::new(), Vec::new());
        for (&(interaction, server), &requests) in &self.requests {
            let text = interactions.get(interaction as usize);
            let (Some(text), Some(words)) = (text, self.words.get(&interaction)) else {
                continue;
            };
            let counted = Counted {
                interaction,
                server,
                requests: u32::from(requests),
                words: words.of(text).1,
            };
            match words {
                Words::Path(_) => paths.push(counted),
                Words::Table(_) => tables.push(counted),
            }
        }
        let mut folded = FxHashMap::default();
        for all in [&paths, &tables] {
            fold(all.iter().collect(), 0, String::new(), &mut folded);
        }
        let name = |(interaction, words): (u32, String)| {
            let text = interactions.get(interaction as usize)?;
            let (head, _) = self.words.get(&interaction)?.of(text);
            Some((interaction, format!("{head}{words}")))
        };
        Some(folded.into_iter().filter_map(name).collect())
    }

    /// The form of a name with all its words folded; None if it has no words.
    pub fn hidden(&self, interaction: u32, name: &str) -> Option<String> {
        let (head, words) = self.words.get(&interaction)?.of(name);
        let words: Vec<_> = words.into_iter().map(path::folded).collect();
        Some(format!("{head}{}", words.join("/")))
    }
}

/// What the names of requests become, of which so many came to each server; names without a path are left out.
pub fn without_rare_words(counted: &[(String, String, u64)]) -> Vec<(String, String)> {
    let mut common = Common::default();
    let (mut names, mut servers) = (Vec::new(), FxHashMap::default());
    let mut numbers: FxHashMap<&str, u32> = FxHashMap::default();
    for (server, name, count) in counted {
        let Some((method, _)) = name
            .split_once(" /")
            .filter(|(method, _)| !method.contains(' '))
        else {
            continue;
        };
        let next = servers.len() as u32;
        let server = *servers.entry(server.as_str()).or_insert(next);
        let number = *numbers.entry(name).or_insert_with(|| {
            let number = names.len() as u32;
            common.add(number, Some(Words::Path(method.len() + 2)));
            names.push(name.clone());
            number
        });
        for _ in 0..(*count).min(u64::from(COMMON)) {
            common.count(number, server);
        }
    }
    let folded = common.folded(&names).unwrap_or_default();
    let named = |(number, to): (u32, String)| Some((names.get(number as usize)?.clone(), to));
    folded.into_iter().filter_map(named).collect()
}

type Groups<'w, 'a> = BTreeMap<Cow<'w, str>, Vec<&'a Counted<'w>>>;

/// The words from the `depth`th on of those that have the same ones before it, which became `before`.
fn fold(all: Vec<&Counted<'_>>, depth: usize, before: String, folded: &mut FxHashMap<u32, String>) {
    let mut groups = Groups::new();
    for counted in all {
        match counted.words.get(depth) {
            Some(&word) => groups.entry(Cow::from(word)).or_default().push(counted),
            None => {
                folded.insert(counted.interaction, before.clone());
            }
        }
    }
    let mut kept = Groups::new();
    for (word, group) in groups {
        let word = match is_common(&group) {
            true => word,
            false => Cow::from(path::folded(&word).into_owned()),
        };
        kept.entry(word).or_default().extend(group);
    }
    for (word, group) in kept {
        let name = match depth {
            0 => word.into_owned(),
            _ => format!("{before}/{word}"),
        };
        fold(group, depth + 1, name, folded);
    }
}

fn is_common(group: &[&Counted<'_>]) -> bool {
    let mut requests: FxHashMap<u32, u32> = FxHashMap::default();
    for counted in group {
        *requests.entry(counted.server).or_insert(0) += counted.requests;
    }
    requests
        .into_values()
        .any(|count| count >= u32::from(COMMON))
}

#[cfg(test)]
mod tests {
    use super::{Common, Words};

    /// Names of paths and how often each came, at one server; what they are called.
    fn called(seen: &[(&str, u32)]) -> Vec<String> {
        at_servers(
            &seen
                .iter()
                .map(|&(path, count)| (path, 1, count))
                .collect::<Vec<_>>(),
        )
    }

    fn at_servers(seen: &[(&str, u32, u32)]) -> Vec<String> {
        let mut common = Common::default();
        let mut names: Vec<String> = Vec::new();
        for &(path, server, count) in seen {
            let name = format!("GET /{path}");
            let id = names
                .iter()
                .position(|known| *known == name)
                .unwrap_or(names.len());
            if id == names.len() {
                common.add(id as u32, Some(Words::Path(5)));
                names.push(name);
            }
            (0..count).for_each(|_| common.count(id as u32, server));
        }
        let mut called = names.clone();
        for (id, name) in common.folded(&names).unwrap_or_default() {
            called[id as usize] = name;
        }
        called
            .iter()
            .map(|name| name.replace("GET /", ""))
            .collect()
    }

    #[test]
    fn a_word_stays_that_three_requests_share() {
        assert_eq!(called(&[("index.html", 8)]), ["index.html"]);
        assert_eq!(called(&[("alice.html", 2)]), ["{}.html"]);
        assert_eq!(called(&[("index.html", 1)]), ["index.html"]);
        assert_eq!(called(&[("u/alice", 1), ("u/bob", 2)]), ["u/{}", "u/{}"]);
        assert_eq!(called(&[("u/alice", 1), ("carol", 1)]), ["{}/{}", "{}"]);
        assert_eq!(
            called(&[("u/alice", 1), ("health", 1)]),
            ["{}/{}", "health"]
        );
        assert_eq!(called(&[("", 1), ("{id}/*.png", 1)]), ["", "{id}/*.png"]);
        assert_eq!(
            called(&[("a/john.smith", 3), ("a/jane.smith", 1)]),
            ["a/john.smith", "a/{}"]
        );
    }

    #[test]
    fn what_follows_rare_words_is_known_where_it_is_common() {
        let seen = [
            ("u/alice/edit", 1),
            ("u/bob/edit", 2),
            ("u/carol/edit", 1),
            ("u/dave", 3),
        ];
        assert_eq!(
            called(&seen),
            ["u/{}/edit", "u/{}/edit", "u/{}/edit", "u/dave"]
        );
        assert_eq!(
            called(&[("u/alice/secret", 2), ("u/{}/edit", 1)]),
            ["u/{}/{}", "u/{}/edit"]
        );
    }

    #[test]
    fn one_request_that_passes_three_servers_is_one() {
        let passed = [("u/alice", 1, 1), ("u/alice", 2, 1), ("u/alice", 3, 1)];
        assert_eq!(at_servers(&passed), ["{}/{}"]);
        assert_eq!(
            at_servers(&[("u/alice", 1, 2), ("u/alice", 2, 3)]),
            ["u/alice"]
        );
    }

    #[test]
    fn what_the_user_called_it_stays() {
        let mut common = Common::default();
        common.add(0, None);
        common.count(0, 1);
        common.count(u32::MAX, 1);
        assert_eq!(common.folded(&["of alice".to_owned()]), None);
    }
}
