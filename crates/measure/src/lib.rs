//! Samples with units, summed up: distributions of times and histograms of sizes.
//!
//! Goals: exact counts, totals and extremes; quantiles exact for few samples and within 0.1 % for many; memory that does
//! not grow with the number of samples. Non-goals: knowing what is measured, formatting.

mod distribution;
mod sizes;

pub use distribution::{Distribution, Samples};
pub use sizes::{SizeClass, Sizes};
