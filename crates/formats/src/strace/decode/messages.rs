//! Messages of sockets: their lengths, and the descriptors that go with them.

use reprise_calls::Envelope;

use super::structures::inside;
use crate::strace::lexer::{annotated, elements, field};
use crate::strace::value::exact;

/// `{msg_name=NULL, …, msg_control=[{cmsg_len=20, cmsg_level=SOL_SOCKET, cmsg_type=SCM_RIGHTS, cmsg_data=[3]}], …}`.
pub fn one(text: &[u8], length: u32) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    Envelope { length, descriptors: rights(inside(text)?) }.encode(&mut out);
    Some(out)
}

/// `[{msg_hdr={…}, msg_len=5}, …]`.
pub fn several(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for message in elements(inside(text)?) {
        let message = inside(message)?;
        let length = field(message, b"msg_len").and_then(exact).unwrap_or(0) as u32;
        Envelope { length, descriptors: rights(inside(field(message, b"msg_hdr")?)?) }.encode(&mut out);
    }
    Some(out)
}

fn rights(header: &[u8]) -> Vec<u32> {
    let control = field(header, b"msg_control").and_then(inside);
    let parts = control.into_iter().flat_map(elements).filter_map(inside);
    let rights = parts.filter(|part| field(part, b"cmsg_type") == Some(b"SCM_RIGHTS"));
    // Old versions print the numbers without a name.
    let numbers = rights.filter_map(|part| {
        field(part, b"cmsg_data").or_else(|| elements(part).find(|e| e.starts_with(b"["))).and_then(inside)
    });
    numbers.flat_map(elements).filter_map(|number| exact(annotated(number).0)).map(|number| number as u32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelopes(bytes: Option<Vec<u8>>) -> Vec<(u32, Vec<u32>)> {
        let decoded = Envelope::decode(&bytes.expect("a message"));
        decoded.into_iter().map(|e| (e.length, e.descriptors)).collect()
    }

    #[test]
    fn descriptors_are_found_in_old_and_new_logs() {
        let new = b"{msg_name=NULL, msg_namelen=0, msg_iov=[{iov_base=\"[5]\", iov_len=3}], msg_iovlen=1, \
            msg_control=[{cmsg_len=24, cmsg_level=SOL_SOCKET, cmsg_type=SCM_RIGHTS, cmsg_data=[3</a, b>, 4]}], \
            msg_controllen=24, msg_flags=0}";
        assert_eq!(envelopes(one(new, 3)), [(3, vec![3, 4])]);
        let old = b"{msg_name(0)=NULL, msg_iov(1)=[{\"x\", 1}], msg_controllen=20, \
            msg_control=[{cmsg_len=20, cmsg_level=SOL_SOCKET, cmsg_type=SCM_RIGHTS, [7]}], msg_flags=0}";
        assert_eq!(envelopes(one(old, 1)), [(1, vec![7])]);
        let both = [b"[{msg_hdr=".as_slice(), new, b", msg_len=3}, {msg_hdr=", old, b", msg_len=1}]"].concat();
        assert_eq!(envelopes(several(&both)), [(3, vec![3, 4]), (1, vec![7])]);
        assert_eq!(one(b"0x7ffd0", 1), None);
    }
}
