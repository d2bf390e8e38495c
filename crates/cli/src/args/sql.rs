//! Arguments of `sql`.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `sql`.
#[derive(Debug, Args)]
pub struct Sql {
    /// The trace
    #[arg(required_unless_present = "tables")]
    pub trace: Option<PathBuf>,
    /// One SELECT in SQLite's dialect; '-' reads it from standard input
    #[arg(required_unless_present = "tables", value_name = "QUERY")]
    pub query: Option<String>,
    /// The trace of a replay of it, as rows of `results`; may be repeated, runs count from 1
    #[arg(long, value_name = "RESULT")]
    pub result: Vec<PathBuf>,
    /// The ordering whose dependencies are the rows of `edges`: as for `replay`
    #[arg(long, default_value_t)]
    pub order: reprise_plan::Order,
    /// List tables, columns and views
    #[arg(long)]
    pub tables: bool,
    /// Rows that are shown as a table, at most; --csv and --json give all
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub most: usize,
    /// Comma-separated values
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// A JSON object a row; of --tables a document
    #[arg(long)]
    pub json: bool,
}

pub const SQL_EXAMPLES: &str = "\
Examples:
  reprise sql app.reprise 'SELECT * FROM call_times ORDER BY total_ns DESC LIMIT 10'
  reprise sql app.reprise 'SELECT call, quantile(duration_ns, 0.99) AS p99_ns FROM syncs GROUP BY call'
  reprise sql app.reprise 'SELECT file, written_bytes FROM file_io ORDER BY 2 DESC LIMIT 5' --csv
  reprise sql app.reprise --result r.reprise 'SELECT call, avg(replayed_ns - recorded_ns) FROM replayed GROUP BY call'
  reprise sql --tables

docs/SQL.md documents tables and views, and answers ten questions. Only what the query names is read; what is read goes
to a temporary file (TMPDIR). Ctrl-C ends a query (exit code 7). A wrong query has exit code 2.";
