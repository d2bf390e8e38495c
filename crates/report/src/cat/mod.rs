//! A trace line by line, as `strace` would show it, or as JSON.
//!
//! Goals: every argument in words, one action a line, streamed. Non-goals: exactness to the byte of strace's layout.

pub(crate) mod argument;
pub(crate) mod json;
mod line;
pub(crate) mod quote;
pub(crate) mod structure;

use reprise_calls::ArgKind;
use reprise_model::World;
use reprise_trace::{Action, BlobReader, Name, ReadError, Rows, TraceReader};

/// What is shown, and how.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CatOptions {
    /// Only this thread.
    pub thread: Option<u32>,
    /// Only actions that concern a path that contains this text: as passed, as an absolute path, or of a descriptor.
    pub path: Option<String>,
    /// Only these calls; empty: all.
    pub calls: Vec<String>,
    /// A JSON object a line instead of text.
    pub json: bool,
}

/// Lines of a trace.
pub struct Cat {
    rows: Rows<Action>,
    blobs: BlobReader,
    /// Followed only where paths of descriptors are asked for.
    world: Option<World>,
    options: CatOptions,
}

/// Shows the actions of a trace, without line ends.
///
/// # Errors
/// The trace cannot be read. Later errors are items of the iterator, the last one.
pub fn cat(trace: &TraceReader, options: CatOptions) -> Result<Cat, ReadError> {
    let world = options.path.is_some().then(|| World::begin(trace, false)).transpose()?;
    Ok(Cat { rows: trace.actions(), blobs: trace.blobs(), world, options })
}

impl Cat {
    fn wanted(&mut self, action: &Action) -> Result<bool, ReadError> {
        let concerns = match (&self.options.path, &mut self.world) {
            (Some(text), Some(world)) => concerns(world, action, text)?,
            _ => true,
        };
        Ok(concerns
            && self.options.thread.is_none_or(|t| t == action.thread)
            && (self.options.calls.is_empty() || self.options.calls.iter().any(|call| *call == action.call)))
    }
}

/// Whether an action has to do with a path that contains the text. Follows the action.
fn concerns(world: &mut World, action: &Action, text: &str) -> Result<bool, ReadError> {
    let contains = |path: &[u8]| Name(path.to_vec()).to_text().contains(text);
    let passed = [&action.path, &action.path2].into_iter().flatten().any(|p| contains(p));
    let Some(call) = reprise_calls::by_name(&action.call) else { return Ok(passed) };
    let named = (0..2).filter_map(|n| world.argument_path(call, action, n)).any(|p| contains(&p));
    let open = |world: &World| {
        let descriptors = call.args.iter().zip(action.args);
        descriptors
            .filter(|(arg, _)| matches!(arg.kind, ArgKind::Fd(_)))
            .filter_map(|(_, fd)| world.descriptor_path(action.thread, fd))
            .any(|p| contains(&p))
    };
    let before = open(world);
    world.step(call, action)?;
    Ok(passed || named || before)
}

impl Iterator for Cat {
    type Item = Result<String, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let action = match self.rows.next()? {
                Ok(action) => action,
                Err(e) => return Some(Err(e)),
            };
            match self.wanted(&action) {
                Ok(false) => {}
                Ok(true) if self.options.json => return Some(Ok(json::object(&action, None))),
                Ok(true) => return Some(line::line(&action, &mut self.blobs)),
                Err(e) => return Some(Err(e)),
            }
        }
    }
}
