//! How far a measurement can be trusted: the terms of the VIM and the GUM, the methods of ISO 5725.
//!
//! Goals: from replicated results of a reference and of an instrument to precision, bias, linearity and uncertainty, and from
//! single values to distances of distributions; every number with what its judgement rests on (statistic, degrees of freedom,
//! probability), so that it can be checked; nothing said where there is too little to say it (`None`, not zero). Values have
//! whatever unit the caller gives them. Non-goals: what was measured, running anything, formatting.

mod bias;
mod compare;
mod control;
mod distance;
mod linearity;
mod outliers;
mod precision;
mod probability;
mod reordering;
mod replication;
mod summary;
mod uncertainty;

pub use bias::{Bias, Equivalence, bias, equivalence};
pub use compare::{Difference, Verdict, differences};
pub use control::{ControlChart, Signal, control_chart};
pub use distance::{Distance, distance};
pub use linearity::{Trend, trend};
pub use outliers::{Outlier, Strength, cochran, grubbs};
pub use precision::{Precision, VarianceRatio, precision, variance_ratio};
pub use reordering::{Reordering, reordering};
pub use replication::further_runs;
pub use summary::Summary;
pub use uncertainty::{Component, Contribution, Expanded, Uncertainty, combine, uncertainty};
