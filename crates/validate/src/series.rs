//! Scenarios that are finished, kept in a directory, so that a validation can be done in pieces.
//!
//! A file each, which says by what it was made. What was made otherwise, on another machine, device or by another kernel is refused,
//! not mixed; what an earlier version wrote is measured again. Non-goals: half of a scenario.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::ValidateError;
use crate::finding::Examined;
use crate::setting::SettingName;

/// Of the form of a file: raised with every change of what a scenario has in it.
const VERSION: u32 = 2;

/// What every version of a file says.
#[derive(Deserialize)]
struct Form {
    #[serde(default)]
    version: u32,
}

/// A file.
#[derive(Serialize, Deserialize)]
struct Kept {
    version: u32,
    /// Machine, file system, options: what must be the same.
    made_by: Vec<String>,
    examined: Examined,
}

/// The directory.
pub(crate) struct Series<'a>(pub &'a Path);

impl Series<'_> {
    fn place(&self, setting: &SettingName) -> PathBuf {
        let SettingName { workload, pause_us, level, pause_by, caches, memory_bytes } = setting;
        let memory = memory_bytes.map_or(String::new(), |bytes| format!("-{}M", bytes >> 20));
        let by = format!("{pause_by:?}").to_lowercase();
        self.0.join(format!("{workload}-{level}-{by}{pause_us}us-{}{memory}.json", caches.word()))
    }

    /// What was examined before in this way.
    pub fn get(&self, setting: &SettingName, made_by: &[String]) -> Result<Option<Examined>, ValidateError> {
        let place = self.place(setting);
        let bytes = match fs::read(&place) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(ValidateError::files("read", &place, e)),
        };
        let refused = |cause: String| Err(ValidateError::Series { path: place.clone(), cause });
        if serde_json::from_slice::<Form>(&bytes).is_ok_and(|form| form.version != VERSION) {
            return Ok(None);
        }
        match serde_json::from_slice::<Kept>(&bytes) {
            Err(e) => refused(e.to_string()),
            Ok(kept) if kept.made_by == made_by => Ok(Some(kept.examined)),
            Ok(kept) => {
                let is_other = |place: &usize| kept.made_by.get(*place) != made_by.get(*place);
                let other = (0..kept.made_by.len().max(made_by.len())).find(is_other).unwrap_or(0);
                let said = |made_by: &[String]| made_by.get(other).cloned().unwrap_or_else(|| "nothing".into());
                refused(format!("it was made with '{}', now there is '{}'", said(&kept.made_by), said(made_by)))
            }
        }
    }

    /// Keeps what was examined; a reader sees all of it or nothing.
    pub fn put(&self, examined: &Examined, made_by: Vec<String>) -> Result<(), ValidateError> {
        let place = self.place(&examined.setting);
        let failed = |e: io::Error| ValidateError::files("write", &place, e);
        fs::create_dir_all(self.0).map_err(failed)?;
        let text = serde_json::to_vec(&Kept { version: VERSION, made_by, examined: examined.clone() })
            .map_err(|e| failed(e.into()))?;
        let fresh = place.with_extension("new");
        fs::write(&fresh, text).and_then(|()| fs::rename(&fresh, &place)).map_err(failed)
    }
}
