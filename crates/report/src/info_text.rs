//! The facts of a trace as text.

use reprise_trace::{DataPolicy, Entry, Kind, Loss};

use crate::info::Info;
use crate::printable::printable;
use crate::style::Style;
use crate::table::{Align, Table};
use crate::units::{bytes, count, date, duration};

/// Calls shown; all are in the JSON.
const MOST_CALLS: usize = 15;

const WORDS: [Loss; 5] = [Loss::Dropped, Loss::Truncated, Loss::Unsupported, Loss::Skipped, Loss::Diverged];

impl std::fmt::Display for Info {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text(Style::Plain))
    }
}

impl Info {
    /// As text of several lines.
    pub fn text(&self, style: Style) -> String {
        let mut out = self.head(style);
        out += &self.numbers();
        out += &self.around(style);
        out += &self.call_table(style);
        out += &self.losses(style);
        out
    }

    fn head(&self, style: Style) -> String {
        let mut table = Table::new(0, &[Align::Left, Align::Left]);
        let mut line = |name: &str, value: String| table.row([name, &value]);
        let what = match (self.kind, &self.origin) {
            (Kind::Record, _) => "recording".to_owned(),
            (Kind::Replay, Some(origin)) => format!("replay of {origin}"),
            (Kind::Replay, None) => "replay".to_owned(),
        };
        line("trace", format!("{}  {}", style.heading(&printable(&self.path)), style.faint(&self.id)));
        line("is a", format!("{what}, format {}, written by {}", self.format, self.writer));
        line("command", command(&self.command));
        line("started", format!("{}, for {}", date(self.started_ns), duration(self.duration_ns)));
        let host = &self.host;
        line("host", format!("{}, Linux {}, {}, {} processors", host.name, host.kernel, host.machine, host.processors));
        let ended = match self.end {
            Some(end) => match (end.code, end.signal) {
                (Some(code), _) => format!("exit code {code}"),
                (None, Some(signal)) => format!("killed by signal {signal}"),
                (None, None) => "unknown".to_owned(),
            },
            None => "not seen".to_owned(),
        };
        // The end of the program says nothing of its replay.
        line(if self.kind == Kind::Replay { "original ended" } else { "ended" }, ended);
        let complete = match (self.complete, &self.ended_early) {
            (false, _) => style.bad("no: it was not closed in order and ends at the last flush"),
            (true, Some(how)) if self.kind == Kind::Record => style.bad(&format!("no: {how}")),
            (true, Some(how)) => style.bad(&format!("no: the replay ended early ({how})")),
            (true, None) => style.good("yes"),
        };
        line("complete", complete);
        let data = match self.data {
            DataPolicy::Full => "every byte",
            DataPolicy::Hash => "lengths and hashes (a replay writes other bytes)",
            DataPolicy::None => "lengths only (a replay writes other bytes)",
        };
        line("content", data.to_owned());
        if let Some(place) = &self.contents_in {
            line("kept in", place.clone());
        }
        for (name, value) in &self.facts {
            line(&name.replace('_', " "), printable(value).into_owned());
        }
        table.text()
    }

    fn numbers(&self) -> String {
        let mut table = Table::new(0, &[Align::Right, Align::Left, Align::Right, Align::Left]);
        let mut line = |a: u64, what: &str, b: String, of: &str| {
            table.row([count(a), what.to_owned(), b, of.to_owned()]);
        };
        line(self.actions, "actions", bytes(self.read_bytes), "read");
        line(self.errors, "of them failed", bytes(self.written_bytes), "written");
        line(self.threads, "threads", bytes(self.copied_bytes), "moved in the kernel");
        if self.lanes > 0 {
            line(self.lanes, "lanes of requests", String::new(), "");
        }
        line(self.processes, "processes", bytes(self.stored_bytes), "stored");
        line(self.tree_names, "names of the initial tree", count(self.contents), "contents observed");
        let mut out = format!("\n{}", table.text());
        for snapshot in &self.snapshots {
            out += &format!("snapshot of {snapshot}\n");
        }
        out
    }

    fn around(&self, style: Style) -> String {
        let directory = self.directory.as_ref().map(|name| &name.0[..]);
        let text = self.environment.as_ref().map(|summary| summary.text(directory)).unwrap_or_default();
        if text.is_empty() { text } else { format!("\n{}\n{text}", style.heading("Environment")) }
    }

    fn call_table(&self, style: Style) -> String {
        let mut table = Table::new(2, &[Align::Right, Align::Right, Align::Left]);
        table.row(["count", "failed", "call"]);
        for call in self.calls.iter().take(MOST_CALLS) {
            let errors = if call.errors == 0 { String::new() } else { count(call.errors) };
            table.row([count(call.count), errors, call.call.clone()]);
        }
        let rest = self.calls.len().saturating_sub(MOST_CALLS);
        let more = if rest > 0 { format!("  and {rest} other calls\n") } else { String::new() };
        format!("\n{}\n{}{more}", style.heading("Calls"), table.text())
    }

    fn losses(&self, style: Style) -> String {
        let mut out = format!("\n{}\n", style.heading("Loss ledger"));
        for word in WORDS {
            let total = self.ledger.total(word);
            let text = format!("{:>9}  {}", count(total), word.word());
            out += &format!("  {}\n", if total == 0 { style.faint(&text) } else { style.notable(&text) });
            let mut table = Table::new(13, &[Align::Right, Align::Left, Align::Left]);
            for (cause, entry) in self.ledger.losses.get(&word).into_iter().flatten() {
                table.row([count(entry.count), cause.clone(), extent(entry)]);
            }
            out += &table.text();
        }
        for (call, number) in &self.unknown_calls {
            out += &format!("  unknown call {call}: {} actions\n", count(*number));
        }
        for table in &self.unknown_tables {
            out += &format!("  table {table} is not known to this program\n");
        }
        if !self.ledger.notes.is_empty() {
            let mut table = Table::new(2, &[Align::Right, Align::Left]);
            for (note, number) in &self.ledger.notes {
                table.row([count(*number), note.clone()]);
            }
            out += &format!("\n{}\n{}", style.heading("Notes"), table.text());
        }
        out
    }
}

fn extent(entry: &Entry) -> String {
    let mut parts = Vec::new();
    if entry.bytes > 0 {
        parts.push(bytes(entry.bytes));
    }
    if let Some(first) = entry.first {
        parts.push(format!("first at action {first}"));
    }
    if parts.is_empty() { String::new() } else { format!("({})", parts.join(", ")) }
}

/// A command line as a shell would take it.
fn command(words: &[String]) -> String {
    let plain = |w: &str| !w.is_empty() && w.chars().all(|c| c.is_alphanumeric() || "-_./=:,+@%".contains(c));
    let quoted = words.iter().map(|w| match plain(w) {
        true => w.clone(),
        false => format!("'{}'", w.replace('\'', "'\\''")),
    });
    printable(&quoted.collect::<Vec<_>>().join(" ")).into_owned()
}
