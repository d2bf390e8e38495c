//! What is around the program: the machine, its devices and mounts at the start, and how memory, processors and devices
//! fare while the program runs.
//!
//! Goals: rows for the tables `environment`, `devices`, `mounts` and `queues` and facts for the manifest, from `/proc` and
//! `/sys` alone; cheap and bounded (a sample every 100 ms costs well below a per cent of a processor, and never more than
//! two); nothing of the program is touched. Any back-end can use it: it says which processes are traced ([`Traced`]) and
//! where samples go, to its writer or to a file to be read later ([`Keeper`]). What a machine lacks is left out. Non-goals: writing a trace, interpreting the numbers.

mod devices;
mod facts;
mod kept;
mod limit;
mod mounts;
mod observer;
mod processes;
mod processors;
mod sampler;
mod source;

#[cfg(ebpf)]
pub(crate) use devices::counters;
pub use facts::Surroundings;
pub(crate) use facts::{CORE_PATTERN, core_pattern};
pub use kept::{Keeper, kept};
pub(crate) use limit::memory_limit_bytes;
pub use observer::{Observation, Observer};
pub use processes::{Children, Processes, Traced};
pub use sampler::Sampler;
