//! The initial tree of a plan alone, for whoever wants the files.

use std::path::Path;

use reprise_plan::Plan;

use super::ReplayError;
use crate::engine::Sections;
use crate::target::{self, BuildReport};

/// Writes the initial tree of a plan into an empty directory, which does not become a replay's target by it.
///
/// # Errors
/// As [`super::replay`], while it prepares the target; also when the directory is a target already.
pub fn extract(plan: &Plan, dir: &Path, progress: target::Progress<'_>) -> Result<BuildReport, ReplayError> {
    let target = target::open(dir, &plan.contents.trace)?;
    let sections = Sections::map(plan).map_err(|source| ReplayError::system("map the plan", source))?;
    let report = target.build(&plan.contents.tree, &*sections.buffers, progress)?;
    target.disown()?;
    Ok(report)
}
