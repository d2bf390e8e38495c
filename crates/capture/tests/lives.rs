//! Threads and processes: beginnings, ends, exec, signals, exit codes.

mod common;

use common::{actions, command, compile, record, scratch};
use reprise_calls::by_name;
use reprise_trace::Loss;
use reprise_trace::payload::{Side, split};

#[test]
fn exit_code_and_output_are_the_programs() {
    let dir = scratch();
    let (output, reader) = record(dir.path(), &[], &["sh", "-c", "echo out; cat /dev/null; exit 3"]);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(output.stdout, b"out\n");
    let end = reader.manifest().end.expect("an end");
    assert_eq!((end.code, end.signal), (Some(3), None));
    let actions = actions(&reader);
    assert_eq!(actions[0].call, "execve");
    let (first, last) = (&actions[0], &actions[actions.len() - 1]);
    assert_eq!(first.path.as_ref().map(|p| p.to_text()).as_deref(), Some("/usr/bin/sh"));
    assert_eq!((&*last.call, last.args[0]), ("exit_group", 3));
}

#[test]
fn a_death_by_signal_is_passed_on() {
    let dir = scratch();
    let (output, reader) = record(dir.path(), &[], &["sh", "-c", "kill -SEGV $$"]);
    assert_eq!(output.status.code(), Some(128 + 11));
    assert_eq!(reader.manifest().end.and_then(|e| e.signal), Some(11));
    let actions = actions(&reader);
    assert_eq!(actions[actions.len() - 1].args[0], 139);
    assert!(reader.ledger().notes.keys().any(|n| n.contains("signal 11")));
}

#[test]
fn what_cannot_be_run_leaves_no_trace() {
    let dir = scratch();
    for (program, code) in [("no-such-program", 127), ("/etc/passwd", 126), ("/no/such", 127)] {
        let output = command(dir.path(), &[], &[program]).output().expect("runs");
        assert_eq!(output.status.code(), Some(code), "{program}");
        assert!(!dir.path().join("t").exists());
    }
    std::fs::write(dir.path().join("s"), "exit 8\n").expect("write");
    let script = dir.path().join("s");
    let chmod = std::process::Command::new("chmod").arg("755").arg(&script).status();
    assert!(chmod.expect("chmod").success());
    // A script without an interpreter line, as a shell runs it.
    let (output, _) = record(dir.path(), &[], &["./s"]);
    assert_eq!(output.status.code(), Some(8));
}

#[test]
fn threads_are_followed() {
    let dir = scratch();
    let Some(program) = compile("threads", dir.path()) else {
        return;
    };
    let (output, reader) = record(dir.path(), &[], &[program.to_str().expect("utf-8")]);
    assert_eq!(output.status.code(), Some(7));
    let actions = actions(&reader);
    let threads = reader.threads().expect("threads");
    assert_eq!(threads.len(), 9);
    assert_eq!(reader.processes().expect("processes").len(), 1);
    for thread in &threads[1..] {
        assert_eq!((thread.shares_descriptors, thread.shares_directories), (1, 1));
        let calls = |name: &str| {
            actions.iter().filter(|a| a.thread == thread.thread && a.call == name && a.result >= 0).count()
        };
        assert_eq!((calls("openat"), calls("pwrite64"), calls("rename")), (50, 50, 100));
    }
    // Descriptors are one table: replayed in order, no number is taken twice.
    let mut open = std::collections::HashSet::new();
    for action in actions.iter().filter(|a| a.result >= 0) {
        match &*action.call {
            "openat" => assert!(open.insert(action.result), "seq {}: {} is open", action.seq, action.result),
            "close" => {
                open.remove(&(action.args[0] as i64));
            }
            _ => {}
        }
    }
    assert_eq!(reader.ledger().total(Loss::Dropped), 0);
}

#[test]
fn a_thread_that_is_not_the_first_runs_another_program() {
    let dir = scratch();
    let Some(program) = compile("execthread", dir.path()) else {
        return;
    };
    let (output, reader) = record(dir.path(), &[], &[program.to_str().expect("utf-8")]);
    assert_eq!(output.status.code(), Some(9), "{}", String::from_utf8_lossy(&output.stderr));
    let actions = actions(&reader);
    let threads = reader.threads().expect("threads");
    assert_eq!(threads.len(), 3);
    let exec = actions.iter().rposition(|a| a.call == "execve").expect("an exec");
    let ended: Vec<u32> = actions[..exec].iter().filter(|a| a.call == "exit").map(|a| a.thread).collect();
    assert_eq!(ended.len(), 2, "the others end before it");
    assert!(!ended.contains(&actions[exec].thread));
    assert_eq!(actions[actions.len() - 1].thread, actions[exec].thread);
}

#[test]
fn vfork_spawn_and_late_ends() {
    let dir = scratch();
    let Some(program) = compile("spawn", dir.path()) else {
        return;
    };
    let (output, reader) = record(dir.path(), &[], &[program.to_str().expect("utf-8")]);
    assert_eq!(output.status.code(), Some(4));
    let actions = actions(&reader);
    let threads = reader.threads().expect("threads");
    assert_eq!(reader.processes().expect("processes").len(), 3);
    // A parent's wait comes after the child's end.
    for wait in actions.iter().filter(|a| a.call == "wait4" && a.result > 0) {
        let child = threads.iter().find(|t| i64::from(t.tid) == wait.result).expect("the child");
        let exit = actions.iter().find(|a| a.thread == child.thread && a.call == "exit_group");
        assert!(exit.expect("its end").seq < wait.seq);
    }
    // The first thread ended earlier, but the process ends last.
    let last = &actions[actions.len() - 1];
    assert_eq!((&*last.call, last.thread, last.args[0]), ("exit_group", 0, 4));
}

#[test]
fn what_outlives_the_program_is_recorded_to_its_end() {
    let dir = scratch();
    let script = "(sleep 0.3; echo late > late) & exit 2";
    let (output, reader) = record(dir.path(), &[], &["sh", "-c", script]);
    assert_eq!(output.status.code(), Some(2));
    let late = actions(&reader).iter().any(|a| a.path.as_ref().is_some_and(|p| **p == *b"late"));
    assert!(late && dir.path().join("late").exists());
}

#[test]
fn filters_tracing_and_unknown_calls_get_a_clear_word() {
    let dir = scratch();
    let Some(program) = compile("filters", dir.path()) else {
        return;
    };
    let (output, reader) = record(dir.path(), &[], &[program.to_str().expect("utf-8")]);
    assert_eq!(output.stdout, b"done\n");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(stderr.contains("reprise: the program filters its own calls"));
    assert!(stderr.contains("reprise: the program traces others"));
    let unsupported = &reader.ledger().losses[&Loss::Unsupported];
    assert_eq!(unsupported["unknown call 499"].count, 1);
    assert_eq!(unsupported.len(), 1, "{unsupported:?}");
    assert!(reader.ledger().notes.keys().any(|note| note.starts_with("a call was not made")));
}

/// Of calls that others let go on the tracer hears nothing.
#[test]
fn a_filter_by_which_others_answer_is_counted() {
    let dir = scratch();
    let Some(program) = compile("listener", dir.path()) else {
        return;
    };
    std::fs::write(dir.path().join("a"), b"").expect("a file");
    let (output, reader) = record(dir.path(), &[], &[program.to_str().expect("utf-8")]);
    assert_eq!(output.status.code(), Some(0));
    assert!(dir.path().join("b").exists() && !actions(&reader).iter().any(|a| a.call == "rename"));
    let unsupported = &reader.ledger().losses[&Loss::Unsupported];
    let found = unsupported.iter().find(|(cause, _)| cause.contains("NEW_LISTENER"));
    assert_eq!(found.map(|(_, entry)| entry.count), Some(1), "{unsupported:?}");
}

/// Who got a lock had nobody in its way, and who was refused or told of one, had.
#[test]
fn locks_are_taken_and_given_back_in_the_order_of_the_rows() {
    let dir = scratch();
    let Some(program) = compile("locked", dir.path()) else {
        return;
    };
    let (output, reader) = record(dir.path(), &[], &[program.to_str().expect("utf-8"), "200"]);
    assert_eq!(output.status.code(), Some(0));
    let fcntl = by_name("fcntl").expect("known");
    let (mut holder, mut seen) = (None, [0; 3]);
    for a in actions(&reader).iter().filter(|a| a.call == "fcntl" && matches!(a.args[1], 5..=7)) {
        let kind = |side, bytes| split(fcntl, side, bytes)[2].and_then(<[u8]>::first).copied();
        let (asked, found) = (kind(Side::Input, &a.input), kind(Side::Output, &a.output));
        let at = format!("action {}: {asked:?} {found:?} {}, held by {holder:?}", a.seq, a.result);
        match (a.args[1], asked) {
            (5, _) => {
                assert_eq!(found == Some(2), holder.is_none(), "{at}");
                seen[0] += 1;
            }
            (_, Some(2)) => holder = None,
            _ if a.result < 0 => {
                assert!(holder.is_some(), "{at}");
                seen[1] += 1;
            }
            _ => {
                assert!(holder.is_none(), "{at}");
                holder = Some(a.thread);
                seen[2] += 1;
            }
        }
    }
    assert!(seen[0] == 100 && seen[2] >= 400, "{seen:?}");
}

/// Memory that nobody but its program can read: told once, as what it is.
#[test]
fn secret_memory_is_counted() {
    let dir = scratch();
    let Some(program) = compile("secret", dir.path()) else {
        return;
    };
    let (output, reader) = record(dir.path(), &[], &[program.to_str().expect("utf-8")]);
    if output.status.code() == Some(77) {
        println!("SKIP: no memfd_secret");
        return;
    }
    let losses = &reader.ledger().losses;
    assert!(!losses.contains_key(&Loss::Truncated), "{losses:?}");
    let dropped = &losses[&Loss::Dropped];
    assert!(dropped.len() == 1 && dropped.keys().all(|cause| cause.contains("memfd_secret")), "{dropped:?}");
}

#[test]
fn pipes_are_ordered_cause_before_effect() {
    let dir = scratch();
    let script = "seq 1 2000 | while read x; do echo $x; done | tail -1";
    let (output, reader) = record(dir.path(), &[], &["sh", "-c", script]);
    assert_eq!(output.stdout, b"2000\n");
    // Whatever was read from the pipes was written before.
    let (mut written, mut read) = (0u64, 0u64);
    let actions = actions(&reader);
    for (i, a) in actions.iter().enumerate() {
        let pipe = |fd| a.args[0] == fd && a.path.is_none();
        match &*a.call {
            "write" if pipe(1) => written += a.data_bytes,
            "read" if pipe(0) => read += a.data_bytes,
            _ => {}
        }
        assert!(read <= written, "action {i} reads what nobody wrote yet");
    }
    assert!(read > 9000);
}
