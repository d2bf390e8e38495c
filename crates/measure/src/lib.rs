//! Samples with units, summed up: distributions of times, histograms of sizes, overlap of intervals, the times of a replay, the trust in them.
//!
//! Goals: exact counts, totals and extremes; quantiles exact for few samples and within 0.1 % for many; memory that does
//! not grow with the number of samples. Non-goals: knowing what is measured, formatting.

mod concurrency;
mod distribution;
mod levels;
pub mod metrology;
mod punctuality;
mod replay;
mod signed;
mod sizes;

pub use concurrency::{Concurrency, MOST_SLICES, Overlap};
pub use distribution::{Distribution, Samples};
pub use punctuality::{IssueErrorBy, Punctuality};
pub use replay::{CallTimes, CategoryTimes, ReplayAccount, ReplaySample, ReplayTimes, RuleTimes, ThreadTimes};
pub use signed::{SignedDistribution, SignedSamples};
pub use sizes::{SizeClass, Sizes};
