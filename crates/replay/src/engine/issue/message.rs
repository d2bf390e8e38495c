//! Messages between threads of the engine that carry a descriptor. Rules as in the parent module.

use std::mem::size_of;

use super::{fd, raw};

/// Control data with room for one descriptor: `struct cmsghdr` (length, level, type) and the number.
#[repr(C, align(8))]
struct Control {
    length: u64,
    level: i32,
    kind: i32,
    number: i32,
    padding: i32,
}

/// Length of a control message that holds one descriptor.
const ONE: u64 = 20;

impl Control {
    fn new(number: i32) -> Control {
        Control { length: ONE, level: libc::SOL_SOCKET, kind: libc::SCM_RIGHTS, number, padding: 0 }
    }
}

fn exchange(call: i64, socket: i32, words: &mut [u32; 2], control: Option<&mut Control>, flags: i32) -> (i64, u64) {
    let mut piece = libc::iovec { iov_base: words.as_mut_ptr().cast(), iov_len: size_of::<[u32; 2]>() };
    // SAFETY: plain data, for which zeros are valid.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut piece;
    header.msg_iovlen = 1;
    if let Some(control) = control {
        header.msg_control = std::ptr::from_mut(control).cast();
        header.msg_controllen = size_of::<Control>();
    }
    // SAFETY: the header leads to memory of its lengths, borrowed mutably for the call.
    let result = unsafe { raw(call, [fd(socket), &raw mut header as u64, flags as u64, 0, 0, 0]) };
    (result, header.msg_controllen as u64)
}

/// Sends two words and perhaps a descriptor.
pub(in crate::engine) fn send(socket: i32, mut words: [u32; 2], number: Option<i32>) -> i64 {
    let mut control = number.map(Control::new);
    exchange(libc::SYS_sendmsg, socket, &mut words, control.as_mut(), libc::MSG_NOSIGNAL).0
}

/// Waits for two words and perhaps a descriptor, that is marked for the next program or is not.
pub(in crate::engine) fn receive(socket: i32, is_marked: bool) -> Result<([u32; 2], Option<i32>), i64> {
    let (mut words, mut control) = ([0; 2], Control::new(-1));
    let flags = if is_marked { libc::MSG_CMSG_CLOEXEC } else { 0 };
    let (result, filled) = exchange(libc::SYS_recvmsg, socket, &mut words, Some(&mut control), flags);
    if result < 0 {
        return Err(result);
    }
    Ok((words, (filled >= ONE && control.number >= 0).then_some(control.number)))
}
