//! What can go wrong with a query.

use reprise_plan::CompileError;
use reprise_trace::ReadError;

/// Why a query has no answer.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// A trace cannot be read.
    #[error(transparent)]
    Read(ReadError),
    /// Its dependencies cannot be found.
    #[error(transparent)]
    Order(#[from] CompileError),
    /// The query is no SQL, or names what is not there.
    #[error("{message}; `reprise sql --tables` lists tables, columns and views")]
    Sql {
        /// In SQLite's words, with the place.
        message: String,
    },
    /// The query is about replays, and there are none.
    #[error("the query asks for results of replays, and none was given: name them with --result RESULT")]
    NoResults,
    /// The query would change something, or look outside of the trace.
    #[error("a query only reads the trace: one SELECT, or WITH … SELECT")]
    NotReading,
    /// It was interrupted.
    #[error("interrupted; a trace is not changed by queries")]
    Interrupted,
    /// SQLite cannot do it.
    #[error("{message}; intermediate results need room in {place}: set TMPDIR to a place that has it")]
    System {
        /// In SQLite's words.
        message: String,
        /// Where intermediate results go.
        place: String,
    },
}

impl From<rusqlite::Error> for QueryError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::{AuthorizationForStatementDenied, OperationInterrupted, ReadOnly};
        match error.sqlite_error_code() {
            Some(AuthorizationForStatementDenied | ReadOnly) => QueryError::NotReading,
            Some(OperationInterrupted) => QueryError::Interrupted,
            Some(
                rusqlite::ErrorCode::DiskFull
                | rusqlite::ErrorCode::CannotOpen
                | rusqlite::ErrorCode::SystemIoFailure
                | rusqlite::ErrorCode::OutOfMemory,
            ) => {
                let place = std::env::temp_dir().display().to_string();
                QueryError::System { message: error.to_string(), place }
            }
            _ => QueryError::Sql { message: words(&error) },
        }
    }
}

/// What SQLite says, and where in the query.
fn words(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqlInputError { msg, offset, .. } => format!("{msg} (at character {})", offset + 1),
        rusqlite::Error::SqliteFailure(_, Some(message)) => message.clone(),
        other => other.to_string(),
    }
}
