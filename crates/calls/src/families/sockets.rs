//! Sockets: descriptors exist, and those that messages carry reach the receiver; what else messages hold is taken from
//! the trace.

use super::row;
use crate::ArgKind::*;
use crate::Struct::*;
use crate::{Access::*, Call, Effect, Object, Replay};

/// The rows.
pub const CALLS: &[Call] = &[
    row!(socket 41 (domain: Integer, kind: Number, protocol: Integer) Fd Effect::MakeObject(Object::Socket), Replay::Simulate, Outcome, "makes a socket"),
    row!(socketpair 53 (domain: Integer, kind: Number, protocol: Integer, fds: Out(FdPair)) Zero Effect::MakeObject(Object::SocketPair), Replay::Simulate, Outcome, "makes a connected pair"),
    row!(accept 43 (fd: Fd(Use), addr: Address, addrlen: Address) Fd Effect::MakeObject(Object::Socket), Replay::Simulate, Outcome, "accepts a connection"),
    row!(accept4 288 (fd: Fd(Use), addr: Address, addrlen: Address, flags: Number) Fd Effect::MakeObject(Object::Socket), Replay::Simulate, Outcome, "accepts a connection with flags"),
    row!(bind 49 (fd: Fd(Use), addr: InData(2), addrlen: Length) Zero Effect::Message, Replay::Simulate, Nothing, "names a socket (a file appears for UNIX sockets)"),
    row!(connect 42 (fd: Fd(Use), addr: InData(2), addrlen: Length) Zero Effect::Message, Replay::Simulate, Nothing, "connects a socket"),
    row!(listen 50 (fd: Fd(Use), backlog: Integer) Zero Effect::Message, Replay::Simulate, Nothing, "awaits connections"),
    row!(shutdown 48 (fd: Fd(Use), how: Integer) Zero Effect::Message, Replay::Simulate, Nothing, "ends a connection"),
    row!(sendto 44 (fd: Fd(Use), buf: InData(2), len: Length, flags: Number, addr: Address, addrlen: Length) Count Effect::Message, Replay::Simulate, Nothing, "sends a message"),
    row!(recvfrom 45 (fd: Fd(Use), buf: OutData(2), len: Length, flags: Number, addr: Address, addrlen: Address) Count Effect::Message, Replay::Simulate, Nothing, "receives a message"),
    row!(sendmsg 46 (fd: Fd(Use), msg: In(Message), flags: Number) Count Effect::Message, Replay::Simulate, Nothing, "sends a message of several parts; descriptors in it are passed"),
    row!(recvmsg 47 (fd: Fd(Use), msg: Out(Message), flags: Number) Count Effect::Message, Replay::Simulate, Nothing, "receives a message of several parts; descriptors in it are received"),
    row!(sendmmsg 307 (fd: Fd(Use), msgs: In(Messages(2)), count: Length, flags: Number) Count Effect::Message, Replay::Simulate, Nothing, "sends several messages"),
    row!(recvmmsg 299 (fd: Fd(Use), msgs: Out(Messages(2)), count: Length, flags: Number, timeout: Address) Count Effect::Message, Replay::Simulate, Nothing, "receives several messages"),
    row!(setsockopt 54 (fd: Fd(Use), level: Integer, name: Integer, value: Address, len: Length) Zero Effect::Message, Replay::Simulate, Nothing, "configures a socket"),
    row!(getsockopt 55 (fd: Fd(Use), level: Integer, name: Integer, value: Address, len: Address) Zero Effect::Message, Replay::Simulate, Nothing, "inspects a socket"),
    row!(getsockname 51 (fd: Fd(Use), addr: Address, addrlen: Address) Zero Effect::Message, Replay::Simulate, Nothing, "asks for a socket's name"),
    row!(getpeername 52 (fd: Fd(Use), addr: Address, addrlen: Address) Zero Effect::Message, Replay::Simulate, Nothing, "asks for the peer's name"),
];
