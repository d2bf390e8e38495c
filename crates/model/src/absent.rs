//! Names under which nothing stands: removed, or searched in vain.
//!
//! A name matters after its end: who looks for it must come after its removal, who makes it anew after those who looked.
//! Programs use ever new names, so names are forgotten once nobody has spoken of them for long, by two generations. When a
//! generation becomes the old one, the present action waits for all that was done to its names, and changes
//! [`Resource::Forgotten`]; when the old one is forgotten, that action stands for them: whoever speaks of a name that is not
//! remembered needs it. It lies far back by then, so in practice nobody waits.

use crate::interpretation::Interpretation;
use crate::names::{Entry, Names};
use crate::touch::{EntryId, Resource, Touch};

/// Absent names of a generation.
const GENERATION: usize = 1 << 14;

/// The absent names.
#[derive(Debug, Default)]
pub(crate) struct Absent {
    /// Names that may have become absent by the present action.
    pub fresh: Vec<EntryId>,
    young: Vec<EntryId>,
    old: Vec<EntryId>,
    /// How many generations became old.
    generations: u32,
}

impl Absent {
    /// What stands for all names that were forgotten, if any were.
    pub fn forgotten(&self) -> Option<Resource> {
        self.generations.checked_sub(2).map(Resource::Forgotten)
    }
}

impl Entry {
    /// Nothing stands under it, and nothing needs it.
    fn is_absent(&self) -> bool {
        self.node.is_none() && self.holders == 0 && !self.free
    }
}

impl Names {
    /// Takes in the names that became absent, and forgets a generation if they are many.
    pub(crate) fn pass_over(&mut self, out: &mut Interpretation) {
        while let Some(entry) = self.absent.fresh.pop() {
            let e = &mut self.entries[entry as usize];
            if e.is_absent() && !e.listed {
                e.listed = true;
                self.absent.young.push(entry);
            }
        }
        if self.absent.young.len() >= GENERATION {
            self.next_generation(out);
        }
    }

    fn next_generation(&mut self, out: &mut Interpretation) {
        let young = std::mem::take(&mut self.absent.young);
        for entry in std::mem::take(&mut self.absent.old) {
            let e = &mut self.entries[entry as usize];
            e.listed = false;
            if e.free {
                self.free_entries.push(entry);
            } else if e.is_absent() && e.met {
                e.listed = true;
                self.absent.young.push(entry);
            } else if e.is_absent() {
                let (directory, name) = (e.directory, std::mem::take(&mut e.name));
                self.node_mut(directory).entries.remove(&name);
                self.free_entry(entry, out);
            }
        }
        for entry in young {
            let e = &mut self.entries[entry as usize];
            e.met = false;
            if e.free || !e.is_absent() {
                e.listed = false;
                if e.free {
                    self.free_entries.push(entry);
                }
                continue;
            }
            out.change(Resource::Entry(entry));
            self.absent.old.push(entry);
        }
        let present = self.absent.generations;
        self.absent.generations += 1;
        // It stands for the generations before, too.
        let before = present.checked_sub(1).map(|number| (Resource::Forgotten(number), Touch::Flush));
        out.touches.extend(before);
        out.change(Resource::Forgotten(present));
        out.dead.extend(present.checked_sub(2).map(Resource::Forgotten));
    }
}
