//! The `reprise` command: arguments in, exit codes out.
//!
//! Goals: pleasant and predictable; every error names its cause and the next step. Non-goals: logic.

mod amounts;
mod args;
mod calls;
mod commands;
mod exit;
mod progress;
mod reference;
mod span;
mod unfinished;

fn main() -> std::process::ExitCode {
    let cli = args::parse();
    match commands::run(cli) {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}
