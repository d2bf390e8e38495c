//! Asynchronous I/O. What a request does is recorded as the call it stands for, by a thread of its own (a lane); the calls
//! here only submit requests and wait for them.

use super::row;
use crate::ArgKind::*;
use crate::{Access::*, Call, Effect, Object, Replay};

/// The rows.
pub const CALLS: &[Call] = &[
    row!(io_setup 206 (events: Number, context: Address) Zero Effect::Asynchronous, Replay::Simulate, Nothing, "makes a queue"),
    row!(io_destroy 207 (context: Address) Zero Effect::Asynchronous, Replay::Simulate, Nothing, "ends a queue"),
    row!(io_submit 209 (context: Address, count: Submits, iocbs: Address) Value Effect::Asynchronous, Replay::Simulate, Nothing, "submits requests"),
    row!(io_getevents 208 (context: Address, min: Integer, max: Reaps, events: Address, timeout: Address) Value Effect::Asynchronous, Replay::Simulate, Nothing, "reaps completions"),
    row!(io_pgetevents 333 (context: Address, min: Integer, max: Reaps, events: Address, timeout: Address, sigmask: Address) Value Effect::Asynchronous, Replay::Simulate, Nothing, "reaps completions"),
    row!(io_cancel 210 (context: Address, iocb: Address, result: Address) Zero Effect::Asynchronous, Replay::Simulate, Nothing, "cancels a request"),
    row!(io_uring_setup 425 (entries: Number, params: Address) Fd Effect::MakeObject(Object::Ring), Replay::Simulate, Nothing, "makes a ring"),
    row!(io_uring_enter 426 (fd: Fd(Use), to_submit: Submits, min_complete: Reaps, flags: Number, arg: Address, size: Length) Value Effect::Asynchronous, Replay::Simulate, Nothing, "submits and reaps"),
    row!(io_uring_register 427 (fd: Fd(Use), opcode: Number, arg: Address, count: Number) Value Effect::Asynchronous, Replay::Simulate, Nothing, "registers files and buffers"),
];
