//! Following a trace: an action's step, and the contents that the step depends on.

use reprise_calls::{Call, Effect};
use reprise_trace::{Action, BlobReader, ReadError};

use crate::interpretation::Interpretation;
use crate::world::World;

impl World {
    /// Follows one action as [`World::step`] does, and tells the model what the action's content says: the names that a
    /// listing returned, the name that a socket was bound to.
    ///
    /// # Errors
    /// When the content cannot be read.
    pub fn follow(
        &mut self,
        call: &Call,
        action: &Action,
        blobs: &mut BlobReader,
    ) -> Result<Interpretation, ReadError> {
        let mut found = self.step(call, action);
        match call.effect {
            Effect::List if action.result > 0 => {
                if let Some(buffer) = blobs.content(&action.data)? {
                    self.listed(call, action, &buffer);
                }
            }
            Effect::Message if call.name == "bind" => {
                if let Some(address) = blobs.content(&action.data)? {
                    self.bound(action, &address, &mut found);
                }
            }
            _ => {}
        }
        Ok(found)
    }

    /// Hard links of an initial file, by device and inode, whose names the program never met: a replay's link count lacks
    /// them.
    pub fn unmet_links(&self, file: (u64, u64)) -> u64 {
        self.unmet_links.get(&file).copied().unwrap_or(0)
    }
}
