//! Following a trace: an action's step, and the contents that the step depends on.

use reprise_calls::{Call, Effect};
use reprise_trace::{Action, BlobReader, ReadError};

use crate::interpretation::Interpretation;
use crate::world::World;

impl World {
    /// Follows one action as [`World::step`] does, and tells the model what the action's content says: the names that a
    /// listing returned, the name that a socket was bound or connected to.
    ///
    /// # Errors
    /// When the content cannot be read.
    pub fn follow(
        &mut self,
        call: &Call,
        action: &Action,
        blobs: &mut BlobReader,
    ) -> Result<Interpretation, ReadError> {
        let mut found = Interpretation::default();
        self.follow_into(call, action, blobs, &mut found)?;
        Ok(found)
    }

    /// As [`World::follow`], into findings whose memory is used again.
    ///
    /// # Errors
    /// When the content cannot be read.
    pub fn follow_into(
        &mut self,
        call: &Call,
        action: &Action,
        blobs: &mut BlobReader,
        found: &mut Interpretation,
    ) -> Result<(), ReadError> {
        self.step_into(call, action, found)?;
        match call.effect {
            Effect::List if action.result > 0 => {
                match blobs.content(&action.data)?.filter(|buffer| !buffer.is_empty()) {
                    Some(buffer) => self.listed(call, action, &buffer),
                    None => {
                        found.listing = None;
                        self.lose_listing(action);
                    }
                }
            }
            Effect::Message if matches!(call.name, "bind" | "connect") => {
                if let Some(address) = blobs.content(&action.data)? {
                    if call.name == "bind" {
                        self.bound(action, &address, found);
                    }
                    self.addressed(call, action, &address, found);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Hard links of an initial file, by device and inode, whose names the program never met: a replay's link count lacks
    /// them.
    pub fn unmet_links(&self, file: (u64, u64)) -> u64 {
        if self.unmet_links.is_empty() { 0 } else { self.unmet_links.get(&file).copied().unwrap_or(0) }
    }
}
