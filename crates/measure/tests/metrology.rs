//! The statistics, against what SciPy says (`tests/metrology/fixtures.py`), against tables of the standards, and against the
//! figures that Pereira, Brasileiro and Sampaio published ("File System Trace Replay Methods Through the Lens of Metrology").

use reprise_measure::metrology::*;
use serde_json::Value;

fn fixtures() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/metrology/fixtures.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn cases(name: &str) -> Vec<Value> {
    fixtures()[name].as_array().unwrap().clone()
}

fn number(case: &Value, name: &str) -> f64 {
    case[name].as_f64().unwrap_or_else(|| panic!("{name}"))
}

fn list(case: &Value, name: &str) -> Vec<f64> {
    case[name].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

#[track_caller]
fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-7 * expected.abs() + 1e-10, "{found} is not {expected}");
}

#[test]
fn precision_and_bias_are_those_of_scipy() {
    for case in cases("two_samples") {
        let (a, b) = (list(&case, "a"), list(&case, "b"));
        let found = precision(&a, &b, 0.05).unwrap();
        near(found.measured.sd, number(&case, "sd"));
        near(found.measured.cv, number(&case, "cv"));
        near(found.measured.u_mean, number(&case, "u_mean"));
        let ratio = found.ratio.unwrap();
        near(ratio.f, number(&case, "f"));
        near(ratio.p, number(&case, "f_p"));
        near(ratio.critical, number(&case, "f_critical"));
        assert_eq!(ratio.is_greater, number(&case, "f_p") < 0.05);
        let found = bias(&a, &b).unwrap();
        near(found.p, number(&case, "p"));
        near(found.degrees, number(&case, "degrees"));
        assert_eq!(found.is_significant, number(&case, "p") < 0.05);
        assert_eq!(found.is_beyond_2u, found.bias.abs() > 2.0 * found.u);
        near(found.from, number(&case, "from"));
        near(found.to, number(&case, "to"));
        near(equivalence(&found, number(&case, "margin")).unwrap().p, number(&case, "tost_p"));
        let least = equivalence(&found, 0.0).unwrap().least_margin;
        assert!(equivalence(&found, least * 1.001).unwrap().is_equivalent);
        assert!(!equivalence(&found, least * 0.999).unwrap().is_equivalent);
    }
}

#[test]
fn distances_are_those_of_scipy() {
    for case in cases("two_samples").iter().chain([&fixtures()["ties"]]) {
        let (mut a, mut b) = (list(case, "a"), list(case, "b"));
        let found = distance(&mut a, &mut b).unwrap();
        near(found.kolmogorov_smirnov, number(case, "ks"));
        near(found.wasserstein, number(case, "wasserstein"));
        assert!(found.mean_difference.abs() <= found.wasserstein * (1.0 + 1e-9));
    }
}

#[test]
fn trends_are_those_of_scipy() {
    for case in cases("trends") {
        let points: Vec<(f64, f64)> = list(&case, "x").into_iter().zip(list(&case, "y")).collect();
        let found = trend(&points).unwrap();
        near(found.slope, number(&case, "slope"));
        near(found.intercept, number(&case, "intercept"));
        near(found.correlation, number(&case, "r"));
        near(found.p, number(&case, "p"));
        near(found.from, number(&case, "from"));
        near(found.to, number(&case, "to"));
    }
    assert_eq!(trend(&[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]), None);
    let exact = trend(&[(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)]).unwrap();
    assert!(exact.is_significant && exact.p < 1e-6);
}

/// The critical values show through what is judged: values just beyond and just within them.
#[test]
fn outliers_are_told_at_the_critical_values() {
    for case in cases("grubbs") {
        let n = number(&case, "n") as usize;
        let (alpha, critical) = (number(&case, "alpha"), number(&case, "critical"));
        // One value away from others that lie at two places: its statistic grows with its distance.
        let with = |distance: f64| {
            let mut values: Vec<f64> = (0..n - 1).map(|i| f64::from(i as u32 % 2) - 0.5).collect();
            values.push(distance);
            values
        };
        let statistic = |distance: f64| {
            let s = Summary::of(&with(distance)).unwrap();
            (distance - s.mean).abs() / s.sd
        };
        let (mut low, mut high) = (0.6, 1e7);
        if statistic(high) < critical {
            // With three values nothing exceeds the limit but by rounding.
            assert_eq!(n, 3);
            continue;
        }
        for _ in 0..200 {
            let middle = 0.5 * (low + high);
            if statistic(middle) < critical { low = middle } else { high = middle }
        }
        let told =
            |distance: f64| grubbs(&with(distance)).is_some_and(|o| alpha == 0.05 || o.strength == Strength::Outlier);
        assert!(told(high * 1.0001) && !told(low * 0.9999), "{n} {alpha}");
        assert_eq!(grubbs(&with(high * 1.0001)).unwrap().index, n - 1);
    }
    for case in cases("cochran") {
        let (p, n) = (number(&case, "p") as usize, number(&case, "n") as usize);
        let (alpha, critical) = (number(&case, "alpha"), number(&case, "critical"));
        let with = |share: f64| {
            let mut variances = vec![(1.0 - share) / (p - 1) as f64; p];
            variances[0] = share;
            variances
        };
        let told =
            |share: f64| cochran(&with(share), n).is_some_and(|o| alpha == 0.05 || o.strength == Strength::Outlier);
        assert!(told(critical * 1.000_01) && !told(critical * 0.999_99), "{p} {n} {alpha}");
    }
}

/// ISO 5725-2, tables 4 and 5: critical values as printed there.
#[test]
fn critical_values_are_those_of_the_standard() {
    let printed = [(5, 2, 0.841, 0.928), (10, 2, 0.602, 0.718), (10, 3, 0.445, 0.536)];
    for (p, n, straggler, outlier) in printed {
        let with = |share: f64| {
            let mut variances = vec![(1.0 - share) / (p - 1) as f64; p];
            variances[0] = share;
            cochran(&variances, n).map(|o| o.strength)
        };
        assert_eq!(with(straggler - 0.002), None, "{p} {n}");
        assert_eq!(with(straggler + 0.002), Some(Strength::Straggler), "{p} {n}");
        assert_eq!(with(outlier + 0.002), Some(Strength::Outlier), "{p} {n}");
    }
}

/// Tables III and IV give the coefficient of variation and the relative bias of the event-based replayer, table V (in
/// parentheses) its expanded uncertainty for k = 2, in per cent. The reference's own uncertainty is not printed; it was small.
#[test]
fn published_precision_and_bias_give_the_published_uncertainty() {
    let sequential_read_fs = ([0.9, 9.6, 3.1, 6.7], [108.1, 115.8, 107.2, 126.1], [216.4, 233.0, 214.7, 253.0]);
    let sequential_read_temporal = ([0.9, 4.5, 5.1, 1.6], [109.0, 117.4, 125.1, 114.7], [218.1, 235.4, 250.8, 229.7]);
    let random_write_fs = ([0.2, 1.3, 0.5, 1.4], [1.0, 17.9, 14.9, 9.2], [2.2, 36.1, 29.8, 18.7]);
    let random_write_temporal = ([0.5, 1.3, 0.5, 1.5], [1.3, 17.4, 14.7, 9.0], [2.9, 35.1, 29.4, 18.4]);
    let sequential_write_fs = ([0.2, 0.8, 0.4, 0.5], [3.6, 1.7, 1.4, 2.0], [7.2, 3.8, 2.8, 4.2]);
    let tables =
        [sequential_read_fs, sequential_read_temporal, random_write_fs, random_write_temporal, sequential_write_fs];
    for (cv, bias, published) in tables {
        for level in 0..4 {
            let (u_c, _) = combine(&[(cv[level], 9.0), (bias[level], 10.0)]);
            let u = 2.0 * u_c;
            // All are rounded to a tenth, and what is missing can only add.
            assert!(u < published[level] + 0.2, "{u} is more than {}", published[level]);
            assert!(u > published[level] - 0.7, "{u} is much less than {}", published[level]);
        }
    }
}

/// The same from single results: ten replications with the bias and the scatter of table III and IV, sequential read, level 1.
#[test]
fn replicated_results_with_the_published_bias_and_scatter_give_the_published_uncertainty() {
    // Ten values of mean 0 and standard deviation 1.
    let raw: Vec<f64> = (0..10).map(|i| f64::from(i) - 4.5).collect();
    let sd = Summary::of(&raw).unwrap().sd;
    let mean = 3.665 * 2.081;
    let measured: Vec<f64> = raw.iter().map(|x| mean * (1.0 + 0.009 * x / sd)).collect();
    let found = uncertainty(&measured, &[3.665; 10], &[0.0; 10]).unwrap();
    assert!((100.0 * found.expanded[1].relative - 216.4).abs() < 0.5, "{found:?}");
    assert_eq!(found.budget[0].component, Component::Bias);
    assert!((found.budget.iter().map(|part| part.share).sum::<f64>() - 1.0).abs() < 1e-12);
    near(found.expanded[2].absolute, 3.0 * found.u_c * found.mean);
}

/// GUM H.1 (the calibration of an end gauge): u_c = 32 nm with 16 effective degrees of freedom.
#[test]
fn combined_uncertainty_is_that_of_the_guide() {
    let (u, degrees) = combine(&[(25.0, 18.0), (9.7, 25.6), (2.9, 50.0), (16.6, 2.0)]);
    assert!((u - 31.7).abs() < 0.3, "{u}");
    assert!((degrees - 16.7).abs() < 0.2, "{degrees}");
}

/// Late ones are counted, not the one that came early.
#[test]
fn reordered_is_what_comes_after_a_later_one() {
    let found = reordering(&[1, 2, 3, 4, 8, 5, 6, 7, 9, 10]);
    assert_eq!((found.count, found.reordered, found.most_extent), (10, 3, 3));
    let found = reordering(&[1, 2, 3, 5, 6, 7, 8, 4, 9, 10]);
    assert_eq!((found.reordered, found.most_extent), (1, 4));
    assert_eq!(reordering(&[]).reordered, 0);
    assert_eq!(reordering(&[1, 1, 2]).reordered, 0);
}

#[test]
fn reordering_agrees_with_its_definition_on_all_permutations() {
    fn permutations(left: &mut Vec<u64>, so_far: &mut Vec<u64>, check: &dyn Fn(&[u64])) {
        if left.is_empty() {
            check(so_far);
        }
        for i in 0..left.len() {
            so_far.push(left.remove(i));
            permutations(left, so_far, check);
            left.insert(i, so_far.pop().unwrap());
        }
    }
    permutations(&mut (0..7).collect(), &mut Vec::new(), &|came| {
        let late = |i: usize| came[..i].iter().position(|before| *before > came[i]).map(|first| i - first);
        let extents: Vec<usize> = (0..came.len()).filter_map(late).collect();
        let found = reordering(came);
        assert_eq!(found.reordered as usize, extents.len(), "{came:?}");
        assert_eq!(found.most_extent as usize, extents.iter().max().copied().unwrap_or(0), "{came:?}");
    });
}

#[test]
fn a_control_chart_tells_shifts_and_only_them() {
    let mut values: Vec<f64> = [10.0, 12.0].repeat(10);
    let chart = control_chart(&values, 20).unwrap();
    near(chart.centre, 11.0);
    near(chart.sigma, (20.0f64 / 19.0).sqrt());
    // A third of the way to a limit is 1.2: so far are the zones here.
    assert!((chart.upper - 11.0 - 3.6).abs() < 0.05, "{chart:?}");
    assert!(chart.signals.is_empty(), "{chart:?}");
    values.push(17.0);
    assert_eq!(control_chart(&values, 20).unwrap().signals, [(20, Signal::BeyondLimits)]);
    let with = |more: &[f64]| {
        let values = [[10.0, 12.0].repeat(10), more.to_vec()].concat();
        control_chart(&values, 20).unwrap().signals
    };
    assert_eq!(with(&[14.0, 10.0, 14.0]), [(22, Signal::TwoOfThree)]);
    assert_eq!(with(&[12.5, 12.5, 10.0, 12.5, 12.5]), [(24, Signal::FourOfFive)]);
    // The last of the baseline is above the centre, too.
    assert_eq!(with(&[11.5; 7]), [(26, Signal::Run)]);
    assert!(control_chart(&[1.0], 1).is_none());
}

#[test]
fn limits_of_few_results_are_as_wide_as_little_is_known() {
    for case in cases("limits") {
        let values: Vec<f64> = (0..number(&case, "n") as u32).map(f64::from).collect();
        let chart = control_chart(&values, values.len()).unwrap();
        near(chart.upper - chart.centre, number(&case, "reach"));
        near(chart.centre - chart.lower, number(&case, "reach"));
    }
}

#[test]
fn the_coverage_factor_is_that_of_the_degrees_of_freedom() {
    for case in cases("coverage") {
        // Nothing but the reference contributes: its degrees of freedom are those of all.
        let n = number(&case, "degrees") as usize + 1;
        let found = uncertainty(&vec![1.0; n], &vec![1.0; n], &vec![0.1; n]).unwrap();
        near(found.degrees, number(&case, "degrees"));
        near(found.expanded_95.k, number(&case, "k"));
        near(found.expanded_95.relative, 0.1 * found.expanded_95.k);
    }
    let exact = uncertainty(&[1.0, 1.0], &[1.0, 1.0], &[0.0, 0.0]).unwrap();
    assert!((exact.expanded_95.k - 1.959_963_984_540_054).abs() < 1e-9);
}

#[test]
fn further_runs_are_as_many_as_are_needed() {
    let values: Vec<f64> = (0..10).map(|i| 100.0 + f64::from(i % 5)).collect();
    let so_far = Summary::of(&values).unwrap();
    for wanted in [0.02, 0.005, 0.001] {
        let n = so_far.count + further_runs(&so_far, wanted).unwrap();
        // Student's factor is within a tenth of the normal distribution's with so many runs.
        let needed = (1.96 * so_far.cv / wanted).powi(2);
        assert!(n as f64 >= needed && n as f64 <= (needed * 1.2 + 4.0).max(10.0), "{wanted} {n} {needed}");
    }
    assert_eq!(further_runs(&so_far, 1e-9), None);
    assert_eq!(further_runs(&so_far, 0.0), None);
}

#[test]
fn differences_are_adjusted_as_holm_says_and_judged() {
    let fixture = &fixtures()["holm"];
    // Holm's own example; checked through groups whose single probabilities are known is not possible, so by the definition:
    let p = list(fixture, "p");
    let mut sorted = p.clone();
    sorted.sort_by(f64::total_cmp);
    let adjusted = |x: f64| {
        let rank = sorted.iter().position(|y| *y == x).unwrap();
        (0..=rank).map(|i| sorted[i] * (p.len() - i) as f64).fold(0.0, f64::max)
    };
    for (x, expected) in p.iter().zip(list(fixture, "adjusted")) {
        near(adjusted(*x), expected);
    }
    let around = |mean: f64| [mean - 0.1, mean, mean + 0.1, mean + 0.05, mean - 0.05];
    let (a, b, c) = (around(100.0), around(100.02), around(103.0));
    let wild = [90.0, 110.0, 95.0, 105.0, 101.0];
    let groups = [a, b, c, wild].map(Vec::from).to_vec();
    let found = differences(std::slice::from_ref(&groups), 0.01).remove(0);
    let verdict = |first, second| found.iter().find(|d| (d.first, d.second) == (first, second)).unwrap().verdict;
    assert_eq!(verdict(0, 1), Verdict::Equal);
    assert_eq!(verdict(0, 2), Verdict::Greater);
    assert_eq!(verdict(0, 3), Verdict::CannotBeTold);
    let single: Vec<f64> = found.iter().map(|d| d.difference.p).collect();
    let mut ascending = single.clone();
    ascending.sort_by(f64::total_cmp);
    for pair in &found {
        let rank = ascending.iter().position(|p| *p == pair.difference.p).unwrap();
        let expected = (0..=rank).map(|i| ascending[i] * (single.len() - i) as f64).fold(0.0, f64::max).min(1.0);
        near(pair.p_adjusted, expected);
    }
    // The same, looked at in two quantities: the least probability counts for twelve pairs, not for six.
    let both = differences(&[groups.clone(), groups], 0.01);
    let least = |pairs: &[Difference]| pairs.iter().map(|pair| pair.p_adjusted).fold(1.0, f64::min);
    near(least(&both[0]), 2.0 * least(&found));
    assert_eq!(both[0].len(), both[1].len());
    let unequal = |pairs: &[Difference]| pairs.iter().map(|pair| pair.p_unequal_adjusted).fold(1.0, f64::min);
    near(unequal(&both[0]), 2.0 * unequal(&found));
}

#[test]
fn equal_means_are_compared_and_what_does_not_scatter_is_not() {
    // The same two results in another order: no difference, and none that is shown to be small.
    let found = differences(&[vec![vec![1.0, 2.0], vec![2.0, 1.0]]], 0.05);
    assert_eq!((found[0].len(), found[0][0].verdict), (1, Verdict::CannotBeTold));
    // The same result three times over, whose mean is rounded.
    let once = |x: f64| vec![x; 3];
    assert!(differences(&[vec![once(0.1), once(0.7)]], 0.05)[0].is_empty());
    assert_eq!(bias(&once(0.1), &once(0.7)), None);
    assert!(differences(&[vec![vec![0.0, 0.0], vec![-1.0, 1.0]]], 0.05)[0].iter().all(|d| d.difference.p.is_finite()));
}

#[test]
fn where_too_little_is_known_nothing_is_said() {
    assert_eq!(Summary::of(&[1.0]), None);
    assert_eq!(Summary::of(&[1.0, f64::NAN]), None);
    let level = precision(&[1.0, 1.0], &[1.0, 2.0], 0.05).unwrap();
    assert!(level.ratio.is_none() && level.measured.cv == 0.0 && level.reference.sd > 0.0);
    // Nothing is relative to no time at all.
    assert_eq!(uncertainty(&[0.0, 0.0], &[1.0, 2.0], &[0.1, 0.1]), None);
    let nothing = serde_json::to_string(&Summary::of(&[0.0, 0.0]).unwrap()).unwrap();
    assert!(serde_json::from_str::<Summary>(&nothing).unwrap().cv.is_nan(), "{nothing}");
    assert_eq!(bias(&[1.0, 1.0], &[1.0, 1.0]), None);
    assert_eq!(uncertainty(&[1.0, 2.0], &[1.0], &[0.0]), None);
    assert_eq!(uncertainty(&[1.0, 2.0], &[0.0, 1.0], &[0.0, 0.0]), None);
    assert_eq!(distance(&mut [], &mut [1.0]), None);
    assert_eq!(grubbs(&[1.0, 1.0, 1.0]), None);
    assert_eq!(cochran(&[0.0, 0.0], 3), None);
    assert!(differences(&[vec![vec![1.0], vec![2.0]]], 0.01)[0].is_empty());
}
