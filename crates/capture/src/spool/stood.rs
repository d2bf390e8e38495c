//! `spool/stood`: names that stood around a command before it ran, with their attributes.
//!
//! Goals: what calls of the command change, remove or move is known as it was, however late the spool is finished.
//! Non-goals: names that no call ever meets (they are here, and never in the trace).

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use reprise_initial::{Before, Looked, Stat};
use reprise_trace::Name;
use serde::{Deserialize, Serialize};

use super::kept::Kept;

/// Name of the file in the directory of the spool.
pub const STOOD: &str = "stood";

/// What stood at absolute paths.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Stood {
    /// By path.
    pub names: HashMap<Vec<u8>, Looked>,
    /// Directories of which all names are known.
    pub listed: HashSet<Vec<u8>>,
    /// Contents of small files; they are read apart.
    pub contents: Kept,
}

/// A line of the file. Names are escaped as in [`Name`].
#[derive(Serialize, Deserialize)]
struct Row {
    path: String,
    mode: u32,
    size: u64,
    identity: (u64, u64),
    links: u64,
    owner: (u32, u32),
    device: u64,
    times: [i64; 3],
    filesystem: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    xattrs: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    listed: bool,
}

impl Stood {
    /// What stood at a path.
    pub fn at(&self, path: &[u8]) -> Before {
        let above = path.iter().rposition(|b| *b == b'/').map(|end| &path[..end.max(1)]);
        match self.names.get(path) {
            Some(looked) => Before::Stood(looked.clone()),
            None if above.is_some_and(|above| self.listed.contains(above)) => Before::Nothing,
            None => Before::Unknown,
        }
    }

    /// Writes it into the directory of a spool.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, spool: &Path) -> io::Result<()> {
        let mut file = BufWriter::new(File::create(spool.join(STOOD))?);
        for (path, looked) in &self.names {
            let Some(row) = row(path, looked, self.listed.contains(path)) else { continue };
            serde_json::to_writer(&mut file, &row)?;
            file.write_all(b"\n")?;
        }
        file.flush()?;
        self.contents.write(spool)
    }

    /// Reads what is in the directory of a spool. Lines that make no sense are left out, as are those of a file that is not
    /// there: less is known then.
    pub fn read(spool: &Path) -> Stood {
        let Ok(file) = File::open(spool.join(STOOD)) else { return Stood::default() };
        let rows = BufReader::new(file).lines().map_while(Result::ok);
        let rows = rows.filter_map(|line| serde_json::from_str::<Row>(&line).ok());
        rows.collect()
    }

    /// Names that stood in a directory: some of them.
    pub fn names_in(&self, directory: &[u8]) -> Vec<Vec<u8>> {
        let below = |path: &Vec<u8>| {
            let name = path.strip_prefix(directory)?.strip_prefix(b"/")?;
            (!name.is_empty() && !name.contains(&b'/')).then(|| name.to_vec())
        };
        self.names.keys().filter_map(below).take(1).collect()
    }
}

impl FromIterator<Row> for Stood {
    fn from_iter<I: IntoIterator<Item = Row>>(rows: I) -> Stood {
        let mut stood = Stood::default();
        for row in rows {
            let path = bytes(&row.path);
            if row.listed {
                stood.listed.insert(path.clone());
            }
            stood.names.insert(path, looked(row));
        }
        stood
    }
}

fn text(name: &[u8]) -> String {
    Name(name.to_vec()).to_text()
}

fn bytes(text: &str) -> Vec<u8> {
    Name::from_text(text).0
}

fn row(path: &[u8], looked: &Looked, listed: bool) -> Option<Row> {
    let stat = looked.stat?;
    Some(Row {
        path: text(path),
        mode: stat.mode,
        size: stat.size?,
        identity: stat.identity?,
        links: stat.links?,
        owner: stat.owner?,
        device: stat.device?,
        times: stat.times.map(Option::unwrap_or_default),
        filesystem: looked.filesystem,
        target: looked.target.as_deref().map(text),
        xattrs: looked.xattrs.iter().map(|(name, value)| (text(name), text(value))).collect(),
        listed,
    })
}

fn looked(row: Row) -> Looked {
    Looked {
        stat: Some(Stat {
            complete: true,
            mode: row.mode,
            size: Some(row.size),
            identity: Some(row.identity),
            links: Some(row.links),
            owner: Some(row.owner),
            device: Some(row.device),
            times: row.times.map(Some),
        }),
        target: row.target.as_deref().map(bytes),
        xattrs: row.xattrs.iter().map(|(name, value)| (bytes(name), bytes(value))).collect(),
        filesystem: row.filesystem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let place = std::env::temp_dir().join(format!("reprise-stood-{}", std::process::id()));
        std::fs::create_dir_all(&place).unwrap();
        let row = |path: &str, mode, target: Option<&str>| Row {
            path: path.into(),
            mode,
            size: 7,
            identity: (1, 2),
            links: 3,
            owner: (4, 5),
            device: 6,
            times: [-1, 8, 9],
            filesystem: 10,
            target: target.map(str::to_owned),
            xattrs: vec![("user.a".into(), text(b"\xff\n"))],
            listed: mode == 0o40755,
        };
        let rows = [row("/d", 0o40755, None), row("/d/l", 0o120777, Some("nowhere")), row("/d/\\xff", 0o100644, None)];
        let stood: Stood = rows.into_iter().collect();
        stood.write(&place).unwrap();
        std::fs::OpenOptions::new()
            .append(true)
            .open(place.join(STOOD))
            .unwrap()
            .write_all(b"{\"path\": 1}\n")
            .unwrap();
        assert_eq!(Stood::read(&place), stood);
        assert_eq!(stood.names_in(b"/d").len(), 1);
        assert!(matches!(stood.at(b"/d/\xff"), Before::Stood(looked) if looked.filesystem == 10));
        assert_eq!((stood.at(b"/d/other"), stood.at(b"/e")), (Before::Nothing, Before::Unknown));
        assert_eq!(stood.names_in(b"/d/l"), [b""; 0]);
        std::fs::remove_dir_all(&place).unwrap();
        assert_eq!(Stood::read(&place), Stood::default());
    }
}
