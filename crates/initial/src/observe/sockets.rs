//! Names that sockets get: `bind` to a path makes a file, as `mknod` does (unix(7)).

use reprise_calls::{Call, by_name, socket_path};

use super::{Seen, errors};
use crate::World;
use crate::decoded::Decoded;
use crate::node::kind;

/// The `mknod` that a `bind` to a path amounts to, and its result; `None` of any other call.
pub fn as_mknod(call: &Call, decoded: &Decoded<'_>, result: i64) -> Option<(&'static Call, Decoded<'static>, i64)> {
    let path = Some(call).filter(|call| call.name == "bind").and_then(|_| socket_path(&decoded.data))?;
    let args = [0, u64::from(kind::SOCKET) | 0o777, 0, 0, 0, 0];
    let made = Decoded { args, path: Some(path.to_vec().into()), ..Decoded::default() };
    let result = if result == errors::EADDRINUSE { errors::EEXIST } else { result };
    Some((by_name("mknod")?, made, result))
}

impl World {
    pub(super) fn name_socket(&mut self, s: &Seen<'_>) {
        if let Some((call, decoded, result)) = as_mknod(s.call, s.decoded, s.result) {
            self.make(&Seen { seat: s.seat, call, decoded: &decoded, result }, kind::SOCKET);
        }
    }
}
