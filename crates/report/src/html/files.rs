//! Which file each action of the original concerned: in the trace of a replay files that were there before have no names.

use std::collections::HashMap;

/// What stands for actions of which nothing is known.
const UNKNOWN: u32 = 0;

/// Names of files, and for each action its one: four bytes an action.
#[derive(Debug, Default)]
pub struct Files {
    numbers: HashMap<String, u32>,
    names: Vec<String>,
    /// By number of the action.
    of: Vec<u32>,
}

impl Files {
    /// Notes which file the next action of the original concerns.
    pub fn add(&mut self, file: Option<&str>) {
        let number = file.map_or(UNKNOWN, |file| self.number(file));
        self.of.push(number);
    }

    fn number(&mut self, file: &str) -> u32 {
        if let Some(number) = self.numbers.get(file) {
            return *number;
        }
        self.names.push(file.to_owned());
        let number = u32::try_from(self.names.len()).unwrap_or(UNKNOWN);
        self.numbers.insert(file.to_owned(), number);
        number
    }

    /// The file of an action of the original.
    pub fn file(&self, seq: u64) -> Option<&str> {
        let number = *self.of.get(usize::try_from(seq).ok()?)?;
        self.names.get((number as usize).checked_sub(1)?).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_action_has_its_file() {
        let mut files = Files::default();
        [Some("/a"), None, Some("/b"), Some("/a")].into_iter().for_each(|file| files.add(file));
        assert_eq!([0, 1, 2, 3, 4].map(|seq| files.file(seq)), [Some("/a"), None, Some("/b"), Some("/a"), None]);
    }
}
