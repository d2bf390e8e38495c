//! `reprise sql`.

use std::io::{BufWriter, Read, Write};
use std::sync::atomic::Ordering;

use reprise_query::{Answer, QueryError, Sources, VIEWS, Value};
use reprise_report::{Align, Table, export, printable};
use reprise_trace::TraceReader;
use serde_json::json;

use super::{Outcome, print, print_json, reading, streams_to_terminal, style};
use crate::args::sql::Sql;
use crate::exit::{Exit, Failure};

/// Answers a query.
pub fn run(args: Sql) -> Outcome {
    let (Some(trace), Some(query), false) = (&args.trace, &args.query, args.tables) else {
        return if args.json { print_json(&tables_json()) } else { print(&tables()) };
    };
    let trace = reading(trace, (args.csv || args.json) && streams_to_terminal())?;
    let results = args.result.iter().map(|path| TraceReader::open(path)).collect::<Result<Vec<_>, _>>()?;
    for result in &results {
        super::read::is_replay_of(result, &trace)?;
    }
    let query = if query == "-" { std::io::read_to_string(std::io::stdin().lock().by_ref())? } else { query.clone() };
    let interrupt = reprise_replay::run::catch_signals();
    let stop = move || interrupt.load(Ordering::Relaxed) != 0;
    let sources = Sources { trace: &trace, results: &results, order: args.order };
    let mut out = BufWriter::new(std::io::stdout().lock());
    match (args.csv, args.json) {
        (true, _) => answer(&sources, &query, &mut Csv { out: &mut out }, stop)?,
        (_, true) => answer(&sources, &query, &mut Json { out: &mut out, names: Vec::new() }, stop)?,
        (false, false) => {
            let mut shown = Shown { names: Vec::new(), rows: Vec::new(), most: args.most, more: false };
            answer(&sources, &query, &mut shown, stop)?;
            return print(&shown.text());
        }
    }
    out.flush().map_err(Failure::output)?;
    Ok(Exit::Done.into())
}

fn answer(
    sources: &Sources<'_>,
    query: &str,
    taker: &mut dyn Answer,
    stop: impl Fn() -> bool + Clone + Send + 'static,
) -> Result<(), Failure> {
    reprise_query::query(sources, query, taker, stop).map_err(failure)?.map_err(Failure::output)
}

fn failure(error: QueryError) -> Failure {
    match error {
        QueryError::Read(error) => error.into(),
        QueryError::Order(error) => error.into(),
        QueryError::Sql { .. } | QueryError::NotReading | QueryError::NoResults => Failure::new(Exit::Usage, error),
        QueryError::Interrupted => Failure::new(Exit::Interrupted, error),
        QueryError::System { .. } => Failure::new(Exit::System, error),
    }
}

/// Every table and view with its columns.
fn tables() -> String {
    let mut out = String::new();
    for table in reprise_query::tables() {
        out += &format!("{}  {}\n", style().heading(table.name), table.doc);
        let mut columns = Table::new(2, &[Align::Left, Align::Left]);
        for (name, doc) in table.columns {
            columns.row([name, doc]);
        }
        out += &columns.text();
        out.push('\n');
    }
    out += &style().heading("Views");
    out.push('\n');
    let mut views = Table::new(2, &[Align::Left, Align::Left]);
    for view in VIEWS {
        views.row([view.name, view.doc]);
    }
    out + &views.text()
}

/// The same for programs.
fn tables_json() -> serde_json::Value {
    let tables = reprise_query::tables().into_iter().map(|table| {
        let columns = table.columns.into_iter().map(|(name, doc)| json!({"name": name, "doc": doc}));
        json!({"name": table.name, "doc": table.doc, "columns": columns.collect::<Vec<_>>()})
    });
    let views = VIEWS.iter().map(|view| json!({"name": view.name, "doc": view.doc, "sql": view.sql}));
    json!({"tables": tables.collect::<Vec<_>>(), "views": views.collect::<Vec<_>>()})
}

/// Comma-separated values.
struct Csv<W: Write> {
    out: W,
}

impl<W: Write> Csv<W> {
    fn line(&mut self, cells: impl Iterator<Item = String>) -> std::io::Result<()> {
        self.out.write_all(cells.collect::<Vec<_>>().join(",").as_bytes())?;
        self.out.write_all(b"\r\n")
    }
}

impl<W: Write> Answer for Csv<W> {
    fn columns(&mut self, names: &[&str]) -> std::io::Result<()> {
        self.line(names.iter().map(|name| export::quoted(name).into_owned()))
    }

    fn row(&mut self, values: Vec<Value>) -> std::io::Result<bool> {
        self.line(values.iter().map(|value| match value {
            Value::Null => String::new(),
            Value::Text(text) => export::quoted(text).into_owned(),
            value => plain(value),
        }))?;
        Ok(true)
    }
}

/// A JSON object a line.
struct Json<W: Write> {
    out: W,
    names: Vec<String>,
}

impl<W: Write> Answer for Json<W> {
    fn columns(&mut self, names: &[&str]) -> std::io::Result<()> {
        self.names = names.iter().map(|name| (*name).to_owned()).collect();
        Ok(())
    }

    fn row(&mut self, values: Vec<Value>) -> std::io::Result<bool> {
        let members = self.names.iter().zip(&values).map(|(name, value)| {
            let value = match value {
                Value::Null => serde_json::Value::Null,
                Value::Integer(n) => (*n).into(),
                Value::Real(n) => (*n).into(),
                value => plain(value).into(),
            };
            format!("{}:{value}", serde_json::Value::from(name.as_str()))
        });
        // In the order of the query.
        writeln!(self.out, "{{{}}}", members.collect::<Vec<_>>().join(","))?;
        Ok(true)
    }
}

/// Rows for people: gathered, since columns are as wide as their widest value.
struct Shown {
    names: Vec<String>,
    rows: Vec<Vec<Value>>,
    most: usize,
    more: bool,
}

impl Answer for Shown {
    fn columns(&mut self, names: &[&str]) -> std::io::Result<()> {
        self.names = names.iter().map(|name| (*name).to_owned()).collect();
        Ok(())
    }

    fn row(&mut self, values: Vec<Value>) -> std::io::Result<bool> {
        self.more = self.rows.len() == self.most;
        if !self.more {
            self.rows.push(values);
        }
        Ok(!self.more)
    }
}

impl Shown {
    fn text(&self) -> String {
        let numeric = |i: usize| self.rows.iter().all(|row| !matches!(row[i], Value::Text(_) | Value::Blob(_)));
        let align: Vec<Align> =
            (0..self.names.len()).map(|i| if numeric(i) { Align::Right } else { Align::Left }).collect();
        let mut table = Table::new(0, &align);
        table.row(self.names.iter().map(|name| style().heading(name)));
        for row in &self.rows {
            table.row(row.iter().map(shown));
        }
        let mut out = table.text();
        if self.more {
            out +=
                &style().faint(&format!("more than {} rows: --csv and --json give all, or add a LIMIT\n", self.most));
        }
        out
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Real(n) => format!("{n:.3}"),
        // What a name holds must not move the terminal's cursor.
        Value::Text(text) => printable(text).into_owned(),
        value => plain(value),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Integer(n) => n.to_string(),
        Value::Real(n) => n.to_string(),
        Value::Text(text) => text.clone(),
        Value::Blob(bytes) => bytes.iter().map(|b| format!("{b:02x}")).collect(),
    }
}
