//! The key of a sum: a server, or a server and an interaction. Rows carry dictionary ids that
//! differ from file to file; groups are numbered once for the whole reduction.

use std::sync::{Mutex, PoisonError};

use rustc_hash::FxHashMap;

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Group {
    pub server: String,
    /// None if visits are not grouped by interaction, or a visit has none.
    pub interaction: Option<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Groups {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    ids: FxHashMap<Group, u32>,
    list: Vec<Group>,
}

impl Groups {
    /// The number of a group, assigned on first use. Numbers depend on which thread came first; no
    /// result depends on them.
    pub fn id(&self, group: Group) -> u32 {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let next = inner.list.len() as u32;
        let Inner { ids, list } = &mut *inner;
        *ids.entry(group).or_insert_with_key(|group| {
            list.push(group.clone());
            next
        })
    }

    pub fn list(&self) -> Vec<Group> {
        self.inner
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .list
            .clone()
    }
}
