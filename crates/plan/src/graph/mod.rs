//! The dependencies of a trace, to be looked at: edges by rule, the critical path, why one action waits.
//!
//! Goals: exactly the edges that a plan has, from the same code. Sources: ROOT, section 5.3 and Figure 8. Non-goals: pictures
//! and text (those are the report's).

mod critical;
mod edges;
mod pass;
mod tally;
mod why;
mod window;

pub use critical::{CriticalPath, Link, critical_path};
pub use edges::{Arc, edges};
pub use tally::{RuleTally, Tally, tally};
pub use why::{Reason, Why, why};
pub use window::{Arrow, Span, Window, window};
