//! Rows of a table: their columns, declared once.

use std::path::Path;

use crate::column::{Column, Spec};
use crate::error::ReadError;
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
                    Field::store(&mut self.$field, &mut columns[at..at + width]);
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

/// Names of a table's columns, in order.
pub fn column_names<R: Row>() -> Vec<String> {
    R::specs().into_iter().map(|s| s.name).collect()
}

/// Decodes a part of so many rows. Columns it lacks are empty if they are optional; columns unknown here are ignored.
pub fn decode_part<R: Row>(path: &Path, bytes: Vec<u8>, rows: u64) -> Result<Vec<R>, ReadError> {
    PartRows::new(path, bytes, rows)?.collect()
}
