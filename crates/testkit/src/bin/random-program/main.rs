//! `random-program [options] SEED DIR`: a seeded random program over a small tree, for recording and replaying.
//!
//! Goals: threads and processes that disturb each other at few names and few shared descriptors, with every family of
//! the table of calls; it always ends, and never leaves `DIR`'s surroundings. Non-goals: doing anything sensible. What
//! one run does also depends on the scheduler: the seed says what each thread tries.
//!
//! Options: `--prepare` makes the tree and does nothing else; `--threads N`, `--processes N`, `--ops N` (of each
//! thread); `--portable` leaves out what file systems differ in; `--user` drops privileges first;
//! `--never-wait` leaves out the locks and pipes at which threads wait for each other.

mod attributes;
mod context;
mod data;
mod descriptors;
mod lives;
mod names;
mod opening;
mod prepare;
mod reading;

use std::process::ExitCode;

use context::Options;
use reprise_testkit::rng;

fn parse() -> Option<(Options, bool)> {
    let mut options = Options::default();
    let (mut plain, mut prepare) = (Vec::new(), false);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--prepare" => prepare = true,
            "--portable" => options.portable = true,
            "--user" => options.user = true,
            "--never-wait" => options.waits = false,
            "--threads" => options.threads = args.next()?.parse().ok()?,
            "--processes" => options.processes = args.next()?.parse().ok()?,
            "--ops" => options.ops = args.next()?.parse().ok()?,
            "--inherited" => {
                let list = args.next()?;
                options.inherited = list.split(',').filter_map(|n| n.parse().ok()).collect();
            }
            _ => plain.push(arg),
        }
    }
    let [seed, dir] = <[String; 2]>::try_from(plain).ok()?;
    options.seed = seed.parse().ok()?;
    options.dir = dir.into();
    Some((options, prepare))
}

fn main() -> ExitCode {
    let Some((options, prepare)) = parse() else {
        eprintln!(
            "usage: random-program [--prepare|--portable|--user|--never-wait|--threads N|--processes N|--ops N] SEED DIR"
        );
        return ExitCode::from(2);
    };
    if prepare {
        prepare::tree(&options);
    } else {
        lives::run(options);
    }
    ExitCode::SUCCESS
}
