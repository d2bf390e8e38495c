//! Traces and results, for people and for programs.
//!
//! Goals: text that can be read at a glance (aligned, with units, colour only if asked for) and JSON of the same facts
//! (every result is `serde::Serialize`); streamed where it is long. Non-goals: judging, deciding where output goes.

mod cat;
mod comparison;
mod info;
mod info_text;
mod stat;
mod style;
mod table;
mod units;

pub use cat::{Cat, CatOptions, cat};
pub use comparison::{comparison_text, tree_text};
pub use info::{CallCount, Info, info};
pub use stat::{By, Stat, StatRow, stat};
pub use style::Style;
pub use table::{Align, Table};
pub use units::{bytes, count, date, duration};
