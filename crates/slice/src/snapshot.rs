//! The state at a moment, with all that the whole trace tells about it.
//!
//! What the program met only later was there before: names and contents of the initial tree that the trace learns of after
//! the moment are added when it has been followed to its end.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use reprise_calls::brought::{is_stand_in, of_before, stand_in};
use reprise_calls::memory::{SHARED, code};
use reprise_model::{
    Attributes, FileKind, Nature, NodeId, Piece, PresentDescriptor, PresentMapping, PresentName, PresentThread, Source,
    World,
};
use reprise_trace::{ReadError, TraceReader};

use crate::SliceError;

/// A range of a file whose bytes are in a blob of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// The blob.
    pub blob: u32,
    /// Offset in it.
    pub at: u32,
}

/// A file at a moment.
#[derive(Debug, Clone)]
pub struct File {
    /// Its type.
    pub kind: FileKind,
    /// Its nature.
    pub nature: Nature,
    /// Its attributes.
    pub attributes: Attributes,
    /// Size in bytes.
    pub size: u64,
    /// Text of a symbolic link.
    pub target: Vec<u8>,
    /// Device and inode in the recording; `None` for a file that the program made.
    pub identity: Option<(u64, u64)>,
    /// It may have changed through a shared mapping.
    pub mapped: bool,
    /// What is known of its content, ascending; complete after [`Snapshot::complete`].
    pub content: Vec<Known>,
    /// Bytes that nobody ever read: they were in the initial tree, and the trace does not hold them.
    pub unknown_bytes: u64,
    /// Bytes that were written without their value being in the trace.
    pub unrecorded_bytes: u64,
    pieces: Vec<Piece>,
}

/// The state at a moment.
#[derive(Debug)]
pub struct Snapshot {
    /// Every name, parents before children.
    pub names: Vec<PresentName>,
    /// Every file that has a name or is open.
    pub files: BTreeMap<NodeId, File>,
    /// The threads that live.
    pub threads: Vec<PresentThread>,
    /// Their open descriptors, by table.
    pub tables: BTreeMap<u32, Vec<PresentDescriptor>>,
    /// What they have mapped of files, by address space; not what belongs to running programs.
    pub mappings: BTreeMap<u32, Vec<PresentMapping>>,
    met: usize,
}

/// Without programs and libraries: private mappings of files of which code is mapped.
fn data(all: Vec<PresentMapping>) -> Vec<PresentMapping> {
    let code = code(all.iter().map(|m| (m.node, m.protection)));
    all.into_iter().filter(|m| m.flags & SHARED != 0 || !code.contains(&m.node)).collect()
}

impl Snapshot {
    /// The state now.
    pub fn take(world: &World) -> Snapshot {
        let names = world.present_names();
        let threads = world.present_threads();
        let tables: BTreeMap<u32, Vec<PresentDescriptor>> =
            threads.iter().map(|t| (t.table, world.present_descriptors(t.table))).collect();
        let mappings: BTreeMap<u32, Vec<PresentMapping>> =
            threads.iter().map(|t| (t.space, data(world.present_mappings(t.space)))).collect();
        let identities = world.identities();
        let open = tables.values().flatten().filter_map(|d| d.node);
        let mapped = mappings.values().flatten().map(|m| m.node);
        let files = names.iter().map(|n| n.node).chain(open).chain(mapped);
        let files = files.map(|node| (node, File::now(world, node, identities.get(&node).copied()))).collect();
        Snapshot { names, files, threads, tables, mappings, met: world.met_names().len() }
    }

    /// Adds what was learnt since; `world` has followed the trace to its end.
    pub fn complete(&mut self, world: &World) {
        self.add_later_names(world);
        for file in self.files.values_mut() {
            file.resolve(world);
        }
    }

    fn add_later_names(&mut self, world: &World) {
        let identities = world.identities();
        let mut paths: HashMap<NodeId, Vec<u8>> = self.names.iter().map(|n| (n.node, n.path.clone())).collect();
        let mut taken: HashSet<(NodeId, Vec<u8>)> =
            self.names.iter().filter_map(|n| Some((n.parent?, n.name.clone()))).collect();
        for (parent, name, node) in &world.met_names()[self.met.min(world.met_names().len())..] {
            let directory = self.files.get(parent).is_some_and(|f| f.kind == FileKind::Directory);
            let (true, Some(above)) = (directory, paths.get(parent)) else { continue };
            if !taken.insert((*parent, name.clone())) {
                continue;
            }
            let prefix: &[u8] = if above == b"/" { b"" } else { above };
            let path = [prefix, b"/", name].concat();
            self.files.entry(*node).or_insert_with(|| File::at_first(world, *node, identities.get(node).copied()));
            paths.entry(*node).or_insert_with(|| path.clone());
            self.names.push(PresentName { parent: Some(*parent), name: name.clone(), path, node: *node });
        }
    }

    /// What stands for file systems has the name that the calls look for that are in the slice.
    pub(crate) fn name_stand_ins(&mut self, names: &HashMap<Vec<u8>, Vec<u8>>) {
        let rename = |path: &mut Vec<u8>| {
            let first = path.split(|b| *b == b'/').nth(1).filter(|first| is_stand_in(first)).map(<[u8]>::to_vec);
            if let Some(first) = first {
                let new = names.get(&first).cloned().unwrap_or_else(|| of_before(&first));
                path.splice(1..1 + first.len(), new);
            }
        };
        for present in &mut self.names {
            let is_itself = present.path.len() == 1 + present.name.len();
            rename(&mut present.path);
            if is_itself {
                present.name = present.path[1..].to_vec();
            }
        }
        self.threads.iter_mut().flat_map(|thread| [&mut thread.cwd, &mut thread.root]).flatten().for_each(rename);
    }

    /// A name of a file.
    pub fn path(&self, node: NodeId) -> Option<&[u8]> {
        self.names.iter().find(|n| n.node == node).map(|n| &n.path[..])
    }

    /// Names by path, without what lies below the root of a pseudo file system.
    pub fn ordinary_names(&self) -> Vec<&PresentName> {
        let mut pseudo: HashSet<NodeId> = HashSet::new();
        let mut out = Vec::new();
        for name in &self.names {
            let hidden = name.parent.is_some_and(|parent| pseudo.contains(&parent));
            if hidden || self.files.get(&name.node).is_some_and(|f| f.nature == Nature::Pseudo) {
                pseudo.insert(name.node);
            }
            if !hidden {
                out.push(name);
            }
        }
        out.sort_by(|a, b| a.path.split(|c| *c == b'/').cmp(b.path.split(|c| *c == b'/')));
        out
    }
}

impl File {
    fn now(world: &World, node: NodeId, identity: Option<(u64, u64)>) -> File {
        let file = world.present_file(node);
        File {
            kind: file.kind,
            nature: file.nature,
            attributes: file.attributes.clone(),
            size: file.size,
            target: file.target.to_vec(),
            identity,
            mapped: file.mapped,
            content: Vec::new(),
            unknown_bytes: 0,
            unrecorded_bytes: 0,
            pieces: file.content,
        }
    }

    /// A file that nothing had touched at the moment: as it was in the initial tree.
    fn at_first(world: &World, node: NodeId, identity: Option<(u64, u64)>) -> File {
        let mut file = File::now(world, node, identity);
        if let Some((attributes, size, target)) = world.initial_file(node) {
            (file.attributes, file.size, file.target) = (attributes.clone(), size, target.to_vec());
        }
        file.mapped = false;
        let source = Source::Initial { node, at: 0 };
        file.pieces = vec![Piece { offset: 0, length: file.size, source }];
        file
    }

    fn resolve(&mut self, world: &World) {
        let size = self.size;
        for piece in std::mem::take(&mut self.pieces) {
            let length = piece.length.min(size.saturating_sub(piece.offset));
            match piece.source {
                _ if length == 0 => {}
                Source::Zero => {}
                Source::Written | Source::Lost => self.unrecorded_bytes += length,
                Source::Blob { blob, at } => self.content.push(Known { offset: piece.offset, length, blob, at }),
                Source::Initial { node, at: from } => {
                    let mut known = 0;
                    for found in world.initial_content(node, from, length) {
                        if let Source::Blob { blob, at } = found.source {
                            known += found.length;
                            let offset = piece.offset + (found.offset - from);
                            self.content.push(Known { offset, length: found.length, blob, at });
                        }
                    }
                    self.unknown_bytes += length.saturating_sub(known);
                }
            }
        }
    }
}

/// The state before the action with this number. `progress` is told the actions done.
///
/// # Errors
/// When the trace cannot be read.
pub fn snapshot_at(trace: &TraceReader, cut: u64, progress: &mut dyn FnMut(u64)) -> Result<Snapshot, SliceError> {
    let mut walk = Walk::begin(trace, cut)?;
    for action in trace.actions() {
        let action = action?;
        if action.seq % 4096 == 0 {
            progress(action.seq);
        }
        walk.follow(&action)?;
    }
    Ok(walk.finish()?.0)
}

/// A trace followed past a moment, at which the state is kept.
pub(crate) struct Walk {
    pub world: World,
    pub blobs: reprise_trace::BlobReader,
    cut: u64,
    taken: Option<Snapshot>,
    lives: Lives,
    /// The calls that brought a file system, each with the name of what stands for that.
    brought: Vec<(u64, Vec<u8>)>,
    /// As they were at the moment.
    kept: Lives,
}

/// What processes are, beyond what the model follows, where they changed it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lives {
    /// Further groups, at the moment.
    pub groups: HashMap<u32, Arc<[u32]>>,
    /// The program.
    pub programs: HashMap<u32, Vec<u8>>,
}

impl Lives {
    fn inherit(&mut self, parent: u32, child: u32) {
        let program = self.programs.get(&parent).cloned();
        self.programs.extend(program.map(|program| (child, program)));
    }
}

impl Walk {
    pub fn begin(trace: &TraceReader, cut: u64) -> Result<Walk, SliceError> {
        let world = World::begin(trace, true)?;
        let blobs = trace.blobs();
        Ok(Walk {
            world,
            blobs,
            cut,
            taken: None,
            lives: Lives::default(),
            brought: Vec::new(),
            kept: Lives::default(),
        })
    }

    /// Follows the next action.
    pub fn follow(&mut self, action: &reprise_trace::Action) -> Result<(), SliceError> {
        if action.seq >= self.cut {
            self.keep();
        }
        let Some(call) = reprise_calls::by_name(&action.call) else { return Ok(()) };
        let process = self.world.present_process(action.thread);
        let program = (call.effect == reprise_calls::Effect::Execute && action.result >= 0)
            .then(|| self.world.argument_path(call, action, 0))
            .flatten();
        let brought = self.world.brought();
        let (found, _) = self.world.follow_attributes(call, action, &mut self.blobs)?;
        if self.world.brought() > brought {
            self.brought.push((action.seq, stand_in(self.world.brought())));
        }
        let Some(process) = process else { return Ok(()) };
        if let Some(program) = program {
            self.lives.programs.insert(process, program);
        }
        let child = found.spawned.and_then(|child| self.world.present_process(child));
        if let Some(child) = child.filter(|child| *child != process) {
            self.lives.inherit(process, child);
        }
        Ok(())
    }

    /// The names of what stands for file systems, and those in a slice that has some of the actions.
    pub fn stand_ins(&self, is_taken: impl Fn(u64) -> bool) -> HashMap<Vec<u8>, Vec<u8>> {
        let taken = self.brought.iter().filter(|(seq, _)| is_taken(*seq));
        taken.zip(1..).map(|((_, name), number)| (name.clone(), stand_in(number))).collect()
    }

    fn keep(&mut self) {
        if self.taken.is_none() {
            self.taken = Some(Snapshot::take(&self.world));
            self.kept = Lives { groups: self.world.further_groups().clone(), ..self.lives.clone() };
        }
    }

    /// The state at the moment with all that was learnt, and the world at the end.
    pub fn finish(mut self) -> Result<(Snapshot, Lives, World), ReadError> {
        self.keep();
        self.world.finish()?;
        let mut snapshot = self.taken.take().unwrap_or_else(|| Snapshot::take(&self.world));
        snapshot.complete(&self.world);
        Ok((snapshot, self.kept, self.world))
    }
}
