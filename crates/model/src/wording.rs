//! Resources in words.

use crate::node::NodeId;
use crate::touch::Resource;
use crate::world::World;

impl World {
    /// What a resource is, for people: `file /a/b`, `name /a/b`. The path is the present one.
    pub fn describe(&self, resource: Resource) -> String {
        let file = |node: NodeId| self.shown_path(node);
        match resource {
            Resource::File(node) => format!("file {}", file(node)),
            Resource::Content(node) => format!("bytes of {}", file(node)),
            Resource::Size(node) => format!("size of {}", file(node)),
            Resource::Attributes(node) => format!("attributes of {}", file(node)),
            Resource::Locks(node) => format!("locks on {}", file(node)),
            Resource::Entry(entry) => {
                let entry = &self.names.entries[entry as usize];
                let path = self.names.path_of(entry.directory, &entry.name).unwrap_or_else(|| entry.name.to_vec());
                format!("name {}", String::from_utf8_lossy(&path))
            }
            Resource::Names(node) => format!("names in {}", file(node)),
            Resource::Descriptor(generation) => format!("descriptor {}", self.shown_descriptor(generation)),
            Resource::CloseOnExec(generation) => {
                format!("close-on-exec of descriptor {}", self.shown_descriptor(generation))
            }
            Resource::Offset(_) => "an offset that descriptors share".to_owned(),
            Resource::Flags(_) => "flags of an open file (O_APPEND …)".to_owned(),
            Resource::Stream(stream) => format!("stream {stream}"),
            Resource::Request(number) => format!("asynchronous request {number}"),
            Resource::Mapping(mapping) => format!("mapping {mapping}"),
            Resource::Forgotten(_) => "names that were absent for long".to_owned(),
            Resource::Table(table) => format!("descriptor table {table}"),
            Resource::Directories(_) => "working directory, root or mask".to_owned(),
            Resource::Process(process) => format!("process {process}"),
        }
    }

    fn shown_path(&self, node: NodeId) -> String {
        let entry = self.names.node(node).attached.map(|entry| &self.names.entries[entry as usize]);
        let path = entry.and_then(|entry| self.names.path_of(entry.directory, &entry.name));
        match path {
            Some(path) => String::from_utf8_lossy(&path).into_owned(),
            None if node == self.root => "/".to_owned(),
            None => "(without a name)".to_owned(),
        }
    }

    fn shown_descriptor(&self, generation: crate::Generation) -> String {
        let open = self.descriptors.tables.iter().flat_map(|table| &table.slots);
        let mut this = open.filter(|(_, slot)| slot.generation == generation);
        match this.next() {
            Some((number, slot)) => {
                let node = self.descriptors.descriptions[slot.description as usize].node;
                node.map_or_else(|| number.to_string(), |node| format!("{number} ({})", self.shown_path(node)))
            }
            None => "(closed)".to_owned(),
        }
    }
}
