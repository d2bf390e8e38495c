//! Columns in memory, and the Rust types that fill them.
//!
//! A field of a row is one column (`[u64; 6]` is six). Types map to Parquet so that other tools show them well:
//! unsigned integers carry their logical type, names are UTF-8 text, lists are standard three-level lists.

use parquet::basic::{ConvertedType, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::Result;
use parquet::file::reader::RowGroupReader;
use parquet::file::writer::SerializedRowGroupWriter;
use parquet::schema::types::{Type, TypePtr};
use std::sync::Arc;

use crate::name::Name;

/// Values of one column of one row group, with definition and repetition levels where it needs them.
#[derive(Debug, Clone)]
pub enum Column {
    Int32(Levels<i32>),
    Int64(Levels<i64>),
    Bytes(Levels<ByteArray>),
}

/// Values and levels.
#[derive(Debug, Clone)]
pub struct Levels<T> {
    pub values: Vec<T>,
    pub definition: Vec<i16>,
    pub repetition: Vec<i16>,
}

impl<T> Default for Levels<T> {
    fn default() -> Self {
        Levels { values: Vec::new(), definition: Vec::new(), repetition: Vec::new() }
    }
}

/// How a column is declared.
#[derive(Debug, Clone)]
pub struct Spec {
    pub name: String,
    pub shape: Shape,
    pub kind: Kind,
}

/// Whether each row has exactly one value, at most one, or any number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Required,
    Optional,
    List,
}

/// What the values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    U32,
    I32,
    U64,
    I64,
    Text,
    Bytes,
}

impl Spec {
    pub fn empty(&self) -> Column {
        match self.kind {
            Kind::U32 | Kind::I32 => Column::Int32(Levels::default()),
            Kind::U64 | Kind::I64 => Column::Int64(Levels::default()),
            Kind::Text | Kind::Bytes => Column::Bytes(Levels::default()),
        }
    }

    /// Name of the leaf in the schema, as the reader sees it.
    pub fn leaf(&self) -> String {
        match self.shape {
            Shape::List => format!("{}.list.element", self.name),
            Shape::Required | Shape::Optional => self.name.clone(),
        }
    }

    pub fn schema(&self) -> Result<TypePtr> {
        let leaf = |name: &str, repetition: Repetition| {
            let (physical, converted, logical) = match self.kind {
                Kind::U32 => (Physical::INT32, ConvertedType::UINT_32, Some(LogicalType::integer(32, false))),
                Kind::I32 => (Physical::INT32, ConvertedType::NONE, None),
                Kind::U64 => (Physical::INT64, ConvertedType::UINT_64, Some(LogicalType::integer(64, false))),
                Kind::I64 => (Physical::INT64, ConvertedType::NONE, None),
                Kind::Text => (Physical::BYTE_ARRAY, ConvertedType::UTF8, Some(LogicalType::String)),
                Kind::Bytes => (Physical::BYTE_ARRAY, ConvertedType::NONE, None),
            };
            Type::primitive_type_builder(name, physical)
                .with_repetition(repetition)
                .with_converted_type(converted)
                .with_logical_type(logical)
                .build()
                .map(Arc::new)
        };
        match self.shape {
            Shape::Required => leaf(&self.name, Repetition::REQUIRED),
            Shape::Optional => leaf(&self.name, Repetition::OPTIONAL),
            Shape::List => {
                let element = leaf("element", Repetition::REQUIRED)?;
                let list = Type::group_type_builder("list")
                    .with_repetition(Repetition::REPEATED)
                    .with_fields(vec![element])
                    .build()?;
                Type::group_type_builder(&self.name)
                    .with_repetition(Repetition::REQUIRED)
                    .with_converted_type(ConvertedType::LIST)
                    .with_logical_type(Some(LogicalType::List))
                    .with_fields(vec![Arc::new(list)])
                    .build()
                    .map(Arc::new)
            }
        }
    }
}

impl Column {
    pub fn write<W: std::io::Write + Send>(&self, group: &mut SerializedRowGroupWriter<'_, W>) -> Result<()> {
        let Some(mut writer) = group.next_column()? else {
            return Err(parquet::errors::ParquetError::General("fewer columns than declared".into()));
        };
        fn levels(levels: &[i16]) -> Option<&[i16]> {
            (!levels.is_empty()).then_some(levels)
        }
        match self {
            Column::Int32(c) => {
                writer.typed::<Int32Type>().write_batch(&c.values, levels(&c.definition), levels(&c.repetition))?
            }
            Column::Int64(c) => {
                writer.typed::<Int64Type>().write_batch(&c.values, levels(&c.definition), levels(&c.repetition))?
            }
            Column::Bytes(c) => {
                writer.typed::<ByteArrayType>().write_batch(&c.values, levels(&c.definition), levels(&c.repetition))?
            }
        };
        writer.close()
    }

    /// Reads the column at `index` of a row group; the caller has checked that its type is this spec's.
    pub fn read(spec: &Spec, group: &dyn RowGroupReader, index: usize, rows: usize) -> Result<Column> {
        use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
        fn all<T: parquet::data_type::DataType>(
            reader: &mut ColumnReaderImpl<T>,
            shape: Shape,
            rows: usize,
        ) -> Result<Levels<T::T>> {
            let mut out = Levels::default();
            let mut done = 0;
            while done < rows {
                let definition = (shape != Shape::Required).then_some(&mut out.definition);
                let repetition = (shape == Shape::List).then_some(&mut out.repetition);
                let (records, ..) = reader.read_records(rows - done, definition, repetition, &mut out.values)?;
                if records == 0 {
                    return Err(parquet::errors::ParquetError::EOF(format!("{done} of {rows} rows")));
                }
                done += records;
            }
            Ok(out)
        }
        let mismatch = || parquet::errors::ParquetError::General(format!("column {} has another type", spec.name));
        match (group.get_column_reader(index)?, spec.kind) {
            (ColumnReader::Int32ColumnReader(mut r), Kind::U32 | Kind::I32) => {
                Ok(Column::Int32(all(&mut r, spec.shape, rows)?))
            }
            (ColumnReader::Int64ColumnReader(mut r), Kind::U64 | Kind::I64) => {
                Ok(Column::Int64(all(&mut r, spec.shape, rows)?))
            }
            (ColumnReader::ByteArrayColumnReader(mut r), Kind::Text | Kind::Bytes) => {
                Ok(Column::Bytes(all(&mut r, spec.shape, rows)?))
            }
            _ => Err(mismatch()),
        }
    }

    /// A column that a part lacks: every row empty. Only optional columns and lists may be lacking.
    pub fn absent(spec: &Spec, rows: usize) -> Option<Column> {
        let mut column = spec.empty();
        let (definition, repetition) = match &mut column {
            Column::Int32(c) => (&mut c.definition, &mut c.repetition),
            Column::Int64(c) => (&mut c.definition, &mut c.repetition),
            Column::Bytes(c) => (&mut c.definition, &mut c.repetition),
        };
        match spec.shape {
            Shape::Required => return None,
            Shape::Optional => definition.resize(rows, 0),
            Shape::List => {
                definition.resize(rows, 0);
                repetition.resize(rows, 0);
            }
        }
        Some(column)
    }
}

/// Walks a column's rows.
pub struct Cursor<'a> {
    column: &'a Column,
    value: usize,
    level: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(column: &'a Column) -> Self {
        Cursor { column, value: 0, level: 0 }
    }

    fn present<T>(&mut self, levels: &Levels<T>) -> bool {
        let defined = levels.definition.get(self.level).is_some_and(|d| *d > 0);
        self.level += 1;
        defined
    }

    fn next<'b, T>(&mut self, levels: &'b Levels<T>) -> Result<&'b T> {
        let value = levels.values.get(self.value);
        self.value += 1;
        value.ok_or_else(|| parquet::errors::ParquetError::EOF("column ends early".into()))
    }
}

/// A single value in a column.
pub trait Scalar: Sized {
    const KIND: Kind;
    fn put(&self, column: &mut Column);
    fn get(cursor: &mut Cursor<'_>) -> Result<Self>;
}

macro_rules! integer {
    ($type:ty, $kind:ident, $variant:ident, $physical:ty) => {
        impl Scalar for $type {
            const KIND: Kind = Kind::$kind;
            fn put(&self, column: &mut Column) {
                if let Column::$variant(c) = column {
                    c.values.push(*self as $physical);
                }
            }
            fn get(cursor: &mut Cursor<'_>) -> Result<Self> {
                match cursor.column {
                    Column::$variant(c) => cursor.next(c).map(|v| *v as $type),
                    _ => unreachable!("columns are made from the same specs"),
                }
            }
        }
    };
}
integer!(u32, U32, Int32, i32);
integer!(i32, I32, Int32, i32);
integer!(u64, U64, Int64, i64);
integer!(i64, I64, Int64, i64);

macro_rules! bytes {
    ($type:ty, $kind:ident, $put:expr, $get:expr) => {
        impl Scalar for $type {
            const KIND: Kind = Kind::$kind;
            fn put(&self, column: &mut Column) {
                if let Column::Bytes(c) = column {
                    let put: fn(&$type) -> Vec<u8> = $put;
                    c.values.push(ByteArray::from(put(self)));
                }
            }
            fn get(cursor: &mut Cursor<'_>) -> Result<Self> {
                let get: fn(&[u8]) -> $type = $get;
                match cursor.column {
                    Column::Bytes(c) => cursor.next(c).map(|v| get(v.data())),
                    _ => unreachable!("columns are made from the same specs"),
                }
            }
        }
    };
}
bytes!(Vec<u8>, Bytes, |v| v.clone(), |v| v.to_vec());
bytes!(String, Text, |v| v.clone().into_bytes(), |v| { String::from_utf8_lossy(v).into_owned() });
bytes!(Name, Text, |v| v.to_text().into_bytes(), |v| { Name::from_text(&String::from_utf8_lossy(v)) });

/// A field of a row: one or more columns.
pub trait Field: Sized {
    /// Columns it takes.
    const WIDTH: usize = 1;
    fn specs(name: &str) -> Vec<Spec>;
    fn store(&self, columns: &mut [Column]);
    fn load(cursors: &mut [Cursor<'_>]) -> Result<Self>;
}

macro_rules! scalar_fields {
    ($($type:ty),*) => {$(
        impl Field for $type {
            fn specs(name: &str) -> Vec<Spec> {
                vec![Spec { name: name.to_owned(), shape: Shape::Required, kind: <$type>::KIND }]
            }
            fn store(&self, columns: &mut [Column]) {
                self.put(&mut columns[0]);
            }
            fn load(cursors: &mut [Cursor<'_>]) -> Result<Self> {
                <$type>::get(&mut cursors[0])
            }
        }
    )*};
}
scalar_fields!(u32, i32, u64, i64, Vec<u8>, String, Name);

fn define(column: &mut Column, level: i16) {
    match column {
        Column::Int32(c) => c.definition.push(level),
        Column::Int64(c) => c.definition.push(level),
        Column::Bytes(c) => c.definition.push(level),
    }
}

impl<T: Scalar> Field for Option<T> {
    fn specs(name: &str) -> Vec<Spec> {
        vec![Spec { name: name.to_owned(), shape: Shape::Optional, kind: T::KIND }]
    }
    fn store(&self, columns: &mut [Column]) {
        define(&mut columns[0], i16::from(self.is_some()));
        if let Some(value) = self {
            value.put(&mut columns[0]);
        }
    }
    fn load(cursors: &mut [Cursor<'_>]) -> Result<Self> {
        let cursor = &mut cursors[0];
        let present = match cursor.column {
            Column::Int32(c) => cursor.present(c),
            Column::Int64(c) => cursor.present(c),
            Column::Bytes(c) => cursor.present(c),
        };
        present.then(|| T::get(cursor)).transpose()
    }
}

impl Field for [u64; 6] {
    const WIDTH: usize = 6;
    fn specs(_: &str) -> Vec<Spec> {
        (0..6).map(|i| Spec { name: format!("a{i}"), shape: Shape::Required, kind: Kind::U64 }).collect()
    }
    fn store(&self, columns: &mut [Column]) {
        for (value, column) in self.iter().zip(columns) {
            value.put(column);
        }
    }
    fn load(cursors: &mut [Cursor<'_>]) -> Result<Self> {
        let mut out = [0; 6];
        for (value, cursor) in out.iter_mut().zip(cursors) {
            *value = u64::get(cursor)?;
        }
        Ok(out)
    }
}

/// A list of small integers: the only list the format has.
impl Field for Vec<u32> {
    fn specs(name: &str) -> Vec<Spec> {
        vec![Spec { name: name.to_owned(), shape: Shape::List, kind: Kind::U32 }]
    }
    fn store(&self, columns: &mut [Column]) {
        let Column::Int32(c) = &mut columns[0] else {
            return;
        };
        if self.is_empty() {
            c.definition.push(0);
            c.repetition.push(0);
        }
        for (i, value) in self.iter().enumerate() {
            c.definition.push(1);
            c.repetition.push(i16::from(i > 0));
            c.values.push(*value as i32);
        }
    }
    fn load(cursors: &mut [Cursor<'_>]) -> Result<Self> {
        let cursor = &mut cursors[0];
        let Column::Int32(c) = cursor.column else { unreachable!("columns are made from the same specs") };
        let mut out = Vec::new();
        if !cursor.present(c) {
            return Ok(out);
        }
        out.push(*cursor.next(c)? as u32);
        while c.repetition.get(cursor.level).is_some_and(|r| *r > 0) {
            cursor.level += 1;
            out.push(*cursor.next(c)? as u32);
        }
        Ok(out)
    }
}
