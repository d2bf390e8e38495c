//! What the model says of an action of the original: its path, its listing, and what excuses a difference.

use reprise_calls::{Access, ArgKind, Call, Effect, IoctlEffect, ioctl_effect};
use reprise_model::{Listing, Nature, World};
use reprise_trace::{Action, BlobReader, Name, ReadError, TraceReader};

use super::judge::{Difference, Kind, identity};

/// The original, followed through the model.
pub(super) struct Follower {
    world: World,
    blobs: BlobReader,
}

/// What is known of one action.
#[derive(Debug, Default)]
pub(super) struct Context {
    pub path: String,
    nature: Nature,
    mapped: bool,
    on_directory: bool,
    /// For a call that lists a directory.
    pub listing: Option<Listing>,
    unmet_links: bool,
    /// Users are others where the thread is, or the file.
    foreign_users: bool,
}

impl Follower {
    pub fn begin(trace: &TraceReader) -> Result<Follower, ReadError> {
        Ok(Follower { world: World::begin(trace, false)?, blobs: trace.blobs() })
    }

    /// Follows an action. Actions must come in order.
    pub fn follow(&mut self, call: &Call, action: &Action) -> Result<Context, ReadError> {
        let named = self.world.argument_path(call, action, 0);
        let path = named.or_else(|| {
            let fd = call.position(|k| matches!(k, ArgKind::Fd(Access::Use | Access::Destroy)))?;
            self.world.descriptor_path(action.thread, action.args[fd])
        });
        let found = self.world.follow(call, action, &mut self.blobs)?;
        let unmet_links = call.effect == Effect::GetMetadata
            && action.result >= 0
            && identity(call, action).is_some_and(|id| self.world.unmet_links(id) > 0);
        Ok(Context {
            path: path.map(|p| Name(p).to_text()).unwrap_or_default(),
            nature: found.nature,
            mapped: found.mapped_file,
            on_directory: found.on_directory,
            listing: found.listing,
            unmet_links,
            foreign_users: found.foreign_users,
        })
    }
}

impl Context {
    /// Why no replay can avoid this difference, if so.
    pub fn excuse(&self, call: &Call, action: &Action, difference: &Difference) -> Option<&'static str> {
        const SEEK_DATA: u64 = 3;
        const S_IFMT: u64 = libc::S_IFMT as u64;
        match self.nature {
            Nature::Pseudo => return Some("pseudo file system"),
            Nature::Device => return Some("device of the machine"),
            Nature::RandomDevice if difference.kind == Kind::Content => {
                return Some("random bytes");
            }
            Nature::Ordinary | Nature::SafeDevice | Nature::Stream | Nature::RandomDevice => {}
        }
        if action.is_amid() {
            return Some("saw another call half done");
        }
        if self.foreign_users && difference.kind == Kind::Owner {
            return Some("users of another namespace, or of a mount with its own");
        }
        if difference.device {
            return Some("device nodes are not made by a replay");
        }
        match (call.effect, difference.kind) {
            (Effect::Seek, Kind::Value | Kind::Outcome) if action.args[2] >= SEEK_DATA => {
                Some("where data and holes are")
            }
            (Effect::Seek, Kind::Value) if self.on_directory => Some("position in a directory"),
            (Effect::Read | Effect::MappedRead | Effect::Copy | Effect::Splice, Kind::Content | Kind::Value)
                if self.mapped =>
            {
                Some("written through a mapping")
            }
            (Effect::DeviceControl, _) => match ioctl_effect(action.args[1]) {
                IoctlEffect::Inspect
                | IoctlEffect::SetHints
                | IoctlEffect::MakeHandle
                | IoctlEffect::Lend
                | IoctlEffect::LendConfigured
                | IoctlEffect::Foreign => Some("the file system's own value"),
                IoctlEffect::Clone
                | IoctlEffect::CloneRange
                | IoctlEffect::Allocate(_)
                | IoctlEffect::SetCloseOnExec
                | IoctlEffect::ClearCloseOnExec
                | IoctlEffect::SetWaiting => None,
            },
            (Effect::MakeNode, Kind::Outcome) => {
                let mode = call.position(|k| matches!(k, ArgKind::Mode)).map_or(0, |i| action.args[i]);
                matches!((mode & S_IFMT) as u32, libc::S_IFCHR | libc::S_IFBLK)
                    .then_some("device nodes are not made by a replay")
            }
            (Effect::GetMetadata, Kind::Links) if self.unmet_links => Some("links that the program did not meet"),
            _ => None,
        }
    }
}
