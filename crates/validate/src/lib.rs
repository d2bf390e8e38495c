//! The validation of a measuring instrument that replays: the protocol of Pereira et al., as a procedure.
//!
//! A *setting* is a workload at a load level, with a state of the caches. For each, replications of the reference program and of
//! every instrument are run in a random order, block by block (each block has one run of each), from the same state; what they
//! took is read from what they wrote, and judged by `measure::metrology`.
//!
//! Goals: any instrument (a replay of ours, a command with a reader of its log); nothing dropped: a replication that was disturbed
//! is marked; every run and every number in the result. Non-goals: statistics, formatting, arguments.

mod analysis;
mod bench;
mod caches;
mod compare;
mod conditions;
mod error;
mod finding;
mod history;
mod influence;
mod instrument;
mod iolog;
mod log;
mod micros;
mod nearest;
mod observed;
mod procedure;
mod recording;
mod rules;
mod series;
mod setting;
mod shell;
mod store;
mod totals;

pub use caches::Caches;
pub use compare::{Compared, Comparison, Group, Quantity, compare, different_results};
pub use conditions::{Conditions, Disturbance, Limit, Limits, Measure};
pub use error::ValidateError;
pub use finding::{
    ClockQuality, Correction, Distances, Examined, Finding, Linearity, RunRecord, Source, Stability, Statistic,
    Validation,
};
pub use history::{Charted, Drift, Past, drifts};
pub use influence::{Influence, Origin};
pub use instrument::{Instrument, View};
pub use log::LogFormat;
pub use micros::Micros;
pub use nearest::{Nothing, Replayed, TIMES_APART, nearest};
pub use procedure::{Procedure, Scenario, Step, Validated, validate};
pub use rules::Rules;
pub use setting::{Program, Setting, SettingName};
pub use shell::shell_word;
pub use store::{Known, STORE_FILE, Store, StoreError, state_directory, stored, stored_of};
