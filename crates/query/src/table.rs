//! A table: named columns, each with what it means and where its values come from. Declaration, documentation and filling
//! derive from the same rows.

use std::collections::BTreeSet;

use rusqlite::types::Value;
use rusqlite::{Connection, Statement, params_from_iter};

/// A column of a table whose rows are made of `R`.
pub struct Column<R> {
    pub name: &'static str,
    pub doc: &'static str,
    pub value: fn(&R) -> Value,
}

/// A table.
pub struct Table<R: 'static> {
    pub name: &'static str,
    pub doc: &'static str,
    /// The first column is the key: rows are found by it at once.
    pub keyed: bool,
    pub columns: &'static [Column<R>],
}

/// What a reader is told of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableText {
    /// Its name.
    pub name: &'static str,
    /// What its rows are.
    pub doc: &'static str,
    /// Its columns, and what they mean.
    pub columns: Vec<(&'static str, &'static str)>,
}

impl<R> Table<R> {
    /// What a reader is told.
    pub fn text(&self) -> TableText {
        TableText { name: self.name, doc: self.doc, columns: self.columns.iter().map(|c| (c.name, c.doc)).collect() }
    }

    /// The statement that makes it. Columns have no type: values keep theirs.
    pub fn declaration(&self) -> String {
        let names = self.columns.iter().enumerate().map(|(i, column)| match i == 0 && self.keyed {
            true => format!("{} INTEGER PRIMARY KEY", column.name),
            false => format!("\"{}\"", column.name),
        });
        format!("CREATE TABLE {} ({})", self.name, names.collect::<Vec<_>>().join(", "))
    }

    /// Fills it with rows of the columns that are wanted, and of the key.
    pub fn filler<'c>(&self, connection: &'c Connection, wanted: &BTreeSet<String>) -> rusqlite::Result<Filler<'c, R>> {
        let chosen = self.columns.iter().enumerate();
        let chosen = chosen.filter(|(i, column)| (*i == 0 && self.keyed) || wanted.contains(column.name));
        let mut chosen: Vec<&Column<R>> = chosen.map(|(_, column)| column).collect();
        // A row that nothing is asked of still counts.
        if chosen.is_empty() {
            chosen.extend(self.columns.first());
        }
        let names = chosen.iter().map(|c| format!("\"{}\"", c.name)).collect::<Vec<_>>().join(", ");
        let places = vec!["?"; chosen.len()].join(", ");
        let statement = connection.prepare(&format!("INSERT INTO {} ({names}) VALUES ({places})", self.name))?;
        Ok(Filler { statement, values: chosen.iter().map(|c| c.value).collect() })
    }
}

/// Adds rows.
pub struct Filler<'c, R> {
    statement: Statement<'c>,
    values: Vec<fn(&R) -> Value>,
}

impl<R> Filler<'_, R> {
    /// Adds one.
    pub fn add(&mut self, row: &R) -> rusqlite::Result<()> {
        self.statement.execute(params_from_iter(self.values.iter().map(|value| value(row)))).map(drop)
    }
}

/// A number that may be larger than SQLite's: then it is negative there, with the same bits.
pub fn number(n: u64) -> Value {
    Value::Integer(n as i64)
}

/// A number that may lack.
pub fn optional(n: Option<u64>) -> Value {
    n.map_or(Value::Null, number)
}

/// A text that may lack.
pub fn text(text: Option<&str>) -> Value {
    text.map_or(Value::Null, |t| Value::Text(t.to_owned()))
}
