//! `reprise doctor`.

use std::process::ExitCode;

use reprise_doctor::{Finding, Machine, Places, State, examine};
use reprise_report::{Align, Table};

use super::{Outcome, print, print_json, style};
use crate::args::doctor::Doctor;
use crate::exit::Exit;

/// Says what this machine permits, and what disturbs measurements on it.
pub fn run(args: Doctor) -> Outcome {
    let places = Places { trace: args.trace, target: args.target };
    let found = examine(&Machine::here(), &places);
    if args.json {
        print_json(&found)?;
    } else {
        let permits = text("What this machine permits", &found.permits);
        print(&format!("{permits}\n{}", text("What disturbs measurements", &found.disturbs)))?;
    }
    Ok(ExitCode::from(if found.works() { Exit::Done } else { Exit::Machine }))
}

fn text(title: &str, findings: &[Finding]) -> String {
    let mut table = Table::new(2, &[Align::Left, Align::Left, Align::Left]);
    for finding in findings {
        let mark = match finding.state {
            State::Good => style().good("ok"),
            State::Disturbs => style().notable("disturbs"),
            State::Missing => style().bad("missing"),
            State::Unknown => style().faint("unknown"),
        };
        table.row([mark, finding.what.to_owned(), finding.found.clone()]);
        if let Some(mend) = &finding.mend {
            table.row([String::new(), String::new(), style().faint(&format!("→ {mend}"))]);
        }
    }
    format!("{}\n{}", style().heading(title), table.text())
}
