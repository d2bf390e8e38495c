//! `spool-dump [--quiet] TRACE`: prints the records of a spool by CPU and checks their numbers.

use std::path::PathBuf;
use std::process::ExitCode;

use reprise_calls::by_number;

#[path = "../tests/common/spool.rs"]
mod spool;

use spool::{Body, Call, Range};

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1).peekable();
    let quiet = args.next_if(|a| a == "--quiet").is_some();
    let Some(trace) = args.next().map(PathBuf::from) else {
        eprintln!("usage: spool-dump [--quiet] TRACE");
        return ExitCode::from(2);
    };
    let spool = spool::read(&trace);
    for record in spool.records.iter().filter(|_| !quiet) {
        print!("{}/{} {} {}:{} ", record.cpu, record.number, record.time_ns, record.pid, record.tid);
        match &record.body {
            Body::Call(call) => show("CALL", call),
            Body::Enter(call) => show("ENTER", call),
            Body::More { call, range } => println!("MORE of {call} {}", text(range)),
            other => println!("{other:?}"),
        }
    }
    for fault in &spool.faults {
        println!("FAULT: {fault}");
    }
    println!("{} records, {} dropped, {} ranges lacking", spool.records.len(), spool.dropped, spool.lacking());
    ExitCode::from(u8::from(!spool.faults.is_empty()))
}

fn show(kind: &str, call: &Call) {
    let name = by_number(call.nr).map_or_else(|| call.nr.to_string(), |c| c.name.to_owned());
    println!("{kind} {} {name}({:x?}) = {} more {}", call.call, call.args, call.result, call.more);
    for object in call.objects.iter().filter(|o| o.id != 0) {
        println!("      {object:x?}");
    }
    for range in &call.ranges {
        println!("      {}", text(range));
    }
}

fn text(range: &Range) -> String {
    let shown = &range.bytes[..range.bytes.len().min(60)];
    let when = if range.entry { "entry" } else { "exit" };
    format!("{:x}+{} {when} flags {} \"{}\"", range.address, range.length, range.flags, shown.escape_ascii())
}
