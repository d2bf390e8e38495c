//! What a reader is told of the tables: their columns, types and meanings, from the declarations of the rows themselves.

use crate::column::{Kind, Shape, Spec};
use crate::environment::{DeviceSample, Environment, Mount, QueueSetting};
use crate::rows::{Action, BlobRow, Content, Descriptor, Lock, Mapping, Process, ThreadRow, TreeNode};
use crate::table::Row;

/// What a reader is told of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableText {
    /// Its name, and the folder of its parts.
    pub name: &'static str,
    /// What a row is.
    pub doc: &'static str,
    /// Its columns, in order.
    pub columns: Vec<ColumnText>,
}

/// What a reader is told of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnText {
    /// Its name.
    pub name: String,
    /// The type of its values: `?` behind it if a row may have none, `list of` before it if a row may have several.
    pub kind: String,
    /// What they mean, with their unit.
    pub doc: &'static str,
}

/// All tables of the format, in the order of `docs/FORMAT.md`.
pub fn table_texts() -> Vec<TableText> {
    vec![
        text::<Action>(),
        text::<ThreadRow>(),
        text::<Process>(),
        text::<Descriptor>(),
        text::<Lock>(),
        text::<Mapping>(),
        text::<TreeNode>(),
        text::<Content>(),
        text::<BlobRow>(),
        text::<Environment>(),
        text::<DeviceSample>(),
        text::<Mount>(),
        text::<QueueSetting>(),
    ]
}

fn text<R: Row>() -> TableText {
    let columns = R::documented().into_iter().map(|(spec, doc)| ColumnText {
        kind: kind(&spec),
        name: spec.name,
        doc: doc.trim(),
    });
    TableText { name: R::TABLE, doc: R::DOC.trim(), columns: columns.collect() }
}

fn kind(spec: &Spec) -> String {
    let kind = match spec.kind {
        Kind::U32 => "u32",
        Kind::I32 => "i32",
        Kind::U64 => "u64",
        Kind::I64 => "i64",
        Kind::Text => "text",
        Kind::Bytes => "bytes",
    };
    match spec.shape {
        Shape::Required => kind.to_owned(),
        Shape::Optional => format!("{kind}?"),
        Shape::List => format!("list of {kind}"),
    }
}
