//! SQL over a trace: actions, resources, edges and results as tables, with views for common questions (`docs/SQL.md`).
//!
//! Goals: any question in one line; only what the query names is read from the trace, column by column; memory that does not
//! grow with the trace (what is read goes to a temporary database); a query can be interrupted and changes nothing.
//! Non-goals: judging; speed of a database that is loaded once and asked for years (DuckDB reads the Parquet files as they are).
//!
//! SQLite asks, while it prepares a query, whether each column may be read: that is how it is known which tables to fill.
//! Tables are filled rather than virtual since a join then has keys to go by, and since no unsafe code is needed.

mod error;
mod quantile;
mod table;
mod tables;
mod views;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use reprise_plan::Order;
use reprise_trace::TraceReader;
use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::{Batch, Connection, Statement};

pub use error::QueryError;
pub use rusqlite::types::Value;
pub use table::TableText;
pub use views::{VIEWS, View};

/// What is asked about.
pub struct Sources<'a> {
    /// The trace.
    pub trace: &'a TraceReader,
    /// Traces of its replays.
    pub results: &'a [TraceReader],
    /// The ordering whose dependencies are in `edges`.
    pub order: Order,
}

/// Takes an answer.
pub trait Answer {
    /// The names of its columns, before the first row.
    fn columns(&mut self, names: &[&str]) -> std::io::Result<()>;
    /// A row; whether more are wanted.
    fn row(&mut self, values: Vec<Value>) -> std::io::Result<bool>;
}

/// All tables, with their columns.
pub fn tables() -> Vec<TableText> {
    tables::texts()
}

/// Memory that SQLite keeps pages of the temporary database in, in KiB.
const CACHE_KIB: u32 = 64 << 10;
/// Steps of SQLite between two looks at whether to stop.
const STEPS: i32 = 10_000;

/// Tables that a query reads, each with the columns that it needs.
type Needs = BTreeMap<String, BTreeSet<String>>;

/// Answers a query. The inner result is the taker's own.
///
/// # Errors
/// The query is none, or changes something; the trace cannot be read; it was interrupted.
pub fn query(
    sources: &Sources<'_>,
    sql: &str,
    answer: &mut dyn Answer,
    stop: impl Fn() -> bool + Clone + Send + 'static,
) -> Result<std::io::Result<()>, QueryError> {
    let connection = empty()?;
    let needs = needs(&connection, sql)?;
    if needs.contains_key("results") && sources.results.is_empty() {
        return Err(QueryError::NoResults);
    }
    connection.execute_batch("BEGIN")?;
    for (table, columns) in &needs {
        tables::fill(&connection, sources, table, columns, &stop)?;
    }
    connection.execute_batch("COMMIT; PRAGMA query_only = 1")?;
    connection.progress_handler(STEPS, Some(stop));
    connection.authorizer(Some(|context: AuthContext<'_>| permit(&context.action)));
    ask(&mut prepare(&connection, sql)?, answer)
}

/// The tables without rows, and the views.
fn empty() -> Result<Connection, QueryError> {
    // The empty name is a temporary file, which is gone with the connection.
    let connection = Connection::open("")?;
    let settings = format!(
        "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA temp_store = FILE; PRAGMA cache_size = -{CACHE_KIB}"
    );
    connection.execute_batch(&settings)?;
    quantile::register(&connection)?;
    for declaration in tables::declarations() {
        connection.execute_batch(&declaration)?;
    }
    for view in VIEWS {
        connection.execute_batch(&format!("CREATE VIEW {} AS {}", view.name, view.sql))?;
    }
    Ok(connection)
}

/// What a query reads, by SQLite's own account.
fn needs(connection: &Connection, sql: &str) -> Result<Needs, QueryError> {
    let needs = Arc::new(Mutex::new(Needs::new()));
    let noted = Arc::clone(&needs);
    connection.authorizer(Some(move |context: AuthContext<'_>| {
        if let (AuthAction::Read { table_name, column_name }, Ok(mut needs)) = (&context.action, noted.lock()) {
            needs.entry((*table_name).to_owned()).or_default().insert((*column_name).to_owned());
        }
        permit(&context.action)
    }));
    prepare(connection, sql)?;
    connection.authorizer(None::<fn(AuthContext<'_>) -> Authorization>);
    let mut found = needs.lock().map(|needs| needs.clone()).unwrap_or_default();
    add_joined(&mut found, sql);
    Ok(found)
}

/// Of columns that tables are joined by without an expression (`USING`, `NATURAL`) SQLite does not tell, nor of a table that
/// only these are read of. They stand in the query by name, or are any: a column too many costs time, one too few the answer.
fn add_joined(needs: &mut Needs, sql: &str) {
    let sql = sql.to_ascii_lowercase();
    let (using, natural) = (sql.contains("using"), sql.contains("natural"));
    if !using && !natural {
        return;
    }
    for table in tables() {
        if needs.contains_key(table.name) || sql.contains(table.name) {
            let names = table.columns.iter().map(|(name, _)| *name).filter(|name| natural || sql.contains(name));
            needs.entry(table.name.to_owned()).or_default().extend(names.map(str::to_owned));
        }
    }
}

/// Reading is permitted, and nothing else.
fn permit(action: &AuthAction<'_>) -> Authorization {
    match action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => Authorization::Allow,
        AuthAction::Function { function_name } if *function_name != "load_extension" => Authorization::Allow,
        _ => Authorization::Deny,
    }
}

/// The one statement of a query.
fn prepare<'c>(connection: &'c Connection, sql: &str) -> Result<Statement<'c>, QueryError> {
    let mut batch = Batch::new(connection, sql);
    let nothing = || QueryError::Sql { message: "the query is empty".to_owned() };
    let statement = batch.next()?.ok_or_else(nothing)?;
    if batch.next()?.is_some() {
        return Err(QueryError::NotReading);
    }
    Ok(statement)
}

fn ask(statement: &mut Statement<'_>, answer: &mut dyn Answer) -> Result<std::io::Result<()>, QueryError> {
    let names: Vec<String> = statement.column_names().into_iter().map(str::to_owned).collect();
    if let Err(e) = answer.columns(&names.iter().map(String::as_str).collect::<Vec<_>>()) {
        return Ok(Err(e));
    }
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let values = (0..names.len()).map(|i| row.get(i)).collect::<rusqlite::Result<Vec<Value>>>()?;
        match answer.row(values) {
            Ok(true) => {}
            Ok(false) => break,
            Err(e) => return Ok(Err(e)),
        }
    }
    Ok(Ok(()))
}
