//! Dependencies as text and as pictures.

mod dot;
mod svg;
mod text;

pub use dot::dot;
pub use svg::svg;
pub use text::{critical_text, tally_text, why_text};

/// The colour of a rule's edges; the same in every picture.
fn colour(rule: &str) -> &'static str {
    match rule {
        "thread" | "spawn" => "#b0b0b0",
        "file_stage" | "file_seq" | "file_range" => "#1f77b4",
        "path_stage" | "path_name" => "#d62728",
        "fd_stage" | "fd_seq" | "fd_offset" => "#2ca02c",
        "handoff" | "lock" | "aio_stage" => "#9467bd",
        "process" => "#8c564b",
        _ => "#ff7f0e",
    }
}
