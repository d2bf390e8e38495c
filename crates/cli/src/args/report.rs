//! Arguments of `report`.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `report`.
#[derive(Debug, Args)]
pub struct Report {
    /// Traces of replays, and the trace that they are replays of; or a trace alone
    #[arg(required = true, value_name = "RESULT")]
    pub traces: Vec<PathBuf>,
    /// The report
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    pub output: PathBuf,
    /// Say nothing but errors
    #[arg(short, long)]
    pub quiet: bool,
}

pub const REPORT_EXAMPLES: &str = "\
Examples:
  reprise report app.reprise                                    a recording alone, in report.html
  reprise report app.reprise result.reprise -o report.html      a replay beside its original
  reprise report app.reprise ext4.reprise xfs.reprise btrfs.reprise -o storage.html

One file for any browser, without network. Response times, latency over time, concurrency, throughput, issue errors,
thread timelines, hot files, sizes and waits; the data of each plot as CSV. Compared are the storage calls that every
replay issued.";
