//! The trace: an ordinary directory of columnar files, described in `docs/FORMAT.md`.
//!
//! Goals: written streamed in bounded memory, readable by other tools, every loss counted, damage detected before
//! a byte of it is believed. Non-goals: knowing kernels, ordering or policy.

mod blobs;
mod catalog;
mod column;
mod dedup;
mod environment;
mod error;
mod gathered;
mod ledger;
mod lookup;
mod manifest;
mod name;
mod origin;
mod part;
pub mod payload;
mod place;
mod reader;
mod rows;
mod sink;
mod spill;
mod table;
mod texts;
mod writer;

pub use blobs::{BlobReader, CHUNK_BYTES, HEAD_BYTES, Head, Payload};
pub use catalog::Part;
pub use environment::{DeviceSample, Environment, Mount, QueueSetting};
pub use error::{FILE_LIMIT, ReadError, WriteError, is_full, write_remedy};
pub use ledger::{Entry, Ledger, Loss};
pub use lookup::Lookup;
pub use manifest::{
    COMPLETE, CUT, DataPolicy, END, End, FIRST_ACTION, FORMAT_MAJOR, FORMAT_MINOR, Host, IN_THE_KERNEL, Kind,
    MAPPED_STORES, MEMORY_LIMIT, Manifest, RESPONSE_TIME, SPOOL, bytes_of_kib, kib_text,
};
pub use name::Name;
pub use origin::{file_system_name, random_identity};
pub use place::{contents_elsewhere, discard};
pub use reader::{Rows, TraceReader};
pub use rows::{
    AMID, Action, BlobRow, CallName, Content, Descriptor, Lock, Mapping, Process, ThreadRow, TreeNode, decode_xattrs,
    encode_xattrs,
};
pub use table::{Row, column_names, decode_part};
pub use texts::{ColumnText, TableText, table_texts};
pub use writer::{Keep, TraceWriter, WriterOptions};
