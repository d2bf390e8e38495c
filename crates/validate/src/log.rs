//! What an instrument wrote: a trace, a latency log of fio, or lines of numbers.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use reprise_trace::TraceReader;

use crate::ValidateError;
use crate::observed::{Observed, Request};
use crate::recording::recording;

/// In what `fio` tells when a request was complete.
const FIO_STEP_NS: f64 = 1e6;

/// The format of an instrument's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// A trace of ours.
    Reprise,
    /// A trace of a recorded reference program, which did more than its workload: it was started, and it wrote its own trace.
    Recording,
    /// `fio --write_lat_log={log} --per_job_logs=1`: `{log}_lat.N.log` of each job, `ms, ns, direction, …` a line.
    Fio,
    /// `thread,call,begin_ns,end_ns` a line.
    Csv,
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<LogFormat, String> {
        match text {
            "reprise" => Ok(LogFormat::Reprise),
            "fio" => Ok(LogFormat::Fio),
            "csv" => Ok(LogFormat::Csv),
            _ => Err(format!("'{text}' is no format of a log; choose reprise, fio or csv")),
        }
    }
}

impl LogFormat {
    /// Reads it; `calls` are those that reads and writes are counted as, where a log knows no more than that, and `files` is where
    /// the workload's files were.
    pub(crate) fn read(self, log: &Path, calls: &[&str], files: &Path) -> Result<Observed, ValidateError> {
        let (requests, instant_step_ns) = match self {
            LogFormat::Reprise => return trace(log),
            LogFormat::Recording => (recording(log, files)?, 0.0),
            LogFormat::Fio => (fio(log, calls)?, FIO_STEP_NS),
            LogFormat::Csv => (csv(log)?, 0.0),
        };
        if requests.is_empty() {
            return Err(wrong(log, "it has no requests"));
        }
        let mut observed = Observed::new(requests);
        observed.instant_step_ns = instant_step_ns;
        Ok(observed)
    }
}

fn wrong(path: &Path, cause: impl ToString) -> ValidateError {
    ValidateError::Log { path: path.into(), cause: cause.to_string() }
}

/// What was issued of a trace.
pub(crate) fn trace(path: &Path) -> Result<Observed, ValidateError> {
    let mut requests = Vec::new();
    let reader = TraceReader::open(path)?;
    let fact = |name: &str| reader.manifest().facts.get(name).and_then(|text| text.parse::<u64>().ok());
    let (preemptions, device_bytes) = (fact("involuntary_switches"), fact("device_bytes_read"));
    for action in reader.actions() {
        let action = action?;
        if action.handling.as_deref().is_none_or(|handling| handling == "issued") {
            let end_ns = action.end_ns();
            requests.push(Request {
                thread: Some(action.thread),
                call: action.call.into_owned(),
                begin_ns: action.begin_ns,
                end_ns,
            });
        }
    }
    let mut observed = Observed::new(requests);
    (observed.preemptions, observed.device_bytes) = (preemptions, device_bytes);
    Ok(observed)
}

/// fio tells when a request was complete, in milliseconds, and how long it took, in nanoseconds.
fn fio(log: &Path, calls: &[&str]) -> Result<Vec<Request>, ValidateError> {
    let name = |job: u32| PathBuf::from(format!("{}_lat.{job}.log", log.display()));
    let mut requests = Vec::new();
    for (thread, path) in (1..).map(name).take_while(|path| path.exists()).enumerate() {
        let text = fs::read_to_string(&path).map_err(|e| wrong(&path, e))?;
        for line in text.lines() {
            let fields: Vec<u64> = line.split(',').map_while(|field| field.trim().parse().ok()).collect();
            let [ms, took_ns, direction, ..] = fields[..] else {
                return Err(wrong(&path, format!("'{line}' is no line of a latency log of fio 3")));
            };
            let wanted = if direction == 0 { "read" } else { "write" };
            let call = calls.iter().find(|call| call.contains(wanted)).unwrap_or(&wanted);
            let end_ns = ms.saturating_mul(1_000_000);
            let begin_ns = end_ns.saturating_sub(took_ns);
            let end_ns = begin_ns.saturating_add(took_ns);
            requests.push(Request { thread: Some(thread as u32), call: (*call).to_owned(), begin_ns, end_ns });
        }
    }
    Ok(requests)
}

fn csv(log: &Path) -> Result<Vec<Request>, ValidateError> {
    let text = fs::read_to_string(log).map_err(|e| wrong(log, e))?;
    let mut requests = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let request = match fields[..] {
            [thread, call, begin, end] => (|| {
                let (begin_ns, end_ns): (u64, u64) = (begin.parse().ok()?, end.parse().ok()?);
                if end_ns < begin_ns {
                    return None;
                }
                Some(Request { thread: Some(thread.parse().ok()?), call: call.to_owned(), begin_ns, end_ns })
            })(),
            _ => None,
        };
        requests.push(request.ok_or_else(|| {
            wrong(log, format!("'{line}' is not thread,call,begin_ns,end_ns, the end not before the begin"))
        })?);
    }
    Ok(requests)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_of_fio_and_lines_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        fs::write(dir.path().join("log_lat.1.log"), "0, 900, 0, 4096, 0, 0\n1, 1100, 0, 4096, 8192, 0\n").unwrap();
        fs::write(dir.path().join("log_lat.2.log"), "2, 5000, 1, 4096, 0, 0\n").unwrap();
        let read = LogFormat::Fio.read(&log, &["pread64"], dir.path()).unwrap();
        assert_eq!((read.times_ns("pread64"), read.times_ns("write")), (vec![900.0, 1100.0], vec![5000.0]));
        fs::write(&log, "0,read,10,30\n\n1, read, 5, 6\n").unwrap();
        assert_eq!(LogFormat::Csv.read(&log, &[], dir.path()).unwrap().times_ns("read"), [1.0, 20.0]);
        for bad in ["", "0,read,10", "x,read,1,2", "0,read,-1,2", "0,read,20,10"] {
            fs::write(&log, bad).unwrap();
            assert!(LogFormat::Csv.read(&log, &[], dir.path()).is_err(), "{bad}");
        }
        fs::write(dir.path().join("log_lat.1.log"), "nonsense\n").unwrap();
        assert!(LogFormat::Fio.read(&log, &[], dir.path()).is_err());
    }
}
