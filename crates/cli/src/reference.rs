//! `docs/reference`: pages of the book that are made from the code, so that they cannot say anything else.

use std::fmt::Write;

use crate::args::command;
use crate::exit::Exit;

/// Columns of the help as it stands in the book.
const WIDTH: usize = 110;
const MADE: &str = "<!-- Made by `reprise reference docs/reference`; a test keeps it equal to the code. -->";

/// The pages: name and text.
pub fn pages() -> [(&'static str, String); 3] {
    [("CLI.md", commands()), ("COLUMNS.md", columns()), ("EXIT-CODES.md", exit_codes())]
}

/// The help of every command, as `--help` prints it.
fn commands() -> String {
    let mut top = command().term_width(WIDTH);
    top.build();
    let mut out = format!("# Commands\n\n{MADE}\n\n{}", fenced(&mut top));
    below(&mut top, &mut out);
    out
}

/// The same of what is below a command.
fn below(command: &mut clap::Command, out: &mut String) {
    for command in command.get_subcommands_mut().filter(|c| !c.is_hide_set() && c.get_name() != "help") {
        let help = fenced(command);
        let _ = write!(out, "\n## {}\n\n{help}", command.get_bin_name().unwrap_or_default());
        below(command, out);
    }
}

fn fenced(command: &mut clap::Command) -> String {
    let help = command.render_long_help().to_string();
    let lines: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    format!("```text\n{}\n```\n", lines.join("\n"))
}

/// The columns of a trace's tables.
fn columns() -> String {
    let mut out = format!(
        "# Columns of a trace\n\n{MADE}\n\n\
         Each table is a folder of Parquet files in the trace. `?`: a row may have no value. How it all fits together, and what the\n\
         structures in `input` and `output` hold, is in [FORMAT.md](../FORMAT.md); the tables and views that `reprise sql` makes of\n\
         them are in [SQL.md](../SQL.md), the calls in [CALLS.md](../CALLS.md).\n"
    );
    for table in reprise_trace::table_texts() {
        let _ = write!(out, "\n## {}\n\n{}\n\n| column | type | meaning |\n|---|---|---|\n", table.name, table.doc);
        for column in table.columns {
            let _ = writeln!(out, "| `{}` | {} | {} |", column.name, column.kind, plain(column.doc));
        }
    }
    out
}

/// Without the links of Rust's documentation, and without what would end a cell.
fn plain(doc: &str) -> String {
    doc.replace("[`AMID`]", &format!("`{}`", reprise_trace::AMID))
        .replace("[`", "`")
        .replace("`]", "`")
        .replace('|', "\\|")
}

/// The exit codes.
fn exit_codes() -> String {
    let rows = Exit::ALL.map(|exit| format!("| {} | {} |\n", exit as u8, exit.meaning()));
    format!(
        "# Exit codes\n\n{MADE}\n\n| code | meaning |\n|---|---|\n{}\nElse `record` ends as the recorded program does, or by the same \
         signal.\n",
        rows.concat()
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_pages_are_the_code() {
        let directory = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference"));
        for (name, text) in super::pages() {
            let written = std::fs::read_to_string(directory.join(name)).unwrap_or_default();
            assert!(text == written, "docs/reference/{name} is stale: run `reprise reference docs/reference`");
        }
    }
}
