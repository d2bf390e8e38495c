//! Addresses of sockets that are names of files (unix(7)).

const AF_UNIX: [u8; 2] = [1, 0];

/// An address that names a file is not longer (`struct sockaddr_un`).
pub const SOCKET_ADDRESS_BYTES: usize = 110;

/// The path in an address as `bind` and `connect` are given it; none in those of other families, and in names that are no
/// files' ("abstract").
pub fn socket_path(address: &[u8]) -> Option<&[u8]> {
    let path = address.strip_prefix(&AF_UNIX)?.split(|byte| *byte == 0).next()?;
    (!path.is_empty()).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::socket_path;

    #[test]
    fn paths_end_with_the_address_or_a_nul() {
        for (address, path) in [
            (&b"\x01\0/tmp/s\0\0\0"[..], Some(&b"/tmp/s"[..])),
            (b"\x01\0s", Some(b"s")),
            (b"\x01\0\0s", None),
            (b"\x01\0", None),
            (b"\x02\0\x1f\x90", None),
            (b"\x01", None),
            (b"", None),
        ] {
            assert_eq!(socket_path(address), path, "{address:?}");
        }
    }
}
