//! The tables, and how each is filled.

mod actions;
mod context;
mod relations;

use std::collections::BTreeSet;

use reprise_model::{Interpretation, Resource, Touch, World, asked_bytes, moved_bytes};
use reprise_plan::graph::edges;
use reprise_trace::{Action, Name, ReadError, Row, TraceReader};
use rusqlite::Connection;

use crate::table::{Filler, Table, TableText};
use crate::{QueryError, Sources};
use actions::{ACTIONS, Known, RESULTS, Replayed};
use context::{
    DESCRIPTORS, DEVICES, ENVIRONMENT, Fact, LEDGER, LOCKS, Lost, MANIFEST, MAPPINGS, PROCESSES, THREADS, TREE,
};
use relations::{EDGES, RESOURCES, Touched};

/// Says whether to stop; asked now and then.
pub type Stop<'a> = &'a dyn Fn() -> bool;

/// All tables.
pub fn texts() -> Vec<TableText> {
    vec![
        ACTIONS.text(),
        RESOURCES.text(),
        EDGES.text(),
        RESULTS.text(),
        THREADS.text(),
        PROCESSES.text(),
        DESCRIPTORS.text(),
        LOCKS.text(),
        MAPPINGS.text(),
        TREE.text(),
        ENVIRONMENT.text(),
        DEVICES.text(),
        LEDGER.text(),
        MANIFEST.text(),
    ]
}

/// The statements that make them.
pub fn declarations() -> Vec<String> {
    vec![
        ACTIONS.declaration(),
        RESOURCES.declaration(),
        EDGES.declaration(),
        RESULTS.declaration(),
        THREADS.declaration(),
        PROCESSES.declaration(),
        DESCRIPTORS.declaration(),
        LOCKS.declaration(),
        MAPPINGS.declaration(),
        TREE.declaration(),
        ENVIRONMENT.declaration(),
        DEVICES.declaration(),
        LEDGER.declaration(),
        MANIFEST.declaration(),
    ]
}

/// Fills the columns that are wanted of one table.
pub fn fill(
    connection: &Connection,
    sources: &Sources<'_>,
    table: &str,
    wanted: &BTreeSet<String>,
    stop: Stop<'_>,
) -> Result<(), QueryError> {
    let trace = sources.trace;
    match table {
        "actions" => fill_actions(&mut ACTIONS.filler(connection, wanted)?, trace, wanted, stop),
        "resources" => fill_resources(&mut RESOURCES.filler(connection, wanted)?, trace, stop),
        "edges" => fill_edges(&mut EDGES.filler(connection, wanted)?, sources),
        "results" => fill_results(&mut RESULTS.filler(connection, wanted)?, sources, stop),
        "threads" => as_they_are(connection, &THREADS, wanted, trace),
        "processes" => as_they_are(connection, &PROCESSES, wanted, trace),
        "descriptors" => as_they_are(connection, &DESCRIPTORS, wanted, trace),
        "locks" => as_they_are(connection, &LOCKS, wanted, trace),
        "mappings" => as_they_are(connection, &MAPPINGS, wanted, trace),
        "tree" => as_they_are(connection, &TREE, wanted, trace),
        "environment" => as_they_are(connection, &ENVIRONMENT, wanted, trace),
        "devices" => as_they_are(connection, &DEVICES, wanted, trace),
        "ledger" => {
            let mut filler = LEDGER.filler(connection, wanted)?;
            Ok(lost(trace).iter().try_for_each(|row| filler.add(row))?)
        }
        "manifest" => {
            let mut filler = MANIFEST.filler(connection, wanted)?;
            Ok(facts(trace).iter().try_for_each(|row| filler.add(row))?)
        }
        // SQLite's own.
        _ => Ok(()),
    }
}

fn as_they_are<R: Row>(
    connection: &Connection,
    table: &Table<R>,
    wanted: &BTreeSet<String>,
    trace: &TraceReader,
) -> Result<(), QueryError> {
    let mut filler = table.filler(connection, wanted)?;
    let (mut rows, mut row) = (trace.rows::<R>(), R::default());
    while rows.read(&mut row)? {
        filler.add(&row)?;
    }
    Ok(())
}

/// Actions asked whether to stop after.
const OFTEN: u64 = 1024;

fn pause(done: u64, stop: Stop<'_>) -> Result<(), QueryError> {
    if done.is_multiple_of(OFTEN) && stop() { Err(QueryError::Interrupted) } else { Ok(()) }
}

fn fill_actions(
    filler: &mut Filler<'_, Known>,
    trace: &TraceReader,
    wanted: &BTreeSet<String>,
    stop: Stop<'_>,
) -> Result<(), QueryError> {
    // Following costs more than reading: only where it is asked for.
    let followed = Known::FOLLOWED.iter().any(|column| wanted.contains(*column));
    let mut world = followed.then(|| World::begin(trace, false)).transpose()?;
    let (mut blobs, mut found) = (trace.blobs(), Interpretation::default());
    let (mut rows, mut known, mut done) = (trace.actions(), Known::default(), 0);
    while rows.read(&mut known.action)? {
        let call = reprise_calls::by_name(&known.action.call);
        (known.file, known.file_id, known.offset) = (None, None, None);
        known.asked = call.and_then(|call| asked_bytes(call, &known.action));
        known.moved = call.and_then(|call| moved_bytes(call, &known.action));
        if let (Some(world), Some(call)) = (&mut world, call) {
            known.file = world.concerned_path(call, &known.action).map(|path| Name(path).to_text());
            world.follow_into(call, &known.action, &mut blobs, &mut found)?;
            place(&mut known, &found);
        }
        filler.add(&known)?;
        done += 1;
        pause(done, stop)?;
    }
    Ok(())
}

/// The file that an action moved content of, and where in it.
fn place(known: &mut Known, found: &Interpretation) {
    for (resource, touch) in &found.touches {
        if let (Resource::Content(node), Touch::Read(from, to) | Touch::Write(from, to)) = (resource, touch) {
            known.file_id = Some(u64::from(*node));
            // Whoever writes beyond the end changes what lies between, too.
            let begin = |moved: u64| if *to == u64::MAX { *from } else { to.saturating_sub(moved) };
            known.offset = known.moved.filter(|bytes| *bytes > 0).map(begin);
            return;
        }
    }
}

fn fill_resources(filler: &mut Filler<'_, Touched>, trace: &TraceReader, stop: Stop<'_>) -> Result<(), QueryError> {
    let mut world = World::begin(trace, false)?;
    let (mut blobs, mut found) = (trace.blobs(), Interpretation::default());
    let (mut rows, mut action, mut done) = (trace.actions(), Action::default(), 0);
    while rows.read(&mut action)? {
        if let Some(call) = reprise_calls::by_name(&action.call) {
            world.follow_into(call, &action, &mut blobs, &mut found)?;
            for (resource, touch) in &found.touches {
                let (seq, thread) = (action.seq, action.thread);
                filler.add(&Touched { seq, thread, resource: *resource, touch: *touch })?;
            }
        }
        done += 1;
        pause(done, stop)?;
    }
    Ok(())
}

fn fill_edges(filler: &mut Filler<'_, reprise_plan::graph::Arc>, sources: &Sources<'_>) -> Result<(), QueryError> {
    let mut failed = None;
    edges(sources.trace, sources.order, &mut |arc| {
        if failed.is_none() {
            failed = filler.add(&arc).err();
        }
    })?;
    failed.map_or(Ok(()), |e| Err(e.into()))
}

fn fill_results(filler: &mut Filler<'_, Replayed>, sources: &Sources<'_>, stop: Stop<'_>) -> Result<(), QueryError> {
    for (i, result) in sources.results.iter().enumerate() {
        let (mut rows, mut done) = (result.actions(), 0);
        let mut row = Replayed { run: i as u64 + 1, action: Action::default() };
        while rows.read(&mut row.action)? {
            filler.add(&row)?;
            done += 1;
            pause(done, stop)?;
        }
    }
    Ok(())
}

fn lost(trace: &TraceReader) -> Vec<Lost> {
    let ledger = trace.ledger();
    let losses = ledger.losses.iter().flat_map(|(word, causes)| {
        causes.iter().map(|(cause, entry)| Lost {
            word: word.word(),
            cause: cause.clone(),
            count: entry.count,
            bytes: entry.bytes,
            first: entry.first,
        })
    });
    let note = |(cause, count): (&String, &u64)| Lost {
        word: "note",
        cause: cause.clone(),
        count: *count,
        bytes: 0,
        first: None,
    };
    losses.chain(ledger.notes.iter().map(note)).collect()
}

fn facts(trace: &TraceReader) -> Vec<Fact> {
    let m = trace.manifest();
    let own = [
        ("id", m.id.clone()),
        ("writer", m.writer.clone()),
        ("format", format!("{}.{}", m.major, m.minor)),
        ("origin", m.origin.clone().unwrap_or_default()),
        ("command", m.command.join(" ")),
        ("started_ns", m.started_ns.to_string()),
        ("host", m.host.name.clone()),
        ("kernel", m.host.kernel.clone()),
        ("processors", m.host.processors.to_string()),
        ("complete", u8::from(m.complete).to_string()),
    ];
    let own = own.into_iter().map(|(name, value)| Fact { name: name.to_owned(), value });
    own.chain(m.facts.iter().map(|(name, value)| Fact { name: name.clone(), value: value.clone() })).collect()
}

impl From<ReadError> for QueryError {
    fn from(error: ReadError) -> Self {
        QueryError::Read(error)
    }
}
