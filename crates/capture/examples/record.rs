//! `record [--ebpf] [--print] [--data full|hash|none] [--tree DIR]… TRACE COMMAND…`: records, prints what became of it on
//! standard error (and the actions with `--print`), and ends as the program did.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use reprise_capture::{Backend, Options, record};
use reprise_trace::{DataPolicy, TraceReader};

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1).peekable();
    let mut libraries = true;
    let (mut print, mut data, mut trees, mut backend) = (false, DataPolicy::Full, Vec::new(), Backend::Ptrace);
    while let Some(flag) = args.next_if(|a| a.to_string_lossy().starts_with("--")) {
        match flag.to_string_lossy().as_ref() {
            "--print" => print = true,
            "--ebpf" => backend = Backend::Ebpf,
            "--data" => {
                data = match args.next().unwrap_or_default().to_string_lossy().as_ref() {
                    "hash" => DataPolicy::Hash,
                    "none" => DataPolicy::None,
                    _ => DataPolicy::Full,
                }
            }
            "--no-libraries" => libraries = false,
            "--tree" => trees.extend(args.next().map(PathBuf::from)),
            other => {
                eprintln!("unknown flag {other}");
                return ExitCode::from(2);
            }
        }
    }
    let Some(trace) = args.next() else {
        eprintln!("usage: record [--print] [--data POLICY] [--tree DIR]… TRACE COMMAND…");
        return ExitCode::from(2);
    };
    let command: Vec<OsString> = args.collect();
    let mut options = Options::new(&trace, command);
    options.backend = backend;
    options.data = data;
    options.trees = trees;
    options.libraries = libraries;
    options.warn = Box::new(|text| eprintln!("reprise: {text}"));
    match record(options) {
        Ok(outcome) => {
            eprintln!(
                "reprise: {} actions, {} bytes, {:?}, {:#?}",
                outcome.actions, outcome.bytes, outcome.end, outcome.ledger
            );
            if print {
                show(&PathBuf::from(trace));
            }
            let signal = outcome.end.signal.map(|s| 128 + s);
            let code = outcome.end.code.or(signal).unwrap_or(1);
            ExitCode::from(code as u8)
        }
        Err(error) => {
            eprintln!("reprise: {error}");
            ExitCode::from(error.shell_code().unwrap_or(3) as u8)
        }
    }
}

fn show(trace: &std::path::Path) {
    let Ok(reader) = TraceReader::open(trace) else {
        return;
    };
    for action in reader.actions().flatten() {
        let path = action.path.map(|p| p.to_text()).unwrap_or_default();
        eprintln!(
            "{} t{} {}({:x?}) {path} = {} {} data {}",
            action.seq,
            action.thread,
            action.call,
            action.args,
            action.result,
            action.errno.unwrap_or_default(),
            action.data_bytes
        );
    }
    for node in reader.tree().unwrap_or_default() {
        eprintln!(
            "node @{} {}:{} / {} -> {}:{} {:o} size {} {}",
            node.seq,
            node.parent_device,
            node.parent_inode,
            node.name,
            node.device,
            node.inode,
            node.mode,
            node.size,
            node.target
        );
    }
    for c in reader.contents().unwrap_or_default() {
        eprintln!("content @{} {}:{} {}+{} hole {} {}", c.seq, c.device, c.inode, c.offset, c.length, c.hole, c.reason);
    }
    eprintln!("{:#?}", reader.descriptors());
    eprintln!("{:#?}", reader.threads());
    eprintln!("{:#?}", reader.processes());
}
