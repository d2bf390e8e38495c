//! Trace events in JSON (the "Trace Event Format"), which Perfetto and Chrome open: threads as tracks, actions as spans, what a
//! replay waited for as spans before them, samples of the environment as counters, dependencies as arrows.
//!
//! A trace alone shows its processes; a replay beside its original shows the two as two processes, aligned at their first actions.

use std::collections::HashMap;
use std::io::{self, Write};

use reprise_calls::Category;
use reprise_plan::graph::edges;
use reprise_plan::{Order, graph::Arc};
use reprise_trace::{Action, Environment, ThreadRow, TraceReader};

use super::{ExportError, Exported, Request, each, moved};
use crate::cat::quote::quote;
use crate::executed::executed;

/// Numbers of threads of a replay begin here: a number must not stand for two tracks.
const REPLAYED: u64 = 1_000_000_000;

pub(super) fn write(
    request: &Request<'_>,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Exported, ExportError> {
    let mut events = Events { out, any: false };
    events.out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")?;
    let mut exported = Exported::default();
    let sides = sides(request)?;
    for side in &sides {
        side.names(&mut events)?;
        exported.actions += side.actions(&mut events, progress)?;
        side.counters(&mut events)?;
    }
    if let (Some(order), Some(side)) = (request.arrows, sides.first()) {
        side.arrows(order, &mut events)?;
    }
    events.out.write_all(b"\n]}\n")?;
    Ok(exported)
}

fn sides<'a>(request: &Request<'a>) -> Result<Vec<Side<'a>>, ExportError> {
    let Some(original) = request.original else { return Ok(vec![Side::new(request.trace, None, 0)?]) };
    let begin = |trace: &TraceReader| trace.actions().next().transpose().map(|a| a.map_or(0, |a| a.begin_ns));
    let (theirs, own) = (begin(original)?, begin(request.trace)?);
    let later = theirs.max(own);
    Ok(vec![
        Side::new(original, Some(("original", 1, 0)), later - theirs)?,
        Side::new(request.trace, Some(("replay", 2, REPLAYED)), later - own)?,
    ])
}

/// One trace in the picture.
struct Side<'a> {
    trace: &'a TraceReader,
    threads: HashMap<u32, ThreadRow>,
    /// Set where the whole trace is one process: its name, its number, and what its threads' numbers begin with.
    whole: Option<(&'static str, u64, u64)>,
    shift_ns: u64,
}

impl<'a> Side<'a> {
    fn new(
        trace: &'a TraceReader,
        whole: Option<(&'static str, u64, u64)>,
        shift_ns: u64,
    ) -> Result<Side<'a>, ExportError> {
        let threads = trace.threads()?.into_iter().map(|t| (t.thread, t)).collect();
        Ok(Side { trace, threads, whole, shift_ns })
    }

    /// Process and thread of a track, as JSON members.
    fn track(&self, thread: u32) -> String {
        let (pid, first) = match self.whole {
            Some((_, pid, first)) => (pid, first),
            None => (self.threads.get(&thread).map_or(0, |t| u64::from(t.process)) + 1, 0),
        };
        format!("\"pid\":{pid},\"tid\":{}", first + u64::from(thread) + 1)
    }

    fn names(&self, events: &mut Events<'_>) -> Result<(), ExportError> {
        match self.whole {
            Some((name, pid, _)) => {
                let text = format!("{name}: {}", self.trace.manifest().command.join(" "));
                events.name("process_name", &format!("\"pid\":{pid}"), &text)?;
            }
            None => {
                for process in self.trace.process_rows() {
                    let process = process?;
                    let text = format!("{} (pid {})", process.executable.to_text(), process.pid);
                    events.name("process_name", &format!("\"pid\":{}", u64::from(process.process) + 1), &text)?;
                }
            }
        }
        let mut threads: Vec<&ThreadRow> = self.threads.values().collect();
        threads.sort_by_key(|t| t.thread);
        for thread in threads {
            let text = match thread.lane_of {
                Some(of) => format!("T{} requests of T{of}", thread.thread),
                None => format!("T{} {}", thread.thread, thread.name.to_text()),
            };
            events.name("thread_name", &self.track(thread.thread), &text)?;
        }
        Ok(())
    }

    fn actions(&self, events: &mut Events<'_>, progress: &mut dyn FnMut(u64, u64)) -> Result<u64, ExportError> {
        let mut ends: HashMap<u32, u64> = HashMap::new();
        each(self.trace, progress, &mut |action, file| {
            let track = self.track(action.thread);
            let end = ends.entry(action.thread).or_default();
            // What a thread did before the action: it waited for others, then for the pace.
            let paced_from = action.begin_ns.saturating_sub(action.paced_ns.unwrap_or(0)).max(*end);
            let waited_from = paced_from.saturating_sub(action.waited_ns.unwrap_or(0)).max(*end);
            let rule = action.waited_for.as_deref().unwrap_or("unknown");
            self.span(events, &track, ("wait", &format!("wait: {rule}")), (waited_from, paced_from), "")?;
            self.span(events, &track, ("pace", "pace"), (paced_from, action.begin_ns), "")?;
            *end = (*end).max(action.end_ns());
            // The last name of a track holds.
            if let Some(program) = executed(action) {
                events.name("thread_name", &track, &format!("T{} {program}", action.thread))?;
            }
            let category = reprise_calls::by_name(&action.call).map_or(Category::Other, |c| c.category());
            let facts = facts(action, file.as_deref());
            let names = (category.word(), &*action.call);
            Ok(events.span(&track, names, self.at(action.begin_ns), action.duration_ns, &facts)?)
        })
    }

    /// A span of what is no action; one without length is left out.
    fn span(
        &self,
        events: &mut Events<'_>,
        track: &str,
        names: (&str, &str),
        (from, to): (u64, u64),
        facts: &str,
    ) -> Result<(), ExportError> {
        match to.checked_sub(from) {
            None | Some(0) => Ok(()),
            Some(length) => Ok(events.span(track, names, self.at(from), length, facts)?),
        }
    }

    fn at(&self, ns: u64) -> u64 {
        ns.saturating_add(self.shift_ns)
    }

    fn counters(&self, events: &mut Events<'_>) -> Result<(), ExportError> {
        let pid = self.whole.map_or(1, |(_, pid, _)| pid);
        for sample in self.trace.rows::<Environment>() {
            let sample = sample?;
            let values = [
                ("dirty", sample.dirty_bytes),
                ("being written", sample.writeback_bytes),
                ("page cache", sample.cached_bytes),
            ];
            for (name, bytes) in values {
                let at = micro(self.at(sample.time_ns));
                events.one(&format!(
                    "{{\"ph\":\"C\",\"pid\":{pid},\"ts\":{at},\"name\":\"{name}\",\"args\":{{\"bytes\":{bytes}}}}}"
                ))?;
            }
        }
        Ok(())
    }

    fn arrows(&self, order: Order, events: &mut Events<'_>) -> Result<(), ExportError> {
        let (mut id, mut failed) = (0u64, None);
        edges(self.trace, order, &mut |arc| {
            id += 1;
            failed = failed.take().or(self.arrow(events, id, &arc).err());
        })
        .map_err(ExportError::Order)?;
        failed.map_or(Ok(()), |e| Err(e.into()))
    }

    /// From inside the span that is waited for to the begin of the one that waits; into it, if they overlapped. Never back in time:
    /// such arrows are not drawn.
    fn arrow(&self, events: &mut Events<'_>, id: u64, arc: &Arc) -> io::Result<()> {
        let from_ns = arc.from_end_ns.saturating_sub(1).min(arc.to_end_ns);
        let ends = [("s", arc.from_thread, from_ns), ("f\",\"bp\":\"e", arc.to_thread, arc.to_begin_ns.max(from_ns))];
        for (phase, thread, ns) in ends {
            let (track, at, rule) = (self.track(thread), micro(self.at(ns)), arc.rule);
            events.one(&format!(
                "{{\"ph\":\"{phase}\",\"id\":{id},{track},\"ts\":{at},\"cat\":\"order\",\"name\":\"{rule}\"}}"
            ))?;
        }
        Ok(())
    }
}

/// What a click on a span shows, as JSON members.
fn facts(action: &Action, file: Option<&str>) -> String {
    let mut out = format!("\"seq\":{},\"result\":{}", action.seq, action.result);
    let texts = [
        ("file", file),
        ("errno", action.errno.as_deref()),
        ("handling", action.handling.as_deref()),
        ("difference", action.difference.as_deref()),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            out += &format!(",\"{name}\":{}", string(text));
        }
    }
    let numbers = [("bytes", Some(moved(action)).filter(|n| *n > 0)), ("origin", action.origin)];
    for (name, number) in numbers {
        if let Some(number) = number {
            out += &format!(",\"{name}\":{number}");
        }
    }
    if let Some(path) = &action.path2 {
        out += &format!(",\"path2\":{}", string(&quote(path)));
    }
    out
}

/// The events, separated by commas.
struct Events<'a> {
    out: &'a mut dyn Write,
    any: bool,
}

impl Events<'_> {
    fn one(&mut self, event: &str) -> io::Result<()> {
        if self.any {
            self.out.write_all(b",\n")?;
        }
        self.any = true;
        self.out.write_all(event.as_bytes())
    }

    fn name(&mut self, kind: &str, track: &str, text: &str) -> io::Result<()> {
        let text = string(text);
        self.one(&format!("{{\"ph\":\"M\",{track},\"name\":\"{kind}\",\"args\":{{\"name\":{text}}}}}"))
    }

    fn span(&mut self, track: &str, names: (&str, &str), ns: u64, length_ns: u64, facts: &str) -> io::Result<()> {
        let (category, name) = names;
        let (at, length, name) = (micro(ns), micro(length_ns), string(name));
        self.one(&format!(
            "{{\"ph\":\"X\",{track},\"ts\":{at},\"dur\":{length},\"cat\":\"{category}\",\"name\":{name},\"args\":{{{facts}}}}}"
        ))
    }
}

/// Microseconds with three decimals: what the format counts in.
fn micro(ns: u64) -> String {
    format!("{}.{:03}", ns / 1_000, ns % 1_000)
}

fn string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
