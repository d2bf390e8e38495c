//! How many more runs are needed.

use super::probability::{normal_quantile, student_quantile};
use super::summary::Summary;

/// Most runs that are worth naming.
const MOST: usize = 100_000;

/// Further runs after which the mean is known to `wanted` (half the width of its interval of 95 %, relative to the mean), if
/// they scatter as those so far; 0 if it is, `None` if more than a hundred thousand are needed.
pub fn further_runs(so_far: &Summary, wanted: f64) -> Option<usize> {
    let reach = |n: usize| Some(student_quantile(0.975, (n - 1) as f64)? * so_far.cv / (n as f64).sqrt());
    // The normal distribution says about where to look; Student's needs a little more.
    let about = (normal_quantile(0.975)? * so_far.cv / wanted).powi(2);
    if !about.is_finite() || about > MOST as f64 {
        return None;
    }
    let from = so_far.count.max(about as usize).max(2);
    let needed = (from..from + 100).find(|n| reach(*n).is_some_and(|reach| reach <= wanted))?;
    Some(needed - so_far.count)
}
