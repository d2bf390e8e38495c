//! The rows of a part that is to be, and their encoding as Parquet.
//!
//! Goals: what a row has is moved once, to the columns that it is encoded from, while it is at hand. Non-goals: when a part is
//! full is told by [`WriterOptions`]; who encodes, and when, is the sink's.

use std::marker::PhantomData;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type};

use crate::column::{Column, Kind, Spec};
use crate::error::WriteError;
use crate::table::Row;
use crate::writer::WriterOptions;

/// Rows, column by column.
pub(crate) struct Gathered<R> {
    columns: Vec<Column>,
    rows: usize,
    weight: usize,
    first: u64,
    row: PhantomData<fn(R)>,
}

impl<R: Row> Default for Gathered<R> {
    fn default() -> Self {
        Gathered::room_for(0)
    }
}

impl<R: Row> Gathered<R> {
    fn room_for(rows: usize) -> Self {
        Gathered::of(R::specs().iter().map(|spec| spec.room_for(rows)).collect())
    }

    /// None so far, in these columns, which are empty.
    fn of(columns: Vec<Column>) -> Self {
        Gathered { columns, rows: 0, weight: 0, first: 0, row: PhantomData }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The key of the first, if there is one.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Adds a row; true if the part is full.
    pub fn add(&mut self, mut row: R, options: &WriterOptions) -> bool {
        self.add_from(&mut row, options)
    }

    /// The same of a row that stays where it is, and is left empty.
    pub fn add_from(&mut self, row: &mut R, options: &WriterOptions) -> bool {
        if self.rows == 0 {
            self.first = row.key();
        }
        self.weight += row.weight();
        self.rows += 1;
        row.push(&mut self.columns);
        self.rows >= options.rows || self.weight >= options.bytes
    }

    /// The rows so far. There is room for as many again, in columns that were encoded before if there are any, so that none of them
    /// is moved while the others come.
    pub fn take(&mut self, emptied: Option<Vec<Column>>) -> Gathered<R> {
        let room = emptied.map_or_else(|| Gathered::room_for(self.rows), Gathered::of);
        std::mem::replace(self, room)
    }

    /// The part: a complete Parquet file with one row group. And the columns, empty, for those that come next.
    pub fn encode(mut self) -> Result<(Vec<u8>, Vec<Column>), WriteError> {
        let specs = R::specs();
        specs.iter().zip(&mut self.columns).for_each(|(spec, column)| column.complete(spec));
        let encoded = encode(&specs, &self.columns, R::TABLE, self.weight);
        self.columns.iter_mut().for_each(Column::clear);
        let failed = |e: ParquetError| WriteError::Encode { table: R::TABLE, cause: e.to_string() };
        Ok((encoded.map_err(failed)?, self.columns))
    }
}

fn schema(table: &str, specs: &[Spec]) -> parquet::errors::Result<Arc<Type>> {
    let fields = specs.iter().map(Spec::schema).collect::<parquet::errors::Result<Vec<_>>>()?;
    Type::group_type_builder(table).with_fields(fields).build().map(Arc::new)
}

/// With room for so many bytes at once: it is hardly ever more than what the rows hold, and what is not used costs nothing, where
/// growing by doubling takes up to three times as much.
fn encode(specs: &[Spec], columns: &[Column], table: &str, room: usize) -> parquet::errors::Result<Vec<u8>> {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_max_row_group_row_count(None)
        .set_created_by(concat!("reprise ", env!("CARGO_PKG_VERSION")).to_owned());
    for (spec, column) in specs.iter().zip(columns) {
        // Of what is always the same the compression makes next to nothing, in less time than numbers or a dictionary take.
        if column.is_uniform() {
            properties = properties.set_column_dictionary_enabled(spec.path(), false);
        } else if column.suits_differences() {
            properties = properties
                .set_column_dictionary_enabled(spec.path(), false)
                .set_column_encoding(spec.path(), Encoding::DELTA_BINARY_PACKED);
        }
    }
    // Contents are each stored once already, and so are their digests.
    for name in ["content", "blake3"] {
        properties = properties.set_column_dictionary_enabled(ColumnPath::from(name), false);
    }
    // The least and the greatest of texts and bytes find nothing, and cost more than all else of a column.
    for spec in specs.iter().filter(|spec| matches!(spec.kind, Kind::Text | Kind::Bytes)) {
        properties = properties.set_column_statistics_enabled(spec.path(), EnabledStatistics::None);
    }
    let mut out = Vec::with_capacity(room);
    let mut file = SerializedFileWriter::new(&mut out, schema(table, specs)?, Arc::new(properties.build()))?;
    let mut group = file.next_row_group()?;
    for column in columns {
        column.write(&mut group)?;
    }
    group.close()?;
    file.close()?;
    Ok(out)
}
