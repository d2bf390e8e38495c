//! Numbered things whose numbers are used again.

use std::ops::{Index, IndexMut};

/// Values by number; the number of a removed one goes to the next.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    values: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { values: Vec::new(), free: Vec::new() }
    }
}

impl<T: Default> Slab<T> {
    pub fn insert(&mut self, value: T) -> u32 {
        match self.free.pop() {
            Some(number) => {
                self.values[number as usize] = value;
                number
            }
            None => {
                self.values.push(value);
                (self.values.len() - 1) as u32
            }
        }
    }

    /// Lets go of a value that was inserted, once.
    pub fn remove(&mut self, number: u32) {
        self.values[number as usize] = T::default();
        self.free.push(number);
    }

    pub fn get(&self, number: u32) -> Option<&T> {
        self.values.get(number as usize)
    }

    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.values.iter_mut()
    }

    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.values.iter()
    }
}

impl<T> Index<usize> for Slab<T> {
    type Output = T;
    fn index(&self, at: usize) -> &T {
        &self.values[at]
    }
}

impl<T> IndexMut<usize> for Slab<T> {
    fn index_mut(&mut self, at: usize) -> &mut T {
        &mut self.values[at]
    }
}
