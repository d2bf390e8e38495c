//! Results and variances that do not belong to the others (ISO 5725-2): told, never left out.

use serde::{Deserialize, Serialize};

use super::probability::{fisher_quantile, student_quantile};
use super::summary::Summary;

/// How far off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strength {
    /// Beyond the limit of 5 %.
    Straggler,
    /// Beyond the limit of 1 %.
    Outlier,
}

/// A value that does not belong.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Outlier {
    /// Its place among the values.
    pub index: usize,
    /// The statistic.
    pub statistic: f64,
    /// What it exceeds.
    pub critical: f64,
    /// How far off it is.
    pub strength: Strength,
}

/// Grubbs' test of the value that is farthest from the mean, either way; three values at least.
pub fn grubbs(values: &[f64]) -> Option<Outlier> {
    let s = Summary::of(values).filter(|s| s.count >= 3 && s.sd > 0.0)?;
    let away = |value: &f64| (value - s.mean).abs();
    let (index, farthest) = values.iter().enumerate().max_by(|a, b| away(a.1).total_cmp(&away(b.1)))?;
    judge(index, away(farthest) / s.sd, |alpha| grubbs_critical(s.count, alpha))
}

/// Cochran's test of the greatest of variances that are each of `replications` values.
pub fn cochran(variances: &[f64], replications: usize) -> Option<Outlier> {
    let total: f64 = variances.iter().sum();
    if variances.len() < 2 || replications < 2 || total.is_nan() || total <= 0.0 {
        return None;
    }
    let (index, greatest) = variances.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1))?;
    judge(index, greatest / total, |alpha| cochran_critical(variances.len(), replications, alpha))
}

fn judge(index: usize, statistic: f64, critical: impl Fn(f64) -> Option<f64>) -> Option<Outlier> {
    let levels = [(0.01, Strength::Outlier), (0.05, Strength::Straggler)];
    levels.into_iter().find_map(|(alpha, strength)| {
        let critical = critical(alpha)?;
        (statistic > critical).then_some(Outlier { index, statistic, critical, strength })
    })
}

/// Two-sided critical value of Grubbs' statistic.
pub(super) fn grubbs_critical(count: usize, alpha: f64) -> Option<f64> {
    let n = count as f64;
    let t2 = student_quantile(1.0 - alpha / (2.0 * n), n - 2.0)?.powi(2);
    Some((n - 1.0) / n.sqrt() * (t2 / (n - 2.0 + t2)).sqrt())
}

/// Critical value of Cochran's statistic.
pub(super) fn cochran_critical(groups: usize, replications: usize, alpha: f64) -> Option<f64> {
    let (p, nu) = (groups as f64, (replications - 1) as f64);
    let f = fisher_quantile(1.0 - alpha / p, nu, (p - 1.0) * nu)?;
    Some(f / (f + p - 1.0))
}
