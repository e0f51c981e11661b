//! Names by number: servers, callers, interactions and statuses of the tables.

use rustc_hash::FxHashMap;

#[derive(Default)]
pub struct Names {
    ids: FxHashMap<String, u32>,
    texts: Vec<String>,
}

impl Names {
    pub fn id(&mut self, text: &str) -> u32 {
        if let Some(&id) = self.ids.get(text) {
            return id;
        }
        let id = self.texts.len() as u32;
        self.texts.push(text.to_owned());
        self.ids.insert(text.to_owned(), id);
        id
    }

    /// None for NO_NAME.
    pub fn text(&self, id: u32) -> Option<&str> {
        self.texts.get(id as usize).map(String::as_str)
    }
}
