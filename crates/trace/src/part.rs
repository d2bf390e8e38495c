//! Reading one part, a batch of rows at a time.
//!
//! Goals: what is held in memory is the part's compressed bytes, a page of each column, and a batch of each column's values;
//! a row's memory serves for the next row.

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use parquet::column::reader::ColumnReader;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{FileReader, SerializedFileReader};

use crate::column::{Column, Spec};
use crate::error::ReadError;
use crate::table::Row;

/// Rows whose columns are decoded at once: few enough that the memory of a batch is small change to the allocator.
const BATCH: usize = 128;

/// The rows of a part; ends after the first error.
pub(crate) struct PartRows<R> {
    path: PathBuf,
    source: Option<Source>,
    row: PhantomData<R>,
}

impl<R: Row> PartRows<R> {
    /// A part of so many rows.
    pub fn new(path: &Path, bytes: Vec<u8>, rows: u64) -> std::result::Result<PartRows<R>, ReadError> {
        let source = guarded(path, || Source::open::<R>(bytes, rows))?;
        Ok(PartRows { path: path.to_owned(), source: Some(source), row: PhantomData })
    }

    /// The same without these columns, as if the part lacked them.
    pub fn without(mut self, columns: &'static [&'static str]) -> PartRows<R> {
        self.source.iter_mut().for_each(|source| source.left_out = columns);
        self
    }

    /// Puts the next row in place of this one; `false` at the end.
    pub fn read(&mut self, row: &mut R) -> std::result::Result<bool, ReadError> {
        let Some(source) = &mut self.source else { return Ok(false) };
        let found = source.row(&self.path, row);
        if !matches!(found, Ok(true)) {
            // A decoder that failed is not asked again.
            self.source = None;
        }
        found
    }
}

/// The decoder is given damaged bytes only where a checksum was forged too; a panic inside it is then damage as well.
fn guarded<T>(path: &Path, decode: impl FnOnce() -> Result<T>) -> std::result::Result<T, ReadError> {
    catch_unwind(AssertUnwindSafe(decode))
        .unwrap_or_else(|_| Err(ParquetError::General("cannot be decoded".into())))
        .map_err(|e| ReadError::damaged(path, e))
}

impl<R: Row> Iterator for PartRows<R> {
    type Item = std::result::Result<R, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut row = R::default();
        self.read(&mut row).map(|found| found.then_some(row)).transpose()
    }
}

/// The columns of a part, at some row.
struct Source {
    file: SerializedFileReader<Bytes>,
    specs: Vec<Spec>,
    next_group: usize,
    /// Rows of the present group that were not decoded yet.
    left: usize,
    /// Readers of the present group; none for a column it lacks.
    readers: Vec<Option<ColumnReader>>,
    columns: Vec<Column>,
    left_out: &'static [&'static str],
    /// Rows whose values are in the columns.
    decoded: usize,
}

impl Source {
    fn open<R: Row>(bytes: Vec<u8>, expected: u64) -> Result<Source> {
        let file = SerializedFileReader::new(Bytes::from(bytes))?;
        let counted: i64 = file.metadata().row_groups().iter().map(|g| g.num_rows()).fold(0, i64::saturating_add);
        if u64::try_from(counted) != Ok(expected) {
            return Err(ParquetError::General(format!("{counted} rows, the catalog says {expected}")));
        }
        let specs = R::specs();
        let columns = specs.iter().map(Spec::empty).collect();
        Ok(Source { file, specs, next_group: 0, left: 0, readers: Vec::new(), columns, left_out: &[], decoded: 0 })
    }

    /// The next row; `false` at the end.
    fn row<R: Row>(&mut self, path: &Path, row: &mut R) -> std::result::Result<bool, ReadError> {
        if self.decoded == 0 {
            guarded(path, || self.decode())?;
        }
        let Some(left) = self.decoded.checked_sub(1) else { return Ok(false) };
        self.decoded = left;
        row.pull(&mut self.columns).map_err(|e| ReadError::damaged(path, e))?;
        Ok(true)
    }

    /// Decodes values of the next rows; none at the end.
    fn decode(&mut self) -> Result<()> {
        while self.left == 0 {
            if self.next_group == self.file.num_row_groups() {
                return Ok(());
            }
            self.enter_group()?;
        }
        let rows = self.left.min(BATCH);
        for ((spec, reader), column) in self.specs.iter().zip(&mut self.readers).zip(&mut self.columns) {
            column.clear();
            match reader {
                Some(reader) => column.read(spec, reader, rows)?,
                None => column.lack(spec, rows)?,
            }
        }
        self.left -= rows;
        self.decoded = rows;
        Ok(())
    }

    fn enter_group(&mut self) -> Result<()> {
        let group = self.file.get_row_group(self.next_group)?;
        self.next_group += 1;
        self.left = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        let leaves = group.metadata().schema_descr().columns();
        let reader = |spec: &Spec| {
            let leaf = spec.leaf();
            let wanted = !self.left_out.contains(&spec.name.as_str());
            let index = leaves.iter().position(|c| wanted && c.path().string() == leaf);
            index.map(|index| group.get_column_reader(index)).transpose()
        };
        self.readers = self.specs.iter().map(reader).collect::<Result<_>>()?;
        Ok(())
    }
}
