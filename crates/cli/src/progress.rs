//! A progress bar on standard error: only on a terminal, only after a second; elsewhere a line at most.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

/// Shows how far something has come, with rate and time left.
pub struct Progress {
    what: &'static str,
    unit: &'static str,
    shown: bool,
    begin: Instant,
    bar: Option<ProgressBar>,
    /// Said after a second where no bar is shown.
    line: Option<&'static str>,
}

impl Progress {
    /// Progress of `what`, counted in `unit`.
    pub fn new(what: &'static str, unit: &'static str, quiet: bool) -> Progress {
        let shown = !quiet && std::io::stderr().is_terminal();
        Progress { what, unit, shown, begin: Instant::now(), bar: None, line: None }
    }

    /// Where no bar can be shown, says this instead.
    pub fn or_line(mut self, line: &'static str, quiet: bool) -> Progress {
        self.line = (!quiet && !self.shown).then_some(line);
        self
    }

    /// `done` of `total`.
    pub fn at(&mut self, done: u64, total: u64) {
        if self.begin.elapsed() < Duration::from_secs(1) {
            return;
        }
        if let Some(line) = self.line.take() {
            let _ = writeln!(std::io::stderr(), "reprise: {line}");
        }
        if !self.shown {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let template = match self.unit {
                "bytes" => "{msg:10} {bar:32} {bytes}/{total_bytes}  {bytes_per_sec}  ETA {eta}",
                _ => "{msg:10} {bar:32} {human_pos}/{human_len} {prefix}  {rate}/s  ETA {eta}",
            };
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(10));
            let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
            // Whole numbers: with fractions a line is longer than a terminal is wide.
            bar.set_style(style.with_key("rate", |state: &ProgressState, out: &mut dyn std::fmt::Write| {
                let _ = write!(out, "{}", HumanCount(state.per_sec() as u64));
            }));
            bar.set_message(self.what);
            bar.set_prefix(self.unit);
            bar.with_elapsed(self.begin.elapsed())
        });
        bar.set_length(total);
        bar.set_position(done);
    }
}

impl Progress {
    /// Takes the bar away.
    pub fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
