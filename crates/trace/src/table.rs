//! Rows of a table, and their encoding as one Parquet part.

use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type};

use crate::column::{Column, Cursor, Spec};
use crate::error::{ReadError, WriteError};

/// A row of one of the format's tables.
pub trait Row: Sized + Send + 'static {
    /// The table, and the folder of its parts.
    const TABLE: &'static str;
    /// Columns that ascend, and are stored as differences.
    const ASCENDING: &'static [&'static str];
    #[doc(hidden)]
    fn specs() -> Vec<Spec>;
    #[doc(hidden)]
    fn push(&self, columns: &mut [Column]);
    #[doc(hidden)]
    fn pull(cursors: &mut [Cursor<'_>]) -> parquet::errors::Result<Self>;
    /// The key by which a row's part is found.
    fn key(&self) -> u64;
    /// Rough size in memory, in bytes, for bounding it.
    fn weight(&self) -> usize;
}

/// Declares a row type: its columns are its fields.
macro_rules! table {
    ($(#[$doc:meta])* $type:ident $table:literal key($key:expr) weight($weight:expr) ascending($($asc:literal),*) {
        $($(#[$fdoc:meta])* $field:ident: $ftype:ty,)*
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Default)]
        pub struct $type { $($(#[$fdoc])* pub $field: $ftype,)* }

        impl crate::table::Row for $type {
            const TABLE: &'static str = $table;
            const ASCENDING: &'static [&'static str] = &[$($asc),*];
            fn specs() -> Vec<crate::column::Spec> {
                let mut specs = Vec::new();
                $(specs.extend(<$ftype as crate::column::Field>::specs(stringify!($field)));)*
                specs
            }
            #[allow(unused_assignments)]
            fn push(&self, columns: &mut [crate::column::Column]) {
                use crate::column::Field;
                let mut at = 0;
                $({
                    let width = <$ftype as Field>::WIDTH;
                    Field::store(&self.$field, &mut columns[at..at + width]);
                    at += width;
                })*
            }
            #[allow(unused_assignments)]
            fn pull(cursors: &mut [crate::column::Cursor<'_>]) -> parquet::errors::Result<Self> {
                use crate::column::Field;
                let mut at = 0;
                $(
                    let width = <$ftype as Field>::WIDTH;
                    let $field = <$ftype as Field>::load(&mut cursors[at..at + width])?;
                    at += width;
                )*
                Ok($type { $($field),* })
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

/// Encodes rows as one part: a complete Parquet file with one row group.
pub fn encode_part<R: Row>(rows: &[R]) -> Result<Vec<u8>, WriteError> {
    let encode = || -> parquet::errors::Result<Vec<u8>> {
        let specs = R::specs();
        let mut columns: Vec<Column> = specs.iter().map(Spec::empty).collect();
        for row in rows {
            row.push(&mut columns);
        }
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_max_row_group_row_count(None)
            .set_created_by(concat!("reprise ", env!("CARGO_PKG_VERSION")).to_owned());
        for name in R::ASCENDING {
            let path = ColumnPath::from(*name);
            properties = properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
        // Contents are each stored once already; statistics over them would only cost.
        let content = ColumnPath::from("content");
        properties = properties
            .set_column_dictionary_enabled(content.clone(), false)
            .set_column_statistics_enabled(content, EnabledStatistics::None);
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
    // The decoder is given damaged bytes only where a checksum was forged too; a panic inside it is then damage as well.
    std::panic::catch_unwind(|| decode::<R>(bytes, rows))
        .unwrap_or_else(|_| Err(parquet::errors::ParquetError::General("cannot be decoded".into())))
        .map_err(|e| ReadError::damaged(path, e))
}

fn decode<R: Row>(bytes: Vec<u8>, expected: u64) -> parquet::errors::Result<Vec<R>> {
    let file = SerializedFileReader::new(bytes::Bytes::from(bytes))?;
    let counted: i64 = file.metadata().row_groups().iter().map(|g| g.num_rows()).fold(0, i64::saturating_add);
    if u64::try_from(counted) != Ok(expected) {
        let cause = format!("{counted} rows, the catalog says {expected}");
        return Err(parquet::errors::ParquetError::General(cause));
    }
    let specs = R::specs();
    let mut out = Vec::new();
    for g in 0..file.num_row_groups() {
        let group = file.get_row_group(g)?;
        let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        let leaves = group.metadata().schema_descr().columns();
        let mut columns = Vec::with_capacity(specs.len());
        for spec in &specs {
            let leaf = spec.leaf();
            columns.push(match leaves.iter().position(|c| c.path().string() == leaf) {
                Some(index) => Column::read(spec, group.as_ref(), index, rows)?,
                None => Column::absent(spec, rows).ok_or_else(|| {
                    parquet::errors::ParquetError::General(format!("column {} is missing", spec.name))
                })?,
            });
        }
        let mut cursors: Vec<Cursor<'_>> = columns.iter().map(Cursor::new).collect();
        for _ in 0..rows {
            out.push(R::pull(&mut cursors)?);
        }
    }
    Ok(out)
}
