//! Threads and processes, and who they run as.

use super::row;
use crate::ArgKind::*;
use crate::Struct::*;
use crate::{Access::*, Call, Effect, FlagSet, Follow, Replay};

/// The rows.
pub const CALLS: &[Call] = &[
    row!(clone 56 (flags: Flags(FlagSet::Clone), stack: Address, parent_tid: Out(ChildHandle), child_tid: Address, tls: Address) Process Effect::Spawn, Replay::Engine, Outcome, "starts a thread or process"),
    row!(clone3 435 (args: InOut(CloneArgs(1)), size: Length) Process Effect::Spawn, Replay::Engine, Outcome, "starts a thread or process"),
    row!(fork 57 () Process Effect::Spawn, Replay::Engine, Outcome, "starts a process"),
    row!(vfork 58 () Process Effect::Spawn, Replay::Engine, Outcome, "starts a process that borrows its parent's memory"),
    row!(execve 59 (path: Path(Follow::Always), argv: Strings, envp: Environment) Zero Effect::Execute, Replay::Engine, Nothing, "starts another program (never run by a replay; close-on-exec is done)"),
    row!(execveat 322 (dirfd: Dirfd, path: Path(Follow::Unless { arg: 4, bit: 0x100 }), argv: Strings, envp: Environment, flags: Flags(FlagSet::At)) Zero Effect::Execute, Replay::Engine, Nothing, "starts another program relative to a directory"),
    row!(exit 60 (status: Integer) Never Effect::Exit, Replay::Engine, Nothing, "ends the thread"),
    row!(exit_group 231 (status: Integer) Never Effect::Exit, Replay::Engine, Nothing, "ends the process"),
    row!(wait4 61 (pid: Integer, status: Out(Int), options: Number, rusage: Address) Process Effect::Wait, Replay::Engine, Nothing, "waits for a process"),
    row!(waitid 247 (which: Integer, pid: Integer, info: Address, options: Number, rusage: Address) Zero Effect::Wait, Replay::Engine, Nothing, "waits for a process"),
    row!(unshare 272 (flags: Flags(FlagSet::Clone)) Zero Effect::Mount, Replay::Engine, Outcome, "stops sharing descriptors, directories or namespaces"),
    row!(setns 308 (fd: Fd(Use), nstype: Number) Zero Effect::Mount, Replay::Skip("namespaces are not entered by a replay"), Nothing, "enters a namespace"),
    row!(setuid 105 (uid: Owner) Zero Effect::ChangeIdentity, Replay::Issue, Outcome, "changes the user"),
    row!(setgid 106 (gid: Owner) Zero Effect::ChangeIdentity, Replay::Issue, Outcome, "changes the group"),
    row!(setreuid 113 (ruid: Owner, euid: Owner) Zero Effect::ChangeIdentity, Replay::Issue, Outcome, "changes real and effective user"),
    row!(setregid 114 (rgid: Owner, egid: Owner) Zero Effect::ChangeIdentity, Replay::Issue, Outcome, "changes real and effective group"),
    row!(setresuid 117 (ruid: Owner, euid: Owner, suid: Owner) Zero Effect::ChangeIdentity, Replay::Issue, Outcome, "changes all three users"),
    row!(setresgid 119 (rgid: Owner, egid: Owner, sgid: Owner) Zero Effect::ChangeIdentity, Replay::Issue, Outcome, "changes all three groups"),
    row!(setfsuid 122 (uid: Owner) Value Effect::ChangeIdentity, Replay::Issue, Value, "changes the user for file access"),
    row!(setfsgid 123 (gid: Owner) Value Effect::ChangeIdentity, Replay::Issue, Value, "changes the group for file access"),
    row!(setgroups 116 (size: Length, list: In(Words(0))) Zero Effect::ChangeIdentity, Replay::Issue, Outcome, "changes the further groups"),
    row!(capset 126 (header: Address, data: Address) Zero Effect::ChangeIdentity, Replay::Skip("capabilities are those of the replay"), Nothing, "changes capabilities"),
    row!(ptrace 101 (request: Integer, pid: Integer, addr: Address, data: Address) Value Effect::Wait, Replay::Skip("a recorded program cannot trace others"), Nothing, "traces a process"),
    row!(seccomp 317 (operation: Integer, flags: Number, args: Address) Value Effect::Wait, Replay::Skip("filters of the program are not replayed"), Nothing, "filters system calls"),
];
