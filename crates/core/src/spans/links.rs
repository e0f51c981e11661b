//! How the spans of all files belong together: the span above each, the server or consumer around it, and an order of the
//! visits in which each comes after the one that contains it.
//!
//! A client and its server may share an id (Zipkin). Damaged traces have spans that come twice, spans whose parent is
//! missing, and spans that are above themselves; such a cycle is cut.

use rustc_hash::{FxBuildHasher, FxHashMap};

use super::sheet::{CONSUMER, SERVER};

/// A span that was not there, in place of its number …
const NONE: i64 = -1;
/// … because the topmost span has no parent …
pub const ROOT: i64 = -2;
/// … or because a parent is missing, as for spans that are above themselves.
const ORPHAN: i64 = -3;
const UNKNOWN: i64 = -4;

/// The spans in the order of their files.
#[derive(Default)]
pub struct Spans {
    pub key: Vec<u64>,
    pub parent: Vec<Option<u64>>,
    pub kind: Vec<u8>,
}

/// Of the spans that are kept, the numbers by which they name each other.
#[derive(Default)]
pub struct Links {
    /// Which of the given spans are kept: the first of each id.
    pub row: Vec<u32>,
    /// The span above, or `NONE`.
    pub above: Vec<i64>,
    /// The nearest server or consumer above, or `ROOT` or `ORPHAN`.
    pub container: Vec<i64>,
    /// The servers and consumers, each after its container.
    pub order: Vec<u32>,
    pub cycles: u32,
}

impl Links {
    pub fn of(spans: &Spans) -> Self {
        let mut links = Links::default();
        let servers = spans.kind.iter().filter(|&&kind| kind == SERVER).count();
        let mut others =
            FxHashMap::with_capacity_and_hasher(spans.key.len() - servers, FxBuildHasher);
        let mut servers = FxHashMap::with_capacity_and_hasher(servers, FxBuildHasher);
        for (number, (&key, &kind)) in (0..).zip(spans.key.iter().zip(&spans.kind)) {
            let known = if kind == SERVER {
                &mut servers
            } else {
                &mut others
            };
            let next = links.row.len() as i64;
            if *known.entry(key).or_insert(next) == next {
                links.row.push(number);
            }
        }
        let found = |known: &FxHashMap<u64, i64>, key: u64| known.get(&key).copied();
        for &row in &links.row {
            let row = row as usize;
            let is_server = spans.kind[row] == SERVER;
            let shared = is_server.then(|| found(&others, spans.key[row])).flatten();
            let (first, second) = if is_server {
                (&others, &servers)
            } else {
                (&servers, &others)
            };
            let parent = spans.parent[row];
            let above = parent.and_then(|key| found(first, key).or_else(|| found(second, key)));
            links.above.push(shared.or(above).unwrap_or(NONE));
        }
        let rows: Vec<usize> = links.row.iter().map(|&row| row as usize).collect();
        let kept = Kept {
            is_container: rows
                .iter()
                .map(|&row| matches!(spans.kind[row], SERVER | CONSUMER))
                .collect(),
            has_parent: rows
                .iter()
                .map(|&row| spans.parent[row].is_some())
                .collect(),
        };
        links.find_containers(&kept);
        links.find_order(&kept);
        links
    }

    fn find_containers(&mut self, kept: &Kept) {
        self.container = vec![UNKNOWN; self.row.len()];
        let mut path = Vec::new();
        for first in 0..self.row.len() {
            let mut number = first;
            let mut found = self.container[number];
            while found == UNKNOWN {
                path.push(number);
                self.container[number] = ORPHAN;
                found = match usize::try_from(self.above[number]) {
                    Err(_) if kept.has_parent[number] => ORPHAN,
                    Err(_) => ROOT,
                    Ok(above) if kept.is_container[above] => self.above[number],
                    Ok(above) => {
                        number = above;
                        self.container[above]
                    }
                };
            }
            for each in path.drain(..) {
                self.container[each] = found;
            }
        }
    }

    fn find_order(&mut self, kept: &Kept) {
        // From which span on the path began that placed it.
        let mut placed = vec![None; self.row.len()];
        let mut path = Vec::new();
        for (first, &is_container) in kept.is_container.iter().enumerate() {
            let mut next = is_container.then_some(first);
            while let Some(number) = next.filter(|&number| placed[number].is_none()) {
                placed[number] = Some(first);
                path.push(number);
                next = usize::try_from(self.container[number]).ok();
                let is_cycle = next.is_some_and(|above| placed[above] == Some(first));
                self.cycles += u32::from(is_cycle);
            }
            let path = path.drain(..).rev();
            self.order
                .extend(path.filter_map(|number| u32::try_from(number).ok()));
        }
    }
}

struct Kept {
    is_container: Vec<bool>,
    has_parent: Vec<bool>,
}
