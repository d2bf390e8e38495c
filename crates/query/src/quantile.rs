//! `quantile(value, q)`: the smallest value that at least the share `q` of all values does not exceed. Nulls do not count.
//!
//! Exact: it keeps eight bytes a value until its group is done.

use rusqlite::functions::{Aggregate, Context, FunctionFlags};
use rusqlite::types::Value;
use rusqlite::{Connection, Error, Result};

struct Quantile;

/// The values of a group, and the share asked for.
#[derive(Default)]
struct Values {
    values: Vec<f64>,
    share: f64,
    /// Whether all were whole numbers.
    whole: bool,
}

/// Makes the function known.
pub fn register(connection: &Connection) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_aggregate_function("quantile", 2, flags, Quantile)
}

impl Aggregate<Values, Value> for Quantile {
    fn init(&self, _: &mut Context<'_>) -> Result<Values> {
        Ok(Values { whole: true, ..Values::default() })
    }

    fn step(&self, context: &mut Context<'_>, group: &mut Values) -> Result<()> {
        group.share = context.get(1)?;
        if !(0.0..=1.0).contains(&group.share) {
            return Err(Error::UserFunctionError(
                "quantile(value, q): q is a share from 0 to 1, 0.99 for instance".into(),
            ));
        }
        match context.get(0)? {
            Value::Null => {}
            Value::Integer(n) => group.values.push(n as f64),
            Value::Real(n) => {
                group.whole = false;
                group.values.push(n);
            }
            Value::Text(_) | Value::Blob(_) => {
                return Err(Error::UserFunctionError("quantile(value, q): value is a number".into()));
            }
        }
        Ok(())
    }

    fn finalize(&self, _: &mut Context<'_>, group: Option<Values>) -> Result<Value> {
        let Some(mut group) = group.filter(|g| !g.values.is_empty()) else { return Ok(Value::Null) };
        let rank = (group.share * group.values.len() as f64).ceil() as usize;
        let place = rank.clamp(1, group.values.len()) - 1;
        let (_, value, _) = group.values.select_nth_unstable_by(place, f64::total_cmp);
        Ok(if group.whole { Value::Integer(*value as i64) } else { Value::Real(*value) })
    }
}
