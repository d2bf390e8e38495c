//! Asynchronous I/O: recorded and counted; its transfers do not pass through calls.

use super::row;
use crate::ArgKind::*;
use crate::{Access::*, Call, Effect, Object, Replay};

const NOT_YET: Replay = Replay::Unsupported("asynchronous I/O is recorded but not replayed yet");

/// The rows.
pub const CALLS: &[Call] = &[
    row!(io_setup 206 (events: Number, context: Address) Zero Effect::Asynchronous, NOT_YET, Nothing, "makes a queue"),
    row!(io_destroy 207 (context: Address) Zero Effect::Asynchronous, NOT_YET, Nothing, "ends a queue"),
    row!(io_submit 209 (context: Address, count: Integer, iocbs: Address) Value Effect::Asynchronous, NOT_YET, Nothing, "submits requests"),
    row!(io_getevents 208 (context: Address, min: Integer, max: Integer, events: Address, timeout: Address) Value Effect::Asynchronous, NOT_YET, Nothing, "reaps completions"),
    row!(io_pgetevents 333 (context: Address, min: Integer, max: Integer, events: Address, timeout: Address, sigmask: Address) Value Effect::Asynchronous, NOT_YET, Nothing, "reaps completions"),
    row!(io_cancel 210 (context: Address, iocb: Address, result: Address) Zero Effect::Asynchronous, NOT_YET, Nothing, "cancels a request"),
    row!(io_uring_setup 425 (entries: Number, params: Address) Fd Effect::MakeObject(Object::Ring), NOT_YET, Nothing, "makes a ring"),
    row!(io_uring_enter 426 (fd: Fd(Use), to_submit: Number, min_complete: Number, flags: Number, arg: Address, size: Length) Value Effect::Asynchronous, NOT_YET, Nothing, "submits and reaps"),
    row!(io_uring_register 427 (fd: Fd(Use), opcode: Number, arg: Address, count: Number) Value Effect::Asynchronous, NOT_YET, Nothing, "registers files and buffers"),
];
