//! Tests that cannot be run here; see `tests/README.md`.

use std::fs::OpenOptions;
use std::io::Write;

/// Says that the test `name` cannot be run and why, on the terminal and in the file that `REPRISE_SKIP_LOG` names;
/// the test returns after it.
pub fn skip(name: &str, why: &str) {
    let line = format!("{name}: {}\n", why.replace('\n', " "));
    print!("SKIP: {line}");
    let Some(path) = std::env::var_os("REPRISE_SKIP_LOG") else {
        return;
    };
    let written =
        OpenOptions::new().append(true).create(true).open(&path).and_then(|mut file| file.write_all(line.as_bytes()));
    if let Err(e) = written {
        eprintln!("{}: {e}", path.display());
    }
}
