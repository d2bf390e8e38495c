//! `reprise report`: what stands in the file, and what a browser makes of it.

mod means;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use means::{has, mkdir, record, run};
use reprise_testkit::scratch::Scratch;
use reprise_testkit::{program, skip};
use reprise_trace::{Action, TraceReader};
use serde_json::Value;

/// Names that would be markup, if they were not text.
const PROGRAM: &str = "mkdir -p 'a</script><img src=x onerror=hostile()>'; cd a*/*; \
    for i in 1 2 3 4 5; do (echo hello > f$i; cat f1 > g$i; sync f1) & done; wait; cat f* missing '<b>' 2> /dev/null > all; true";

fn reported(dir: &Path) -> (PathBuf, PathBuf, PathBuf) {
    let trace = record(dir, "t.reprise", PROGRAM);
    let target = mkdir(dir, "target");
    let said = run(dir, &["replay", "-q", "--pace", "natural", "--target", &target, "-o", "r.reprise", "t.reprise"]);
    said.ends(0);
    let said = run(dir, &["report", "t.reprise", "r.reprise", "-o", "report.html"]);
    assert!(said.ends(0).out.starts_with("The replay did the same: "), "{said:#?}");
    (trace, dir.join("r.reprise"), dir.join("report.html"))
}

fn data(html: &str) -> Value {
    let (_, rest) = html.split_once("<script type=\"application/json\" id=\"data\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

/// Actions by call of those numbers that the replay issued.
fn counted(trace: &Path, issued: &dyn Fn(&Action) -> bool) -> BTreeMap<String, (u64, u64)> {
    let mut out: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for action in TraceReader::open(trace).unwrap().actions().map(Result::unwrap).filter(issued) {
        let call = reprise_calls::by_name(&action.call).unwrap();
        if call.category() != reprise_calls::Category::Process && !call.is_pseudo() {
            let (count, total) = out.entry(action.call.into_owned()).or_default();
            (*count, *total) = (*count + 1, *total + action.duration_ns);
        }
    }
    out
}

#[test]
fn the_numbers_are_those_of_the_traces() {
    let s = Scratch::new();
    let (trace, result, file) = reported(s.path());
    let data = data(&fs::read_to_string(file).unwrap());
    let replayed: Vec<Action> = TraceReader::open(&result).unwrap().actions().map(Result::unwrap).collect();
    let issued: std::collections::BTreeSet<u64> =
        replayed.iter().filter(|a| a.handling.as_deref() == Some("issued")).filter_map(|a| a.origin).collect();
    let sides = data["sides"].as_array().unwrap();
    let expected = [
        counted(&trace, &|a| issued.contains(&a.seq)),
        counted(&result, &|a| a.origin.is_some_and(|seq| issued.contains(&seq))),
    ];
    for (side, expected) in sides.iter().zip(expected) {
        let calls = side["calls"].as_array().unwrap();
        let found: BTreeMap<String, (u64, u64)> = calls
            .iter()
            .map(|c| {
                let times = &c["times"];
                let numbers = (times["count"].as_u64().unwrap(), times["total_ns"].as_u64().unwrap());
                (c["call"].as_str().unwrap().to_owned(), numbers)
            })
            .collect();
        assert_eq!(found, expected);
        let binned =
            |call: &Value| call["bins"].as_array().unwrap().iter().map(|b| b[1].as_u64().unwrap()).sum::<u64>();
        let compared = side["compared"].as_u64().unwrap();
        assert_eq!(calls.iter().map(binned).sum::<u64>(), compared);
        let course = side["course"]["calls"].as_array().unwrap();
        assert_eq!(course.iter().map(|n| n.as_u64().unwrap()).sum::<u64>(), compared);
        let spans = &side["spans"];
        assert_eq!(
            spans["count"].as_u64().unwrap() + spans["left_out"].as_u64().unwrap(),
            side["actions"].as_u64().unwrap()
        );
    }
    assert_eq!(sides.len(), 2);
    // Threads are called by what they execute, not by who started them.
    for side in sides {
        let names: Vec<&str> =
            side["threads"].as_array().unwrap().iter().map(|thread| thread["name"].as_str().unwrap()).collect();
        assert!(names.contains(&"sync") && !names.contains(&"reprise"), "{names:?}");
    }
}

#[test]
fn the_file_stands_alone_and_names_are_no_markup() {
    let s = Scratch::new();
    let (_, _, file) = reported(s.path());
    let html = fs::read_to_string(file).unwrap();
    for link in ["src=\"", "href=\"http", "url(", "import ", "fetch("] {
        assert!(!html.contains(link), "{link}");
    }
    assert!(html.contains("default-src 'none'"));
    assert!(!html.contains("<img") && !html.contains("</script><img"));
    assert!(html.contains("\\u003c/script>\\u003cimg"), "the name is in the data");
}

/// Runs before the report's own script: notes every error.
const WATCH: &str = "<script>var errors = []; window.onerror = m => { errors.push(String(m)); }; \
    console.error = (...m) => errors.push(m.join(' ')); function hostile() { errors.push('hostile script ran'); }</script>";

/// Runs after it: what is drawn, and whether zooming works.
const ASK: &str = "<script>\
    const canvas = document.querySelector('[data-plot=timeline] canvas'); \
    const view = () => { canvas.draw(); return [+canvas.dataset.from, +canvas.dataset.to]; }; \
    const press = key => { canvas.dispatchEvent(new KeyboardEvent('keydown', { key, cancelable: true })); return view(); }; \
    const answer = { errors, whole: view(), zoomed: press('+'), panned: press('ArrowRight'), all: press('0') }; \
    const wheel = ctrlKey => { canvas.dispatchEvent(new WheelEvent('wheel', { ctrlKey, deltaY: -100, clientX: 400, cancelable: true })); return view(); }; \
    answer.scrolled = wheel(false); answer.wheel = wheel(true); \
    const pixels = c => new Set(new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer)).size; \
    answer.colours = [...document.querySelectorAll('canvas')].map(pixels); \
    answer.plots = [...document.querySelectorAll('[data-plot]')].map(e => e.dataset.plot); \
    answer.rows = [...document.querySelectorAll('figure')].map(f => csv(f.rows()).split('\\r\\n').length - 2); \
    answer.lines = [...document.querySelectorAll('svg .line')].map(e => e.getAttribute('d')); \
    answer.ticks = { near: [0, 1, 2].map(i => exact(1.07e9 + i * 1000, 1000)), decade: logTicks(2.9e3, 4.5e3), nothing: sizeTicks(0, 1, 4) }; \
    answer.legends = document.querySelectorAll('section .legend:not(.blocks)').length; \
    answer.ready = document.documentElement.dataset.ready; \
    document.body.innerHTML = ''; \
    const pre = document.createElement('pre'); pre.id = 'answer'; pre.textContent = JSON.stringify(answer); document.body.append(pre);\
    </script>";

/// What a headless Chromium finds in a report; `None` where there is none.
fn browsed(dir: &Path, html: &str) -> Option<Value> {
    if !has("chromium") {
        return None;
    }
    let (before, after) = html.split_once("<body>").unwrap();
    let (body, _) = after.rsplit_once("</body>").unwrap();
    let page = dir.join("browsed.html");
    fs::write(&page, format!("{before}<body>{WATCH}{body}{ASK}</body></html>")).unwrap();
    let profile = format!("--user-data-dir={}", dir.join("profile").display());
    let mut command = Command::new("timeout");
    command
        .args(["120", "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"])
        .args(["--no-first-run", &profile, "--window-size=1280,900", "--virtual-time-budget=5000", "--dump-dom"])
        .arg(format!("file://{}", page.display()));
    let output = program::run(&mut command);
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    let (_, rest) = dom.split_once("<pre id=\"answer\">").unwrap_or_else(|| panic!("{output:?}"));
    let text = rest.split_once("</pre>").unwrap().0;
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    Some(serde_json::from_str(&text).unwrap())
}

#[test]
fn a_browser_draws_every_plot_and_zooms() {
    const NAME: &str = "a_browser_draws_every_plot_and_zooms";
    let s = Scratch::new();
    let (_, _, file) = reported(s.path());
    let Some(found) = browsed(s.path(), &fs::read_to_string(file).unwrap()) else {
        return skip(NAME, "no chromium: `scripts/install-deps report` installs it");
    };
    assert_eq!(found["errors"], Value::Array(vec![]), "{found:#}");
    assert_eq!(found["ready"], "true");
    let plots: Vec<&str> = found["plots"].as_array().unwrap().iter().map(|p| p.as_str().unwrap()).collect();
    for wanted in [
        "summary",
        "response-openat",
        "response-table",
        "latency-t",
        "latency-r",
        "calls-per-second",
        "read-per-second",
        "written-per-second",
        "in-flight",
        "in-flight-share",
        "issue-error",
        "waits",
        "punctuality",
        "space",
        "timeline",
        "threads-t",
        "threads-r",
        "files-t",
        "files-r",
        "directories-r",
        "read-sizes",
        "write-sizes",
    ] {
        assert!(plots.contains(&wanted), "no {wanted} in {plots:?}");
    }
    let numbers =
        |name: &str| found[name].as_array().unwrap().iter().map(|n| n.as_f64().unwrap()).collect::<Vec<f64>>();
    let (whole, zoomed, panned, wheel) = (numbers("whole"), numbers("zoomed"), numbers("panned"), numbers("wheel"));
    let span = |view: &[f64]| view[1] - view[0];
    assert!((span(&zoomed) / span(&whole) - 0.6).abs() < 1e-6, "{whole:?} {zoomed:?}");
    assert!((span(&panned) / span(&zoomed) - 1.0).abs() < 1e-6 && panned[0] > zoomed[0]);
    assert_eq!(numbers("all"), whole);
    assert_eq!(numbers("scrolled"), whole, "without Ctrl or focus the page scrolls");
    assert!((span(&wheel) / span(&whole) - 0.8).abs() < 1e-6, "{wheel:?}");
    assert!(numbers("colours").iter().all(|n| *n > 3.0), "an empty canvas: {}", found["colours"]);
    assert!(numbers("rows").iter().all(|n| *n >= 1.0), "a plot without data: {}", found["rows"]);
    let ticks = &found["ticks"];
    assert_eq!(ticks["near"], serde_json::json!(["1.070000 s", "1.070001 s", "1.070002 s"]));
    assert!(ticks["decade"].as_array().unwrap().len() > 2, "{ticks}");
    assert_eq!(ticks["nothing"], serde_json::json!([0, 1]));
    assert!(found["legends"].as_u64() >= Some(6), "{}", found["legends"]);
    for line in found["lines"].as_array().unwrap() {
        let line = line.as_str().unwrap();
        assert!(line.len() > 12, "a point alone is not drawn: {line}");
        assert!(line.starts_with('M') && !line.contains("NaN") && !line.contains("Infinity"), "{line}");
    }
}

#[test]
fn a_browser_draws_several_beside_each_other() {
    const NAME: &str = "a_browser_draws_several_beside_each_other";
    let s = Scratch::new();
    let dir = s.path();
    reported(dir);
    let target = mkdir(dir, "another");
    run(dir, &["replay", "-q", "--pace", "natural", "--target", &target, "-o", "again.reprise", "t.reprise"]).ends(0);
    for traces in [&["r.reprise", "again.reprise"][..], &["one=r.reprise", "two=again.reprise"]] {
        run(dir, &[&["report", "t.reprise"], traces].concat()).ends(0);
        let Some(found) = browsed(dir, &fs::read_to_string(dir.join("report.html")).unwrap()) else {
            return skip(NAME, "no chromium: `scripts/install-deps report` installs it");
        };
        assert_eq!(found["errors"], Value::Array(vec![]), "{found:#}");
        let plots = found["plots"].as_array().unwrap();
        assert!(
            ["beside-elapsed", "beside-table"].iter().all(|wanted| plots.contains(&Value::from(*wanted))),
            "{plots:?}"
        );
        let rows = found["rows"].as_array().unwrap();
        assert!(rows.iter().all(|n| n.as_f64().unwrap() >= 1.0), "a plot without data: {rows:?}");
    }
}

/// A log of calls of which the third cannot go as it says.
const DIVERGING: &str = "\
7 1700000001.000000 openat(AT_FDCWD, \"/x/f\", O_RDWR|O_CREAT, 0644) = 3 <0.000010>
7 1700000001.001000 write(3, \"abc\", 3) = 3 <0.000010>
7 1700000001.002000 lseek(3, 5, SEEK_SET) = 7 <0.000010>
7 1700000001.003000 write(3, \"abc\", 3) = 3 <0.000010>
7 1700000002.000000 close(3) = 0 <0.000010>
7 1700000002.001000 exit_group(0) = ?
";

#[test]
fn what_diverged_and_what_ended_early_is_told() {
    let s = Scratch::new();
    let dir = s.path();
    fs::write(dir.join("x.log"), DIVERGING).unwrap();
    run(dir, &["import", "-q", "x.log", "-o", "t.reprise"]).ends(0);
    for (name, check) in [("warn", "warn"), ("abort", "abort")] {
        let target = mkdir(dir, name);
        let output = format!("{name}.reprise");
        run(dir, &["replay", "-q", "--verify", check, "--target", &target, "-o", &output, "t.reprise"]).ends(1);
    }
    let warned = run(dir, &["report", "t.reprise", "warn.reprise"]);
    assert!(warned.ends(0).out.starts_with("The replay went differently: 1 of 6 actions diverged."), "{warned:#?}");
    let warned = data(&fs::read_to_string(dir.join("report.html")).unwrap());
    let row = &warned["sides"][1]["divergences"]["rows"][0];
    assert_eq!((&row["call"], &row["file"], &row["first"]), (&"lseek".into(), &"/x/f".into(), &2.into()), "{row}");
    assert_eq!(warned["sides"][1]["lost"][0]["word"], "diverged");
    let aborted = run(dir, &["report", "t.reprise", "abort.reprise"]);
    let words = "The replay ended early (ended at the first divergence), after 50 %: 3 of 6 actions, 1 diverged.";
    assert!(aborted.ends(0).out.starts_with(words), "{aborted:#?}");
    let html = fs::read_to_string(dir.join("report.html")).unwrap();
    let aborted = data(&html);
    assert_eq!(aborted["verdict"]["good"], false);
    // Compared with what the original did until there.
    assert!(aborted["sides"][0]["reached_ns"].as_u64() < Some(10_000_000), "{}", aborted["sides"][0]["reached_ns"]);
    let both = run(dir, &["report", "t.reprise", "warn.reprise", "abort.reprise"]);
    assert!(both.ends(0).out.contains("abort ended early"), "{both:#?}");
    assert!(run(dir, &["info", "abort.reprise"]).ends(0).out.contains("no: the replay ended early"));
    if let Some(found) = browsed(dir, &html) {
        assert_eq!(found["errors"], Value::Array(vec![]), "{found:#}");
        assert!(found["plots"].as_array().unwrap().contains(&"diverged".into()), "{found:#}");
    }
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let s = Scratch::new();
    let dir = s.path();
    record(dir, "t.reprise", "true");
    record(dir, "u.reprise", "true");
    run(dir, &["report", "t.reprise", "u.reprise"]).fails(2, &["second recording"]);
    run(dir, &["report", "none.reprise"]).ends(3);
    let target = mkdir(dir, "target");
    run(dir, &["replay", "-q", "--target", &target, "-o", "r.reprise", "t.reprise"]).ends(0);
    means::copy(&dir.join("r.reprise"), &dir.join("copied.reprise"));
    run(dir, &["report", "t.reprise", "r.reprise", "copied.reprise"]).fails(2, &["the same result"]);
    run(dir, &["report", "t.reprise", "-o", "none/x.html"]).fails(8, &["-o"]);
    assert!(!dir.join("report.html").exists());
    let streamed = run(dir, &["report", "t.reprise", "-o", "-"]);
    assert!(streamed.ends(0).out.starts_with("<!doctype html>") && !dir.join("-").exists());
    let told = run(dir, &["report", "t.reprise", "--json"]).ends(0).json();
    assert!(told["verdict"]["text"].as_str().unwrap().contains("1 thread in "), "{told:#}");
    assert!(told["sides"][0]["calls"].is_array() && told["sides"][0]["spans"].is_null());
    let alone = run(dir, &["report", "t.reprise"]);
    assert!(alone.ends(0).out.contains("actions of 1 thread in "), "{alone:#?}");
    if let Some(found) = browsed(dir, &fs::read_to_string(dir.join("report.html")).unwrap()) {
        assert_eq!(found["errors"], Value::Array(vec![]), "{found:#}");
    }
}
