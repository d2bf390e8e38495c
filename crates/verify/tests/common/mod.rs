//! Tiny traces, written by hand.
#![allow(dead_code)]

use std::path::Path;

use reprise_trace::{
    Action, DataPolicy, Host, Keep, Kind, Manifest, Name, Process, ThreadRow, TraceReader, TraceWriter, TreeNode,
    WriterOptions, payload,
};

pub const ID: &str = "00000000000000000000000000000001";

/// An action and the content it moved.
#[derive(Clone)]
pub struct Row {
    pub action: Action,
    pub content: Option<Vec<u8>>,
}

pub fn row(call: &str, args: &[u64], result: i64) -> Row {
    let mut all = [0; 6];
    all[..args.len()].copy_from_slice(args);
    let action = Action {
        seq: 0,
        thread: 0,
        call: call.to_owned().into(),
        begin_ns: 0,
        duration_ns: 1,
        args: all,
        result,
        ..Action::default()
    };
    Row { action, content: None }
}

impl Row {
    pub fn path(mut self, path: &str) -> Row {
        self.action.path = Some(Name::from(path));
        self
    }

    pub fn path2(mut self, path: &str) -> Row {
        self.action.path2 = Some(Name::from(path));
        self
    }

    pub fn content(mut self, bytes: &[u8]) -> Row {
        self.content = Some(bytes.to_vec());
        self
    }

    pub fn output(mut self, bytes: &[u8]) -> Row {
        self.action.output.clear();
        payload::append(&mut self.action.output, Some(bytes));
        self
    }

    pub fn input(mut self, bytes: &[u8]) -> Row {
        payload::append(&mut self.action.input, Some(bytes));
        self
    }
}

/// `struct stat`.
pub fn stat(mode: u32, size: u64, inode: u64, uid: u32) -> Vec<u8> {
    let mut b = vec![0; 144];
    b[8..16].copy_from_slice(&inode.to_le_bytes());
    b[16] = 1;
    b[24..28].copy_from_slice(&mode.to_le_bytes());
    b[28..32].copy_from_slice(&uid.to_le_bytes());
    b[48..56].copy_from_slice(&size.to_le_bytes());
    b
}

/// A buffer of `getdents64`.
pub fn entries(names: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    for name in names {
        let length = (19 + name.len() + 1).next_multiple_of(8);
        let mut entry = vec![0; length];
        entry[16..18].copy_from_slice(&(length as u16).to_le_bytes());
        entry[19..19 + name.len()].copy_from_slice(name.as_bytes());
        out.extend(entry);
    }
    out
}

/// A name of the initial tree on device 1.
pub fn node(parent: u64, name: &str, inode: u64, mode: u32, size: u64) -> TreeNode {
    TreeNode {
        seq: 0,
        parent_device: 1,
        parent_inode: parent,
        name: Name::from(name),
        device: 1,
        inode,
        mode,
        nlink: 1,
        uid: me().0,
        gid: me().1,
        size,
        rdev: 0,
        atime_ns: 0,
        mtime_ns: 0,
        ctime_ns: 0,
        target: Name::default(),
        xattrs: Vec::new(),
        filesystem: 0xef53,
    }
}

/// Who runs the test.
pub fn me() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

pub struct Script {
    pub tree: Vec<TreeNode>,
    pub rows: Vec<Row>,
    pub data: DataPolicy,
}

impl Script {
    /// Rows under a root directory with inode 2.
    pub fn new(rows: Vec<Row>) -> Script {
        let mut root = node(0, "", 2, 0o040755, 4096);
        root.nlink = 2;
        Script { tree: vec![root], rows, data: DataPolicy::Full }
    }

    /// Writes the recording.
    pub fn record(&self, dir: &Path) -> TraceReader {
        self.write(&dir.join("a.reprise"), Kind::Record, None)
    }

    /// Writes the trace of a replay; each row still has its number.
    pub fn replay(&self, dir: &Path, change: impl Fn(usize, Row) -> Vec<Row>) -> TraceReader {
        let rows = self.rows.iter().cloned().enumerate().flat_map(|(i, mut row)| {
            row.action.origin = Some(i as u64);
            row.action.handling = Some("issued".to_owned());
            change(i, row)
        });
        let script = Script { tree: Vec::new(), rows: rows.collect(), data: self.data };
        script.write(&dir.join("b.reprise"), Kind::Replay, Some(ID))
    }

    pub fn write(&self, path: &Path, kind: Kind, origin: Option<&str>) -> TraceReader {
        let id = if kind == Kind::Record { ID.to_owned() } else { "2".repeat(32) };
        let mut manifest = Manifest::new(kind, self.data, vec!["test".into()], id, 0, Host::default());
        manifest.origin = origin.map(str::to_owned);
        let mut writer = TraceWriter::create(path, manifest, WriterOptions::default()).unwrap();
        let (uid, gid) = me();
        let process = Process {
            process: 0,
            pid: 1,
            parent: None,
            uids: vec![uid; 4],
            gids: vec![gid; 4],
            groups: vec![],
            umask: 0o022,
            cwd: Name::from("/"),
            root: Name::from("/"),
            executable: Name::from("/test"),
            directories_of: None,
            descriptors_of: None,
        };
        writer.process(process).unwrap();
        let thread = ThreadRow {
            thread: 0,
            process: 0,
            tid: 1,
            parent: None,
            created_by: None,
            shares_descriptors: 0,
            shares_directories: 0,
            begin_ns: 0,
            name: Name::from("test"),
            lane_of: None,
        };
        writer.thread(thread).unwrap();
        for node in &self.tree {
            writer.node(node.clone()).unwrap();
        }
        for (i, row) in self.rows.iter().enumerate() {
            let mut action = row.action.clone();
            action.seq = i as u64;
            action.begin_ns = i as u64 * 10;
            if let Some(content) = &row.content {
                let keep = if action.call.contains("getdents") { Keep::Always } else { Keep::ByPolicy };
                action.data = writer.blob(content, keep).unwrap();
                action.data_bytes = content.len() as u64;
            }
            writer.action(action).unwrap();
        }
        writer.close(None).unwrap();
        TraceReader::open(path).unwrap()
    }
}
