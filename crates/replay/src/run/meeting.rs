//! Workers that begin together: each waits until all are ready.

use std::sync::atomic::{AtomicU32, Ordering};

use super::ReplayError;
use crate::engine::memory::Shared;

/// Shared by the workers.
#[derive(Debug, Default)]
struct Place {
    arrived: AtomicU32,
    /// Somebody will not come, or has gone again.
    broken: AtomicU32,
}

/// Where so many workers meet before their first action.
pub(super) struct Meeting {
    place: Shared<Place>,
    expected: u32,
}

impl Meeting {
    pub fn new(expected: u32) -> Result<Meeting, ReplayError> {
        let place = Shared::new().map_err(|e| ReplayError::system("share memory", e))?;
        Ok(Meeting { place, expected })
    }

    /// One more is ready.
    pub fn arrive(&self) {
        self.place.arrived.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether nobody is waited for any longer.
    pub fn is_over(&self) -> bool {
        self.place.arrived.load(Ordering::SeqCst) >= self.expected || self.place.broken.load(Ordering::SeqCst) != 0
    }

    /// A worker ends, ready or not.
    pub fn leave(&self) {
        self.place.broken.store(1, Ordering::SeqCst);
    }
}
