//! Arguments of `doctor`.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    /// Where traces are, or are to be written
    #[arg(long, value_name = "DIR")]
    pub trace: Option<PathBuf>,
    /// Where replays are to happen
    #[arg(long, value_name = "DIR")]
    pub target: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

pub const DOCTOR_EXAMPLES: &str = "\
Examples:
  reprise doctor
  reprise doctor --trace app.reprise --target /mnt/xfs      also whether they share a device, and how full the target is
  reprise doctor --json | jq '.disturbs[] | select(.state == \"disturbs\")'

Nothing is changed. Exit code 0: programs can be recorded and replayed here, whatever disturbs; 6: they cannot.";
