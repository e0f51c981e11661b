//! Names of places. Listeners appear during the recording, so the list grows; an index never
//! changes its meaning.

use std::sync::{Arc, Mutex, PoisonError};

#[derive(Clone, Default)]
pub struct Places(Arc<Mutex<Vec<String>>>);

impl Places {
    pub fn index(&self, name: &str) -> u32 {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = names.iter().position(|known| known == name);
        let at = at.unwrap_or_else(|| {
            names.push(name.to_owned());
            names.len() - 1
        });
        u32::try_from(at).unwrap_or(u32::MAX)
    }

    pub fn all(&self) -> Vec<String> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
