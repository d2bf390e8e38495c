//! Every order that a plan permits gives the same: random programs, recorded once and replayed in many orders.
//!
//! A replay at full speed shows one order, mostly the same one. Here the engine's exploring scheduler (`--schedule`)
//! shows many, and of tiny programs all. `REPRISE_SEEDS=FROM..TO` tries other programs, `REPRISE_SEED=N` one,
//! `REPRISE_SCHEDULES=N` more orders of each. A failure names the command that repeats it and leaves its trace on disk.

mod random;

use random::{Case, seeds};

/// An ordering, and whether all orders that it permits must give what the original gave.
struct Ordering {
    name: &'static str,
    is_right: bool,
}

const ORDERINGS: &[Ordering] = &[
    Ordering { name: "root", is_right: true },
    Ordering { name: "root:file=range", is_right: true },
    Ordering { name: "single", is_right: true },
    Ordering { name: "none", is_right: false },
];

const PROGRAMS: std::ops::Range<u64> = 2000..2012;
const SCHEDULES: u64 = 4;

/// Programs so small that every order can be tried.
const TINY: std::ops::Range<u64> = 3000..3040;
const TINY_OPTIONS: &[&str] = &["--never-wait", "--processes", "1", "--ops", "2", "--threads"];
/// Orders of a tiny program beyond which it is too large.
const MOST_ORDERS: usize = 150;
/// Tiny programs that have more than one order, and of which all were tried.
const ENOUGH_TINY: usize = 4;

fn schedules() -> u64 {
    std::env::var("REPRISE_SCHEDULES").ok().and_then(|n| n.parse().ok()).unwrap_or(SCHEDULES)
}

/// Options of a seed's program: two to four threads, one to three processes.
fn options(seed: u64) -> Vec<&'static str> {
    let threads = ["2", "3", "4"][seed as usize % 3];
    let processes = ["1", "2", "3"][seed as usize / 3 % 3];
    vec!["--threads", threads, "--processes", processes, "--ops", "40"]
}

/// The first schedule in which an ordering goes wrong, and how.
fn first_difference(case: &Case, ordering: &Ordering, schedules: impl Iterator<Item = u64>) -> Option<(u64, String)> {
    for schedule in schedules {
        match case.replay_by(ordering.name, Some(&schedule.to_string())) {
            Ok(replayed) if replayed.differences.is_empty() => {}
            Ok(replayed) => return Some((schedule, replayed.differences.join("\n"))),
            Err(e) => return Some((schedule, e)),
        }
    }
    None
}

/// Tries one program; what went wrong. Counts orderings that are wrong, and came out so.
fn explore(seed: u64, wrong_ones_seen: &mut usize) -> Option<String> {
    let case = match Case::record(seed, None, &options(seed)) {
        Ok(case) => case,
        Err(e) => return Some(format!("seed {seed} could not be recorded: {e}")),
    };
    // Other schedules for every program, and all strategies for each.
    let numbers = || (0..schedules()).map(|k| 4 * seed + k);
    for ordering in ORDERINGS {
        let found = first_difference(&case, ordering, numbers());
        match (ordering.is_right, found) {
            (true, Some((schedule, text))) => {
                return Some(format!("{}\n{text}", case.keep(ordering.name, &schedule.to_string())));
            }
            (false, Some(_)) => *wrong_ones_seen += 1,
            (_, None) => {}
        }
    }
    None
}

#[test]
fn every_order_that_is_permitted_gives_the_same() {
    let seeds = seeds(PROGRAMS);
    let mut wrong = 0;
    let failures: Vec<String> = seeds.iter().filter_map(|seed| explore(*seed, &mut wrong)).collect();
    assert!(failures.is_empty(), "{} of {} programs:\n{}", failures.len(), seeds.len(), failures.join("\n\n"));
    // The test can fail: without order something goes wrong.
    assert!(wrong > 0 || seeds.len() < 4, "no program needs any order");
}

/// Goes through the tree of choices, depth first: the number of orders, or `None` if there are too many.
fn all_orders(case: &Case, order: &str) -> Result<Option<usize>, (String, String)> {
    let (mut path, mut tried) = (Vec::new(), 0);
    loop {
        if tried == MOST_ORDERS {
            return Ok(None);
        }
        let text = path.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let schedule = format!("path:{text}");
        let replayed = case.replay_by(order, Some(&schedule)).map_err(|e| (schedule.clone(), e))?;
        if !replayed.differences.is_empty() {
            return Err((schedule, replayed.differences.join("\n")));
        }
        tried += 1;
        let degrees = replayed.degrees;
        path.resize(degrees.len(), 0);
        while path.last().is_some_and(|taken| taken + 1 >= degrees[path.len() - 1]) {
            path.pop();
        }
        match path.last_mut() {
            Some(taken) => *taken += 1,
            None => return Ok(Some(tried)),
        }
    }
}

#[test]
fn all_orders_of_tiny_programs_give_the_same() {
    let (mut whole, mut orders, mut failures) = (0, 0, Vec::new());
    for seed in seeds(TINY) {
        let threads = if seed % 2 == 0 { "2" } else { "3" };
        let case = match Case::record(seed, None, &[TINY_OPTIONS, &[threads]].concat()) {
            Ok(case) => case,
            Err(e) => {
                failures.push(format!("seed {seed} could not be recorded: {e}"));
                continue;
            }
        };
        match all_orders(&case, "root") {
            Ok(Some(tried)) => {
                whole += usize::from(tried > 1);
                orders += tried;
            }
            Ok(None) => {}
            Err((schedule, text)) => failures.push(format!("{}\n{text}", case.keep("root", &schedule))),
        }
        if whole >= ENOUGH_TINY && std::env::var_os("REPRISE_SEEDS").is_none() {
            break;
        }
    }
    println!("{whole} programs, {orders} orders");
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(whole >= ENOUGH_TINY || std::env::var_os("REPRISE_SEED").is_some(), "only {whole} were small enough");
}
