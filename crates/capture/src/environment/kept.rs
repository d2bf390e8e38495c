//! Samples in a file of their own, for a back-end that writes its trace later.
//!
//! Goals: what was kept is there when the recorder is killed; a last line that is cut off is ignored. One JSON object a line:
//! the surroundings, then an observation each. Non-goals: a format for others to read.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;

use super::{Observation, Surroundings};

/// Writes samples to a file.
pub struct Keeper {
    file: File,
}

impl Keeper {
    /// Begins a file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn create(path: &Path, around: &Surroundings) -> io::Result<Keeper> {
        let mut keeper = Keeper { file: File::create(path)? };
        keeper.line(around)?;
        Ok(keeper)
    }

    /// Adds a sample; a whole line at once.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn keep(&mut self, seen: &Observation) -> io::Result<()> {
        self.line(seen)
    }

    fn line(&mut self, value: &impl serde::Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        self.file.write_all(&line)
    }
}

/// What a file holds that a [`Keeper`] wrote.
///
/// # Errors
/// It cannot be read, or is no such file.
pub fn kept(path: &Path) -> io::Result<(Surroundings, impl Iterator<Item = Observation> + use<>)> {
    let mut lines = BufReader::new(File::open(path)?).split(b'\n').map_while(Result::ok);
    let around = serde_json::from_slice(&lines.next().unwrap_or_default())?;
    Ok((around, lines.map_while(|line| serde_json::from_slice(&line).ok())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::{Observer, Processes};

    #[test]
    fn what_is_kept_comes_back_even_if_cut_off() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("samples");
        let around = Surroundings::look();
        let mut observer = Observer::new(Processes::default());
        let seen: Vec<Observation> = (0..3).map(|at| observer.observe(at)).collect();
        let mut keeper = Keeper::create(&path, &around).expect("a file");
        seen.iter().for_each(|seen| keeper.keep(seen).expect("a line"));
        let whole = std::fs::read(&path).expect("readable");
        let (found, rows) = kept(&path).expect("a file of samples");
        assert_eq!((found, rows.collect::<Vec<_>>()), (around, seen.clone()));
        std::fs::write(&path, &whole[..whole.len() - 5]).expect("writable");
        assert_eq!(kept(&path).expect("a file of samples").1.collect::<Vec<_>>(), seen[..2]);
        std::fs::write(&path, "no samples").expect("writable");
        assert!(kept(&path).is_err());
    }
}
