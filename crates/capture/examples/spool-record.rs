//! `spool-record [--data POLICY] [--segments N] [--drop] [--plain] [--null | --slow MS] TRACE COMMAND…`: records a command in the
//! kernel into `TRACE/spool`, says what came of it on standard error, and ends as the command did.

use std::process::ExitCode;
use std::time::Duration;

use reprise_capture::ebpf::{OnFull, Session, Sink, SpoolOptions, available};
use reprise_trace::DataPolicy;

fn main() -> ExitCode {
    let mut options = SpoolOptions::new("", Vec::new());
    let mut args = std::env::args_os().skip(1).peekable();
    while let Some(flag) = args.next_if(|a| a.to_string_lossy().starts_with("--")) {
        let mut value = || args.next().unwrap_or_default().to_string_lossy().into_owned();
        match flag.to_string_lossy().as_ref() {
            "--available" => {
                println!("{:?}", available());
                return ExitCode::SUCCESS;
            }
            "--data" if value() == "none" => options.data = DataPolicy::None,
            "--data" => {}
            "--segments" => options.segments = value().parse().unwrap_or(64),
            "--plain" => options.plain = true,
            "--drop" => options.on_full = OnFull::Drop,
            "--null" => options.sink = Sink::Null,
            "--slow" => options.sink = Sink::Slow(Duration::from_millis(value().parse().unwrap_or(1))),
            other => {
                eprintln!("unknown flag {other}");
                return ExitCode::from(2);
            }
        }
    }
    options.trace = args.next().map(Into::into).unwrap_or_default();
    options.command = args.collect();
    match Session::start(&options).and_then(Session::run) {
        Ok(summary) => {
            eprintln!("spool-record: {summary:?}");
            let signal = summary.end.signal.map(|s| 128 + s);
            ExitCode::from(summary.end.code.or(signal).unwrap_or(1) as u8)
        }
        Err(error) => {
            eprintln!("spool-record: {error}");
            ExitCode::from(3)
        }
    }
}
