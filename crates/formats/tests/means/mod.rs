//! Imports a log given as text.

use std::path::Path;

use reprise_formats::strace::{Account, ImportError, Log, Reason, Report, scan};
use reprise_trace::{Action, DataPolicy, Host, Kind, Manifest, TraceReader, TraceWriter, WriterOptions};

/// A trace made from a log, with what the import reported.
pub struct Imported {
    pub report: Report,
    pub trace: TraceReader,
    _place: tempfile::TempDir,
}

impl Imported {
    /// All actions.
    pub fn actions(&self) -> Vec<Action> {
        self.trace.actions().collect::<Result<_, _>>().unwrap()
    }

    /// `call=result` of every action.
    #[allow(dead_code)]
    pub fn calls(&self) -> String {
        let words: Vec<String> = self.actions().iter().map(|a| format!("{}={}", a.call, a.result)).collect();
        words.join(" ")
    }

    /// The name and type of each name of the initial tree.
    #[allow(dead_code)]
    pub fn tree(&self) -> Vec<String> {
        let rows = self.trace.tree().unwrap();
        let path = |row: &reprise_trace::TreeNode| {
            let (mut parts, mut parent) = (vec![row.name.to_text()], (row.parent_device, row.parent_inode));
            while let Some(above) = rows.iter().find(|r| (r.device, r.inode) == parent && !r.name.is_empty()) {
                parts.push(above.name.to_text());
                parent = (above.parent_device, above.parent_inode);
            }
            parts.reverse();
            format!("/{} {:o} {}", parts.join("/"), row.mode, row.size)
        };
        rows.iter().filter(|r| !r.name.is_empty()).map(path).collect()
    }

    /// How many lines were counted under a reason.
    #[allow(dead_code)]
    pub fn counted(&self, reason: Reason) -> u64 {
        self.report.account.reasons.get(&reason).map_or(0, |t| t.count)
    }
}

/// Every line is understood or counted.
pub fn check_account(account: &Account) {
    assert_eq!(account.understood + account.counted(), account.lines, "{account:?}");
}

fn import_files(place: tempfile::TempDir, logs: Vec<Log>) -> Result<Imported, ImportError> {
    let scanned = scan(logs, &mut |_| {})?;
    let manifest = Manifest::new(Kind::Record, DataPolicy::Full, Vec::new(), "0".repeat(32), 0, Host::default());
    let trace = place.path().join("trace");
    let writer = TraceWriter::create(&trace, manifest, WriterOptions::default())?;
    let report = scanned.write(writer, &reprise_initial::Seeds::default(), &mut |_| {})?;
    check_account(&report.account);
    let trace = TraceReader::open(Path::new(&trace)).unwrap();
    Ok(Imported { report, trace, _place: place })
}

/// Imports one log.
pub fn import(text: impl AsRef<[u8]>) -> Result<Imported, ImportError> {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("log");
    std::fs::write(&path, text).unwrap();
    import_files(place, vec![Log::new(path)])
}

/// Imports logs of `-ff`.
#[allow(dead_code)]
pub fn import_threads(logs: &[(i32, &str)]) -> Result<Imported, ImportError> {
    let place = tempfile::tempdir().unwrap();
    let write = |(tid, text): &(i32, &str)| {
        let path = place.path().join(format!("log.{tid}"));
        std::fs::write(&path, text).unwrap();
        Log::new(path)
    };
    let logs = logs.iter().map(write).collect();
    import_files(place, logs)
}
