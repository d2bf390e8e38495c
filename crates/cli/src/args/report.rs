//! Arguments of `report`.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `report`.
#[derive(Debug, Args)]
pub struct Report {
    /// Traces of replays, and the trace that they are replays of; or a trace alone. NAME=RESULT,RESULT are replications of each
    /// other; without names, replays with the same settings are
    #[arg(required = true, value_name = "RESULT")]
    pub traces: Vec<PathBuf>,
    /// The report; '-' is the standard output
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    pub output: PathBuf,
    /// Print what is in the report as JSON: verdict and numbers, without timelines
    #[arg(long)]
    pub json: bool,
    /// Say nothing but errors
    #[arg(short, long)]
    pub quiet: bool,
}

pub const REPORT_EXAMPLES: &str = "\
Examples:
  reprise report app.reprise                                    a recording alone, in report.html
  reprise report app.reprise result.reprise -o report.html      a replay beside its original
  reprise report app.reprise ext4.reprise xfs.reprise btrfs.reprise -o storage.html
  reprise report app.reprise ext4=e1,e2,e3 xfs=x1,x2,x3         which differences are real

One file for any browser, without network. Response times, latency over time, concurrency, throughput, issue errors,
thread timelines, hot files, sizes, waits and space on the target; the data of each plot as CSV. Compared are the storage
calls that every replay issued. Of several replays it says which differences are real: by their replications, or by the stored
validation of the machine (reprise validate).";
