#!/usr/bin/env python3
"""Writes fixtures.json: what SciPy and NumPy say of random numbers and of the published ones, for crates/measure/tests/metrology.rs.

    python3 -m venv /tmp/v && /tmp/v/bin/pip install scipy && /tmp/v/bin/python tests/metrology/fixtures.py

Formulas that SciPy lacks (Cochran, Grubbs, Welch–Satterthwaite of several parts) are written down here once more, from the
standards, with SciPy's distributions.
"""

import json
import pathlib

import numpy as np
from scipy import stats

rng = np.random.default_rng(20161)


def pair(n, m, mean, bias, sd_a, sd_b):
    return (mean + bias + sd_a * rng.standard_normal(n)).tolist(), (mean + sd_b * rng.standard_normal(m)).tolist()


def two_samples():
    cases = []
    shapes = [(10, 10, 100, 0, 1, 1), (10, 10, 100, 5, 1, 1), (5, 12, 3.7, 0.2, 0.05, 0.4), (3, 3, 1e6, -4e4, 2e4, 1e3), (30, 20, 0.5, 0.001, 0.1, 0.1)]
    for shape in shapes:
        a, b = pair(*shape)
        welch = stats.ttest_ind(a, b, equal_var=False)
        interval = welch.confidence_interval(0.95)
        margin = 0.02 * np.mean(b)
        above = stats.ttest_ind(np.array(a) - margin, b, equal_var=False, alternative="less")
        below = stats.ttest_ind(np.array(a) + margin, b, equal_var=False, alternative="greater")
        f = np.var(a, ddof=1) / np.var(b, ddof=1)
        ks = stats.ks_2samp(a, b)
        cases.append({
            "a": a, "b": b, "sd": np.std(a, ddof=1), "cv": stats.variation(a, ddof=1), "u_mean": stats.sem(a),
            "p": welch.pvalue, "degrees": welch.df, "from": interval.low, "to": interval.high,
            "margin": margin, "tost_p": max(above.pvalue, below.pvalue),
            "f": f, "f_p": stats.f.sf(f, len(a) - 1, len(b) - 1), "f_critical": stats.f.isf(0.05, len(a) - 1, len(b) - 1),
            "ks": ks.statistic, "wasserstein": stats.wasserstein_distance(a, b),
        })  # fmt: skip
    return cases


def trends():
    cases = []
    for slope, noise in [(0, 1), (0.5, 0.2), (-3, 1), (0.01, 0.5)]:
        x = np.repeat([1, 2, 3, 4], 3).astype(float)
        y = 2 + slope * x + noise * rng.standard_normal(len(x))
        fit = stats.linregress(x, y)
        reach = stats.t.ppf(0.975, len(x) - 2) * fit.stderr
        cases.append({
            "x": x.tolist(), "y": y.tolist(), "slope": fit.slope, "intercept": fit.intercept, "r": fit.rvalue, "p": fit.pvalue,
            "from": fit.slope - reach, "to": fit.slope + reach,
        })  # fmt: skip
    return cases


def limits(n):
    """Of a chart whose baseline is 0, 1, ..., n - 1: how far from the centre the next value is as seldom as beyond three sigma."""
    values = np.arange(n)
    return stats.t.ppf(stats.norm.cdf(3), n - 1) * np.sqrt(1 + 1 / n) * np.std(values, ddof=1)


def ties():
    a, b = rng.integers(0, 6, 40).astype(float), rng.integers(1, 9, 25).astype(float)
    return {"a": a.tolist(), "b": b.tolist(), "ks": stats.ks_2samp(a, b).statistic, "wasserstein": stats.wasserstein_distance(a, b)}


def grubbs(n, alpha):
    t2 = stats.t.isf(alpha / (2 * n), n - 2) ** 2
    return (n - 1) / np.sqrt(n) * np.sqrt(t2 / (n - 2 + t2))


def cochran(p, n, alpha):
    f = stats.f.isf(alpha / p, n - 1, (p - 1) * (n - 1))
    return f / (f + p - 1)


def main():
    out = {
        "two_samples": two_samples(),
        "trends": trends(),
        "ties": ties(),
        "grubbs": [{"n": n, "alpha": a, "critical": grubbs(n, a)} for n in (3, 5, 10, 20, 40) for a in (0.05, 0.01)],
        "cochran": [{"p": p, "n": n, "alpha": a, "critical": cochran(p, n, a)} for p in (2, 4, 10, 40) for n in (2, 3, 6) for a in (0.05, 0.01)],
        "limits": [{"n": n, "reach": limits(n)} for n in (4, 5, 10, 100)],
        "coverage": [{"degrees": d, "k": stats.t.ppf(0.975, d)} for d in (2, 9, 500)],
        "holm": {"p": [0.01, 0.04, 0.03, 0.005], "adjusted": [0.03, 0.06, 0.06, 0.02]},
    }
    place = pathlib.Path(__file__).with_name("fixtures.json")
    place.write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
