//! What is another one each time, and by its nature rarely goes wrong.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// How often it is tried.
pub const ATTEMPTS: usize = 3;

/// Does it until it ends well; fails as the last of [`ATTEMPTS`] did.
pub fn until_well<T>(once: impl Fn() -> T) -> T {
    for _ in 1..ATTEMPTS {
        if let Ok(well) = catch_unwind(AssertUnwindSafe(&once)) {
            return well;
        }
    }
    once()
}
