//! A 4-ary heap of 16-byte keys.

#[derive(Default)]
pub struct Heap(Vec<u128>);

impl Heap {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn first(&self) -> Option<u128> {
        self.0.first().copied()
    }

    pub fn push(&mut self, key: u128) {
        let mut at = self.0.len();
        self.0.push(key);
        while at > 0 {
            let parent = (at - 1) / 4;
            if self.0[parent] <= key {
                break;
            }
            self.0[at] = self.0[parent];
            at = parent;
        }
        self.0[at] = key;
    }

    pub fn pop(&mut self) -> Option<u128> {
        let last = self.0.pop()?;
        let Some(&first) = self.0.first() else {
            return Some(last);
        };
        let len = self.0.len();
        let mut at = 0;
        loop {
            let child = 4 * at + 1;
            let least = if child + 4 <= len {
                let c = &self.0[child..child + 4];
                let left = usize::from(c[1] < c[0]);
                let right = 2 + usize::from(c[3] < c[2]);
                child + if c[right] < c[left] { right } else { left }
            } else if child < len {
                let mut least = child;
                for i in child + 1..len {
                    if self.0[i] < self.0[least] {
                        least = i;
                    }
                }
                least
            } else {
                break;
            };
            if last <= self.0[least] {
                break;
            }
            self.0[at] = self.0[least];
            at = least;
        }
        self.0[at] = last;
        Some(first)
    }
}
