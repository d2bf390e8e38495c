//! Traces and results, for people and for programs.
//!
//! Goals: text that can be read at a glance (aligned, with units, colour only if asked for) and JSON of the same facts
//! (every result is `serde::Serialize`); streamed where it is long. Non-goals: judging, deciding where output goes.

mod cat;
mod compared;
mod comparison;
mod environment;
mod executed;
pub mod export;
mod graph;
mod html;
mod info;
mod info_text;
mod printable;
mod replay_times;
mod stat;
mod style;
mod table;
mod tree;
mod units;
mod validation;
mod validation_details;

pub use cat::{Cat, CatOptions, cat};
pub use compared::compared_text;
pub use comparison::{comparison_text, tree_text};
pub use environment::{environment_lines, environment_table};
pub use graph::{critical_text, dot, svg, tally_text, why_text};
pub use html::{Given, Report, report};
pub use info::{CallCount, Info, info};
pub use printable::printable;
pub use replay_times::{Detail, replay_times, replay_times_text};
pub use stat::{By, Stat, StatRow, stat};
pub use style::Style;
pub use table::{Align, Table};
pub use tree::{TreeOptions, tree_lines};
pub use units::{bytes, count, counted, date, duration, plural};
pub use validation::validation_text;
