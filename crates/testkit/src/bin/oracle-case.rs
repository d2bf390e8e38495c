//! `oracle-case check|quiet|follow NAME`, `oracle-case exchanged NAME N`: runs one case of the oracle in the working directory, which must hold the
//! tree of `oracle-case fixture`. Exit status 0: the row is right; 77: it cannot be tested here, and standard error
//! says why; anything else: it is wrong, and standard error says how. `quiet` prints what it does, for recording;
//! `exchanged` runs it with a wrong row, which it must notice.

use std::process::ExitCode;

use reprise_testkit::oracle::{self, context::Manner, fixture};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["check", name] => oracle::run(name, Manner::Check),
        ["quiet", name] => oracle::run(name, Manner::Quiet),
        ["follow", name] => {
            oracle::run(name, Manner::Follow);
            eprintln!("the case never issued its call");
            return ExitCode::FAILURE;
        }
        ["exchanged", name, at] => {
            oracle::run_exchanged(name, at.parse().expect("a number"));
        }
        ["fixture"] => fixture::make(std::path::Path::new(".")).expect("the fixture"),
        _ => {
            eprintln!("usage: oracle-case check|quiet|follow NAME | exchanged NAME N | fixture");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
