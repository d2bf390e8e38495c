//! What is being made and is not whole yet: an interruption, like a failure, takes it away again.
//!
//! Goals: under its name a result is whole or not there; a command that is interrupted says so, and ends with the documented
//! code. Non-goals: replays and recordings, which keep what was done so far.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use tempfile::NamedTempFile;

use crate::exit::{Exit, Failure};

/// How soon an interruption is noticed.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Whoever makes what is taken away goes on meanwhile, and may just have begun another part of it: that comes to be within a moment.
const PASSES: usize = 3;
const A_MOMENT: Duration = Duration::from_millis(20);

/// How to take away what is being made, and what is said then.
struct Making {
    /// What was made last is taken away first.
    undo: Vec<Box<dyn FnMut() + Send>>,
    state: String,
}

impl Making {
    fn undo(&mut self) {
        self.undo.iter_mut().rev().for_each(|undo| undo());
    }
}

static MAKING: Mutex<Option<Making>> = Mutex::new(None);

fn making() -> MutexGuard<'static, Option<Making>> {
    MAKING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Something that is being made; one at a time.
#[must_use]
pub struct Unfinished(());

impl Unfinished {
    /// From now on SIGINT and SIGTERM end the program with [`Exit::Interrupted`]: `undo` is done, and `state` is said. It is
    /// done also when this goes before [`Unfinished::whole`].
    pub fn new(state: impl Into<String>, undo: impl FnMut() + Send + 'static) -> Unfinished {
        let begun: Result<_, Infallible> = Unfinished::begin(state, || Ok(((), undo)));
        let Ok(((), unfinished)) = begun;
        unfinished
    }

    /// The same of something whose beginning must be undone, too: no interruption comes between `make` and what undoes it.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn begin<T, E, U: FnMut() + Send + 'static>(
        state: impl Into<String>,
        make: impl FnOnce() -> Result<(T, U), E>,
    ) -> Result<(T, Unfinished), E> {
        watch();
        let mut making = making();
        let (made, undo) = make()?;
        *making = Some(Making { undo: vec![Box::new(undo)], state: state.into() });
        Ok((made, Unfinished(())))
    }

    /// More of it, which is taken away first. Once an interruption takes away what there is, this does not return.
    pub fn also(&self, more: impl FnMut() + Send + 'static) {
        if let Some(making) = &mut *making() {
            making.undo.push(Box::new(more));
        }
    }

    /// It is whole once `finish` is done, which no interruption comes into.
    pub fn whole<T>(self, finish: impl FnOnce() -> T) -> T {
        let mut making = making();
        *making = None;
        finish()
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(mut making) = making().take() {
            making.undo();
        }
    }
}

/// From now on signals are noticed.
fn watch() {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        let signals = reprise_replay::run::catch_signals();
        std::thread::spawn(move || {
            loop {
                if signals.load(Ordering::Relaxed) != 0 {
                    end();
                }
                std::thread::sleep(LOOK_EVERY);
            }
        });
    });
}

/// Ends the program, unless what was made is whole: then little is left to do, and it is done.
fn end() {
    let mut making = making();
    let Some(mut unfinished) = making.take() else { return };
    unfinished.undo();
    for _ in 1..PASSES {
        std::thread::sleep(A_MOMENT);
        unfinished.undo();
    }
    let _ = Failure::new(Exit::Interrupted, format!("interrupted; {}", unfinished.state)).report();
    std::process::exit(Exit::Interrupted as i32);
}

/// A file that is written. Beside its place until it is whole; what is no regular file is written to as it is.
pub struct Output {
    path: PathBuf,
    file: Written,
}

enum Written {
    Beside(NamedTempFile, Unfinished),
    Directly(File),
}

impl Output {
    /// Begins it.
    ///
    /// # Errors
    /// When there is no such directory, or nothing can be written there.
    pub fn create(path: &Path) -> io::Result<Output> {
        // Through a symbolic link, as anybody would write.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if path.metadata().is_ok_and(|about| !about.is_file()) {
            let file = Written::Directly(File::options().write(true).open(&path)?);
            return Ok(Output { path, file });
        }
        use std::os::unix::fs::PermissionsExt;
        let place = path.parent().filter(|place| !place.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // As the mask permits, like any file that is made.
        let mut builder = tempfile::Builder::new();
        builder.prefix(".reprise-").permissions(std::fs::Permissions::from_mode(0o666));
        let state = format!("{} is as it was; the same command begins anew", path.display());
        let (file, unfinished) = Unfinished::begin(state, || {
            let file = builder.tempfile_in(place)?;
            let part = file.path().to_owned();
            io::Result::Ok((file, move || drop(std::fs::remove_file(&part))))
        })?;
        Ok(Output { path, file: Written::Beside(file, unfinished) })
    }

    /// It is whole.
    ///
    /// # Errors
    /// When it cannot be put in its place.
    pub fn finish(self) -> io::Result<()> {
        match self.file {
            Written::Beside(file, unfinished) => {
                unfinished.whole(|| file.persist(&self.path)).map(drop).map_err(|error| error.error)
            }
            Written::Directly(_) => Ok(()),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.file {
            Written::Beside(file, _) => file.write(bytes),
            Written::Directly(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.file {
            Written::Beside(file, _) => file.flush(),
            Written::Directly(file) => file.flush(),
        }
    }
}

/// Writes a file that is short, or in memory already.
///
/// # Errors
/// When it cannot be written; names the option that chooses another place.
pub fn write(path: &Path, text: &[u8], option: &str) -> Result<(), Failure> {
    let written = Output::create(path).and_then(|mut out| {
        out.write_all(text)?;
        out.finish()
    });
    written.map_err(|e| {
        let text = format!("{}: cannot be written: {e}; choose another place with {option}", path.display());
        Failure::new(Exit::System, text)
    })
}
