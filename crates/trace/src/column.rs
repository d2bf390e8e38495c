//! Columns in memory, and the Rust types that fill them.
//!
//! A field of a row is one column (`[u64; 6]` is six). Types map to Parquet so that other tools show them well:
//! unsigned integers carry their logical type, names are UTF-8 text, lists are standard three-level lists.

use parquet::basic::{ConvertedType, LogicalType, Repetition, Type as Physical};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::writer::SerializedRowGroupWriter;
use parquet::schema::types::{ColumnPath, Type, TypePtr};
use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;

use crate::name::Name;
use crate::rows::CallName;

/// Values of one column of one row group, with definition and repetition levels where it needs them.
#[derive(Debug, Clone)]
pub enum Column {
    Int32(Levels<i32>),
    Int64(Levels<i64>),
    Bytes(Levels<ByteArray>),
}

/// Values and levels, and how many of them were loaded into rows.
#[derive(Debug, Clone)]
pub struct Levels<T> {
    pub values: Vec<T>,
    pub definition: Vec<i16>,
    pub repetition: Vec<i16>,
    /// Rows without a value that came last: their levels are written when a value comes, or all rows are there.
    absent: usize,
    /// Digests, one after the other, of which values are made when all rows are there: by the thread that gives their memory back.
    digests: Vec<u8>,
    next_value: usize,
    next_level: usize,
}

impl<T> Default for Levels<T> {
    fn default() -> Self {
        let (values, definition, repetition) = Default::default();
        Levels { values, definition, repetition, absent: 0, digests: Vec::new(), next_value: 0, next_level: 0 }
    }
}

impl<T> Levels<T> {
    /// Empty, for so many rows that have mostly one value each if they need to, else none.
    fn room_for(rows: usize, shape: Shape) -> Levels<T> {
        let (values, levels) = if shape == Shape::Required { (rows, 0) } else { (0, rows) };
        let repetition = Vec::with_capacity(if shape == Shape::List { levels } else { 0 });
        Levels {
            values: Vec::with_capacity(values),
            definition: Vec::with_capacity(levels),
            repetition,
            ..Levels::default()
        }
    }

    fn clear(&mut self) {
        self.values.clear();
        self.digests.clear();
        self.definition.clear();
        self.repetition.clear();
        (self.absent, self.next_value, self.next_level) = (0, 0, 0);
    }

    /// Writes the levels of rows without a value.
    fn complete(&mut self, shape: Shape) {
        let absent = std::mem::take(&mut self.absent);
        if absent == 0 {
            return;
        }
        let rows = self.definition.len() + absent;
        self.definition.resize(rows, 0);
        if shape == Shape::List {
            self.repetition.resize(rows, 0);
        }
    }

    /// Of a row that has at most one value: whether it has one.
    #[inline(always)]
    fn define(&mut self, is_there: bool) {
        if is_there {
            self.complete(Shape::Optional);
            self.definition.push(1);
        } else {
            self.absent += 1;
        }
    }

    /// Whether the next row has a value.
    fn present(&mut self) -> bool {
        let defined = self.definition.get(self.next_level).is_some_and(|d| *d > 0);
        self.next_level += 1;
        defined
    }

    /// Whether another value of the same row follows.
    fn repeated(&mut self) -> bool {
        let repeated = self.repetition.get(self.next_level).is_some_and(|r| *r > 0);
        self.next_level += usize::from(repeated);
        repeated
    }

    fn next(&mut self) -> Result<&T> {
        let value = self.values.get(self.next_value);
        self.next_value += 1;
        value.ok_or_else(|| ParquetError::EOF("column ends early".into()))
    }
}

/// Bytes of a digest.
const DIGEST: usize = 32;

impl Levels<ByteArray> {
    fn make_digests(&mut self) {
        let all = Bytes::from(std::mem::take(&mut self.digests));
        let each = (0..all.len()).step_by(DIGEST).map(|at| ByteArray::from(all.slice(at..at + DIGEST)));
        self.values.extend(each);
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

/// Whether all are the same.
fn are_uniform<T: PartialEq>(values: &[T]) -> bool {
    values.first().is_none_or(|first| values.iter().all(|value| value == first))
}

/// Bits a number that differences may take more than a dictionary: the time makes up for them.
const SPARED: u32 = 2;

/// What differences take is seen of a few runs of the numbers, each as long as they are packed together.
fn suit_differences<T: Copy + Into<i64>>(values: &[T]) -> bool {
    const RUN: usize = 64;
    const RUNS: usize = 16;
    let step = (values.len() / RUNS).max(RUN);
    let (mut bits, mut taken) = (0, 0);
    for run in values.chunks(step).map(|of| &of[..of.len().min(RUN)]) {
        let differences = run.windows(2).map(|two| two[1].into().wrapping_sub(two[0].into()));
        bits += width(differences) * run.len() as u32;
        taken += run.len() as u32;
    }
    let bits = bits / taken.max(1);
    bits <= SPARED || bits <= dictionary_bits(values) + SPARED
}

/// Bits that tell numbers between the least and the greatest of these.
fn width(numbers: impl Iterator<Item = i64>) -> u32 {
    let (least, most) = numbers.fold((i64::MAX, i64::MIN), |(least, most), n| (least.min(n), most.max(n)));
    if least <= most { u64::BITS - (most.wrapping_sub(least) as u64).leading_zeros() } else { 0 }
}

/// Bits that a dictionary takes for a number of these: its place there, and its share of what stands there.
fn dictionary_bits<T: Copy + Into<i64>>(values: &[T]) -> u32 {
    const PLACES: usize = 1 << 16;
    // How many are different is estimated by how many places they hit (linear counting).
    let mut hit = vec![0u64; PLACES / 64];
    for value in values {
        let at = ((*value).into() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
        hit[at as usize / 64] |= 1 << (at % 64);
    }
    let hits: u32 = hit.iter().map(|word| word.count_ones()).sum();
    let free = (PLACES as f64 - f64::from(hits)).max(1.0) / PLACES as f64;
    let different = (-free.ln() * PLACES as f64).min(values.len() as f64);
    let stands = different * f64::from(width(values.iter().map(|value| (*value).into())));
    (different.max(1.0).log2() + stands / values.len().max(1) as f64) as u32
}

impl Spec {
    pub fn empty(&self) -> Column {
        self.room_for(0)
    }

    /// An empty column for so many rows.
    pub fn room_for(&self, rows: usize) -> Column {
        match self.kind {
            Kind::U32 | Kind::I32 => Column::Int32(Levels::room_for(rows, self.shape)),
            Kind::U64 | Kind::I64 => Column::Int64(Levels::room_for(rows, self.shape)),
            Kind::Text | Kind::Bytes => Column::Bytes(Levels::room_for(rows, self.shape)),
        }
    }

    /// Name of the leaf in the schema, as the reader sees it.
    pub fn leaf(&self) -> String {
        match self.shape {
            Shape::List => format!("{}.list.element", self.name),
            Shape::Required | Shape::Optional => self.name.clone(),
        }
    }

    /// The leaf, for its properties.
    pub fn path(&self) -> ColumnPath {
        ColumnPath::new(self.leaf().split('.').map(str::to_owned).collect())
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
            return Err(ParquetError::General("fewer columns than declared".into()));
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

    /// All rows are there.
    pub fn complete(&mut self, spec: &Spec) {
        match self {
            Column::Int32(c) => c.complete(spec.shape),
            Column::Int64(c) => c.complete(spec.shape),
            Column::Bytes(c) => {
                c.complete(spec.shape);
                c.make_digests();
            }
        }
    }

    /// Whether its numbers are told by their differences about as shortly as by a dictionary, which takes far longer to make.
    pub fn suits_differences(&self) -> bool {
        match self {
            Column::Int32(c) => suit_differences(&c.values),
            Column::Int64(c) => suit_differences(&c.values),
            Column::Bytes(_) => false,
        }
    }

    /// Whether all its values are the same.
    pub fn is_uniform(&self) -> bool {
        match self {
            Column::Int32(c) => are_uniform(&c.values),
            Column::Int64(c) => are_uniform(&c.values),
            Column::Bytes(c) => are_uniform(&c.values),
        }
    }

    /// Empties it; its memory is used again.
    pub fn clear(&mut self) {
        match self {
            Column::Int32(c) => c.clear(),
            Column::Int64(c) => c.clear(),
            Column::Bytes(c) => c.clear(),
        }
    }

    /// Reads so many rows from a row group's column, which must be of this spec's type.
    pub fn read(&mut self, spec: &Spec, reader: &mut ColumnReader, rows: usize) -> Result<()> {
        fn all<T: DataType>(
            reader: &mut ColumnReaderImpl<T>,
            out: &mut Levels<T::T>,
            shape: Shape,
            rows: usize,
        ) -> Result<()> {
            let mut done = 0;
            while done < rows {
                let definition = (shape != Shape::Required).then_some(&mut out.definition);
                let repetition = (shape == Shape::List).then_some(&mut out.repetition);
                let (records, ..) = reader.read_records(rows - done, definition, repetition, &mut out.values)?;
                if records == 0 {
                    return Err(ParquetError::EOF(format!("{done} of {rows} rows")));
                }
                done += records;
            }
            Ok(())
        }
        match (reader, self) {
            (ColumnReader::Int32ColumnReader(r), Column::Int32(c)) => all(r, c, spec.shape, rows),
            (ColumnReader::Int64ColumnReader(r), Column::Int64(c)) => all(r, c, spec.shape, rows),
            (ColumnReader::ByteArrayColumnReader(r), Column::Bytes(c)) => all(r, c, spec.shape, rows),
            _ => Err(ParquetError::General(format!("column {} has another type", spec.name))),
        }
    }

    /// Stands for a column that a part lacks: every row empty. Only optional columns and lists may be lacking.
    pub fn lack(&mut self, spec: &Spec, rows: usize) -> Result<()> {
        let (definition, repetition) = match self {
            Column::Int32(c) => (&mut c.definition, &mut c.repetition),
            Column::Int64(c) => (&mut c.definition, &mut c.repetition),
            Column::Bytes(c) => (&mut c.definition, &mut c.repetition),
        };
        match spec.shape {
            Shape::Required => return Err(ParquetError::General(format!("column {} is missing", spec.name))),
            Shape::Optional => definition.resize(rows, 0),
            Shape::List => {
                definition.resize(rows, 0);
                repetition.resize(rows, 0);
            }
        }
        Ok(())
    }
}

/// A single value in a column.
pub trait Scalar: Default {
    const KIND: Kind;
    fn put(self, column: &mut Column);
    /// Becomes the column's next value; its memory is used again.
    fn get(&mut self, column: &mut Column) -> Result<()>;
}

macro_rules! integer {
    ($type:ty, $kind:ident, $variant:ident, $physical:ty) => {
        impl Scalar for $type {
            const KIND: Kind = Kind::$kind;
            fn put(self, column: &mut Column) {
                if let Column::$variant(c) = column {
                    c.values.push(self as $physical);
                }
            }
            fn get(&mut self, column: &mut Column) -> Result<()> {
                match column {
                    Column::$variant(c) => c.next().map(|v| *self = *v as $type),
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

/// What is empty lies where there is memory: to compare it elsewhere, although there is nothing to compare, is dear (the processor's
/// instruction that compares as many bytes as are wanted is then carried out step by step).
fn somewhere(value: impl AsRef<[u8]> + Into<Bytes>) -> Bytes {
    static PLACE: [u8; 1] = [0];
    if value.as_ref().is_empty() { Bytes::from_static(&PLACE[..0]) } else { value.into() }
}

macro_rules! bytes {
    ($type:ty, $kind:ident, $put:expr, $get:expr) => {
        impl Scalar for $type {
            const KIND: Kind = Kind::$kind;
            fn put(self, column: &mut Column) {
                if let Column::Bytes(c) = column {
                    c.values.push(ByteArray::from($put(self)));
                }
            }
            fn get(&mut self, column: &mut Column) -> Result<()> {
                let get: fn(&mut $type, &[u8]) = $get;
                match column {
                    Column::Bytes(c) => c.next().map(|v| get(self, v.data())),
                    _ => unreachable!("columns are made from the same specs"),
                }
            }
        }
    };
}
bytes!(Vec<u8>, Bytes, somewhere, |out, v| {
    out.clear();
    out.extend_from_slice(v);
});
bytes!(Bytes, Bytes, somewhere, |out, v| *out = Bytes::copy_from_slice(v));
bytes!(String, Text, somewhere, |out, v| {
    out.clear();
    out.push_str(&String::from_utf8_lossy(v));
});
bytes!(
    CallName,
    Text,
    |v| match v {
        Cow::Borrowed(name) => somewhere(name),
        Cow::Owned(name) => somewhere(name),
    },
    |out, v| {
        let text = out.to_mut();
        text.clear();
        text.push_str(&String::from_utf8_lossy(v));
    }
);
bytes!(Name, Text, |v: Name| somewhere(v.to_text()), |out, v| out.read_text(v));

/// A digest.
impl Scalar for [u8; DIGEST] {
    const KIND: Kind = Kind::Bytes;
    fn put(self, column: &mut Column) {
        if let Column::Bytes(c) = column {
            c.digests.extend_from_slice(&self);
        }
    }
    fn get(&mut self, column: &mut Column) -> Result<()> {
        let Column::Bytes(c) = column else { unreachable!("columns are made from the same specs") };
        let digest = c.next()?.data().try_into();
        *self = digest.map_err(|_| ParquetError::General("a digest is not 32 bytes".into()))?;
        Ok(())
    }
}

/// A field of a row: one or more columns.
pub trait Field: Sized {
    /// Columns it takes.
    const WIDTH: usize = 1;
    fn specs(name: &str) -> Vec<Spec>;
    /// Becomes the next value of the columns; it is left empty.
    fn store(&mut self, columns: &mut [Column]);
    /// Becomes what the next row has; its memory is used again.
    fn load(&mut self, columns: &mut [Column]) -> Result<()>;
}

macro_rules! scalar_fields {
    ($($type:ty),*) => {$(
        impl Field for $type {
            fn specs(name: &str) -> Vec<Spec> {
                vec![Spec { name: name.to_owned(), shape: Shape::Required, kind: <$type>::KIND }]
            }
            fn store(&mut self, columns: &mut [Column]) {
                std::mem::take(self).put(&mut columns[0]);
            }
            fn load(&mut self, columns: &mut [Column]) -> Result<()> {
                self.get(&mut columns[0])
            }
        }
    )*};
}
scalar_fields!(u32, i32, u64, i64, [u8; 32], Vec<u8>, String, CallName, Name);

#[inline(always)]
fn define(column: &mut Column, is_there: bool) {
    match column {
        Column::Int32(c) => c.define(is_there),
        Column::Int64(c) => c.define(is_there),
        Column::Bytes(c) => c.define(is_there),
    }
}

impl<T: Scalar> Field for Option<T> {
    fn specs(name: &str) -> Vec<Spec> {
        vec![Spec { name: name.to_owned(), shape: Shape::Optional, kind: T::KIND }]
    }
    fn store(&mut self, columns: &mut [Column]) {
        define(&mut columns[0], self.is_some());
        // Where there is none, nothing need be written back.
        if self.is_some()
            && let Some(value) = self.take()
        {
            value.put(&mut columns[0]);
        }
    }
    fn load(&mut self, columns: &mut [Column]) -> Result<()> {
        let column = &mut columns[0];
        let present = match column {
            Column::Int32(c) => c.present(),
            Column::Int64(c) => c.present(),
            Column::Bytes(c) => c.present(),
        };
        if present {
            return self.get_or_insert_default().get(column);
        }
        *self = None;
        Ok(())
    }
}

impl Field for [u64; 6] {
    const WIDTH: usize = 6;
    fn specs(_: &str) -> Vec<Spec> {
        (0..6).map(|i| Spec { name: format!("a{i}"), shape: Shape::Required, kind: Kind::U64 }).collect()
    }
    fn store(&mut self, columns: &mut [Column]) {
        for (value, column) in std::mem::take(self).into_iter().zip(columns) {
            value.put(column);
        }
    }
    fn load(&mut self, columns: &mut [Column]) -> Result<()> {
        self.iter_mut().zip(columns).try_for_each(|(value, column)| value.get(column))
    }
}

/// A list of small integers: the only list the format has.
impl Field for Vec<u32> {
    fn specs(name: &str) -> Vec<Spec> {
        vec![Spec { name: name.to_owned(), shape: Shape::List, kind: Kind::U32 }]
    }
    fn store(&mut self, columns: &mut [Column]) {
        let Column::Int32(c) = &mut columns[0] else {
            return;
        };
        if self.is_empty() {
            c.absent += 1;
            return;
        }
        c.complete(Shape::List);
        for (i, value) in std::mem::take(self).into_iter().enumerate() {
            c.definition.push(1);
            c.repetition.push(i16::from(i > 0));
            c.values.push(value as i32);
        }
    }
    fn load(&mut self, columns: &mut [Column]) -> Result<()> {
        let Column::Int32(c) = &mut columns[0] else { unreachable!("columns are made from the same specs") };
        self.clear();
        if c.present() {
            self.push(*c.next()? as u32);
            while c.repeated() {
                self.push(*c.next()? as u32);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_uniform_where_no_value_differs() {
        let text = |word: &'static str| ByteArray::from(Bytes::from_static(word.as_bytes()));
        let bytes = |values| Column::Bytes(Levels { values, ..Levels::default() }).is_uniform();
        assert!(bytes(vec![text("read"); 3]) && bytes(vec![text("")]) && bytes(Vec::new()));
        assert!(!bytes(vec![text("read"), text("read"), text("write")]));
        let numbers = |values| Column::Int64(Levels { values, ..Levels::default() }).is_uniform();
        assert!(numbers(vec![7; 3]) && !numbers(vec![7, 7, 8]));
    }

    #[test]
    fn few_numbers_far_apart_are_told_by_a_dictionary() {
        let column = |number: fn(i64) -> i64| {
            let values = (0..20_000).map(number).collect();
            Column::Int64(Levels { values, ..Levels::default() }).suits_differences()
        };
        assert!(column(|_| 4096) && column(|n| n) && column(|n| n % 7));
        assert!(column(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64)), "as many numbers as there are rows");
        let pointers: fn(i64) -> i64 =
            |n| [0x7f00_0000_1000, 0x5500_0000_2000, 0x7fff_0000_3000][n as usize * 5 % 7 % 3];
        assert!(!column(pointers));
        assert!(!Column::Bytes(Levels::default()).suits_differences());
        assert!(Column::Int32(Levels::default()).suits_differences());
    }
}
