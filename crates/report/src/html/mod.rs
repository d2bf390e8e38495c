//! A report as one file for browsers: verdict, plots and tables of a recording and of replays of it.
//!
//! Goals: no network, no framework; light and dark, by keyboard, on paper; every plot's data one click away; whatever a trace
//! says is text and never markup. One pass over each trace, in memory that grows with its files and calls; what is embedded is
//! binned, and of spans at most 300,000, the long ones all. Non-goals: what the numbers mean for a decision.

mod bins;
mod chosen;
mod facts;
mod files;
mod groups;
mod hot;
mod losses;
mod over_time;
mod punctual;
mod side;
mod space;
mod spans;
mod verdict;

use reprise_calls::Category;
use reprise_trace::{Kind, ReadError, TraceReader};
use reprise_validate::Known;
use serde::Serialize;

use chosen::Chosen;
use files::Files;
use groups::Beside;
use side::Side;
use verdict::{Verdict, verdict};

/// Version of what is embedded: scripts that read reports go by it.
const SCHEMA: u32 = 3;

const STYLE: &str = include_str!("page/report.css");
const BODY: &str = include_str!("page/body.html");
/// In the order in which they build upon each other.
const SCRIPTS: [&str; 8] = [
    include_str!("page/units.js"),
    include_str!("page/elements.js"),
    include_str!("page/lines.js"),
    include_str!("page/bars.js"),
    include_str!("page/intervals.js"),
    include_str!("page/timeline.js"),
    include_str!("page/beside.js"),
    include_str!("page/sections.js"),
];

#[derive(Serialize)]
struct Document {
    schema: u32,
    writer: &'static str,
    title: String,
    verdict: Verdict,
    categories: Vec<&'static str>,
    calls: Vec<String>,
    /// For each call its place in `categories`.
    call_kinds: Vec<usize>,
    sides: Vec<Side>,
    /// Several replays beside each other.
    beside: Option<Beside>,
}

/// A trace for a report.
pub struct Given<'a> {
    /// What it is called.
    pub name: String,
    /// Replays of the same group are replications of each other; without one, those with the same settings are.
    pub group: Option<String>,
    /// It.
    pub trace: &'a TraceReader,
    /// What validations found of replays on its machine.
    pub known: Vec<Known>,
}

/// A finished report.
pub struct Report(Document);

impl Report {
    /// The file.
    pub fn html(&self) -> String {
        page(&self.0)
    }

    /// The sentence at its top.
    pub fn verdict(&self) -> &str {
        &self.0.verdict.text
    }

    /// Its verdict and numbers for programs: what the file embeds but the spans of the timelines.
    pub fn json(&self) -> serde_json::Value {
        let mut all = serde_json::to_value(&self.0).unwrap_or_default();
        let sides = all.get_mut("sides").and_then(|sides| sides.as_array_mut());
        for side in sides.into_iter().flatten().filter_map(|side| side.as_object_mut()) {
            side.remove("spans");
        }
        all
    }
}

/// A report of traces: at most one recording, and any number of replays of it.
///
/// # Errors
/// A trace cannot be read.
pub fn report(traces: &[Given<'_>]) -> Result<Report, ReadError> {
    let is_replay = |given: &&Given<'_>| given.trace.manifest().kind == Kind::Replay;
    let results: Vec<&TraceReader> = traces.iter().filter(is_replay).map(|given| given.trace).collect();
    let chosen = Chosen::by_all(&results)?;
    let mut calls = Vec::new();
    let (mut sides, mut files) = (Vec::new(), Files::default());
    let mut sorted: Vec<&Given<'_>> = traces.iter().collect();
    sorted.sort_by_key(|given| is_replay(given));
    for given in &sorted {
        sides.push(side::side(given, &chosen, &mut calls, &mut files)?);
    }
    let given_groups: Vec<Option<String>> = sorted.iter().map(|given| given.group.clone()).collect();
    let beside = groups::beside(&sides, &given_groups);
    let verdict = verdict(&sides, beside.as_ref());
    let command = traces.first().map(|given| given.trace.manifest().command.join(" ")).unwrap_or_default();
    Ok(Report(Document {
        schema: SCHEMA,
        writer: concat!("reprise ", env!("CARGO_PKG_VERSION")),
        title: command,
        verdict,
        categories: Category::ALL.iter().map(|c| c.word()).collect(),
        call_kinds: calls.iter().map(|call| kind(call)).collect(),
        calls,
        sides,
        beside,
    }))
}

fn kind(call: &str) -> usize {
    reprise_calls::by_name(call).map_or(Category::Other, |call| call.category()) as usize
}

fn page(document: &Document) -> String {
    let title = markup(&document.title);
    // Numbers and strings alone: nothing in it can fail to serialize.
    let data = serde_json::to_string(document).unwrap_or_default().replace('<', "\\u003c");
    let script = SCRIPTS.concat();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'; img-src data: blob:\">\n\
         <title>{title} – Reprise</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{BODY}\
         <script type=\"application/json\" id=\"data\">{data}</script>\n<script>\n'use strict';\n{script}</script>\n</body>\n</html>\n"
    )
}

fn markup(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars().take(200) {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
