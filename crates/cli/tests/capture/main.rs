//! What a recorder promises of any program, whichever backend records: nothing is lost, nothing is mixed up, and its own
//! death costs neither the program nor the trace more than the backend says. The programs (`tests/programs` of the
//! workspace) know what they did and print it, so the oracle shares no code with the product.
//!
//! Goals: each test once with every backend; `REPRISE_BACKEND=ebpf` leaves the others out. Non-goals: what it costs
//! (`scripts/bench-capture`), the meaning of single calls (`calls_oracle.rs`).

mod backend;
mod bars;
mod full;
mod groups;
mod made;
#[path = "../means/mod.rs"]
mod means;
mod programs;
mod scopes;

/// Each test with each backend, as a test of its own.
macro_rules! with_each_backend {
    ($($room:ident::$name:ident;)*) => {
        mod ptrace {
            $(#[test] fn $name() { crate::backend::Backend::Ptrace.run(stringify!($name), crate::$room::$name); })*
        }
        mod ebpf {
            $(#[test] fn $name() { crate::backend::Backend::Ebpf.run(stringify!($name), crate::$room::$name); })*
        }
    };
}

with_each_backend! {
    bars::two_recordings_do_not_mix;
    bars::two_thousand_processes;
    bars::processes_that_become_others;
    bars::a_long_command;
    bars::core_files;
    bars::killed_recorder;
    programs::mapped_writes;
    programs::mapped_writes_with_msync;
    programs::mapped_writes_over_a_content;
    programs::mapped_writes_in_memory;
    programs::mapped_by_two;
    programs::mapped_by_two_with_msync;
    programs::mapped_by_two_and_evicted;
    programs::mapped_by_two_in_memory;
    programs::mapped_by_one_that_is_killed;
    programs::followed;
    programs::followed_by_large_steps;
    programs::own_log;
    programs::aio;
    programs::aio_direct;
    programs::aio_again;
    programs::aio_left;
    programs::uring;
    programs::uring_sqpoll;
    programs::uring_defer;
    programs::rings;
    programs::rings_broken;
    programs::rings_broken_at_once;
    programs::rings_failing;
    programs::served_memory;
}
