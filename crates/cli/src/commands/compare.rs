//! `reprise compare`.

use std::path::PathBuf;
use std::process::ExitCode;

use reprise_validate::{Group, ValidateError};

use super::{Outcome, print, print_json, style};
use crate::args::validate::Compare;
use crate::exit::{Exit, Failure};

/// Compares groups of results.
pub fn run(args: Compare) -> Outcome {
    let groups: Vec<Group> = args.groups.iter().map(|text| group(text)).collect();
    // What cannot be read is as if it were not there: the comparison itself does not need it.
    let known = reprise_validate::state_directory().and_then(|directory| reprise_validate::stored(&directory).ok());
    let comparison = reprise_validate::compare(&groups, &known.unwrap_or_default()).map_err(|error| match error {
        ValidateError::Trace(error) => error.into(),
        other => Failure::new(Exit::Usage, other),
    })?;
    if args.json {
        print_json(&comparison)?;
    } else {
        print(&reprise_report::compared_text(&comparison, style()))?;
    }
    Ok(ExitCode::from(if comparison.is_different() { Exit::Diverged } else { Exit::Done }))
}

/// `NAME=A,B,C`; without a name the first result is it.
fn group(text: &str) -> Group {
    let (name, results) = text.split_once('=').unwrap_or((text.split(',').next().unwrap_or(text), text));
    Group { name: name.to_owned(), results: results.split(',').map(PathBuf::from).collect() }
}
