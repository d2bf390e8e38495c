//! Rows of a table, and their encoding as one Parquet part.

use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type};

use crate::column::{Column, Kind, Spec};
use crate::error::{ReadError, WriteError};
use crate::part::PartRows;

/// A row of one of the format's tables.
pub trait Row: Default + Send + 'static {
    /// The table, and the folder of its parts.
    const TABLE: &'static str;
    /// What a row is.
    const DOC: &'static str;
    #[doc(hidden)]
    fn documented() -> Vec<(Spec, &'static str)>;
    #[doc(hidden)]
    fn specs() -> Vec<Spec> {
        Self::documented().into_iter().map(|(spec, _)| spec).collect()
    }
    /// Its values become the next ones of the columns; it is left empty.
    #[doc(hidden)]
    fn push(&mut self, columns: &mut [Column]);
    #[doc(hidden)]
    fn pull(&mut self, columns: &mut [Column]) -> parquet::errors::Result<()>;
    /// The key by which a row's part is found.
    fn key(&self) -> u64;
    /// Rough size in memory, in bytes, for bounding it.
    fn weight(&self) -> usize;
}

/// Declares a row type: its columns are its fields.
macro_rules! table {
    ($(#[doc = $doc:literal])* $(#[derive($($derive:path),*)])? $type:ident $table:literal key($key:expr) weight($weight:expr) {
        $($(#[doc = $fdoc:literal])* $field:ident: $ftype:ty,)*
    }) => {
        $(#[doc = $doc])*
        $(#[derive($($derive),*)])?
        #[derive(Debug, Clone, PartialEq, Default)]
        pub struct $type { $($(#[doc = $fdoc])* pub $field: $ftype,)* }

        impl crate::table::Row for $type {
            const TABLE: &'static str = $table;
            const DOC: &'static str = concat!($($doc),*);
            fn documented() -> Vec<(crate::column::Spec, &'static str)> {
                let mut columns = Vec::new();
                $({
                    let specs = <$ftype as crate::column::Field>::specs(stringify!($field));
                    columns.extend(specs.into_iter().map(|spec| (spec, concat!($($fdoc),*))));
                })*
                columns
            }
            #[allow(unused_assignments)]
            fn push(&mut self, columns: &mut [crate::column::Column]) {
                use crate::column::Field;
                let mut at = 0;
                $({
                    let width = <$ftype as Field>::WIDTH;
                    Field::store(std::mem::take(&mut self.$field), &mut columns[at..at + width]);
                    at += width;
                })*
            }
            #[allow(unused_assignments)]
            fn pull(&mut self, columns: &mut [crate::column::Column]) -> parquet::errors::Result<()> {
                use crate::column::Field;
                let mut at = 0;
                $({
                    let width = <$ftype as Field>::WIDTH;
                    Field::load(&mut self.$field, &mut columns[at..at + width])?;
                    at += width;
                })*
                Ok(())
            }
            fn key(&self) -> u64 {
                let key: fn(&$type) -> u64 = $key;
                key(self)
            }
            fn weight(&self) -> usize {
                let weight: fn(&$type) -> usize = $weight;
                std::mem::size_of::<$type>() + weight(self)
            }
        }
    };
}
pub(crate) use table;

fn schema(table: &str, specs: &[Spec]) -> parquet::errors::Result<Arc<Type>> {
    let fields = specs.iter().map(Spec::schema).collect::<parquet::errors::Result<Vec<_>>>()?;
    Type::group_type_builder(table).with_fields(fields).build().map(Arc::new)
}

/// Names of a table's columns, in order.
pub fn column_names<R: Row>() -> Vec<String> {
    R::specs().into_iter().map(|s| s.name).collect()
}

/// Encodes rows as one part: a complete Parquet file with one row group. Contents are moved, not copied.
pub fn encode_part<R: Row>(mut rows: Vec<R>) -> Result<Vec<u8>, WriteError> {
    let encode = move || -> parquet::errors::Result<Vec<u8>> {
        let specs = R::specs();
        let mut columns: Vec<Column> = specs.iter().map(|spec| spec.room_for(rows.len())).collect();
        rows.iter_mut().for_each(|row| row.push(&mut columns));
        drop(rows);
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_max_row_group_row_count(None)
            .set_created_by(concat!("reprise ", env!("CARGO_PKG_VERSION")).to_owned());
        for (spec, column) in specs.iter().zip(&columns) {
            if column.suits_differences() {
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
        let mut out = Vec::new();
        let mut file = SerializedFileWriter::new(&mut out, schema(R::TABLE, &specs)?, Arc::new(properties.build()))?;
        let mut group = file.next_row_group()?;
        for column in &columns {
            column.write(&mut group)?;
        }
        group.close()?;
        file.close()?;
        Ok(out)
    };
    encode().map_err(|e| WriteError::Encode { table: R::TABLE, cause: e.to_string() })
}

/// Decodes a part of so many rows. Columns it lacks are empty if they are optional; columns unknown here are ignored.
pub fn decode_part<R: Row>(path: &Path, bytes: Vec<u8>, rows: u64) -> Result<Vec<R>, ReadError> {
    PartRows::new(path, bytes, rows)?.collect()
}
