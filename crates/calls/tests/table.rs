//! Whole-table tests: numbers against the C library's own, rows against each other.

use std::collections::HashSet;

use reprise_calls::{
    ArgKind, Check, Effect, PSEUDO, Replay, Returns, Struct, UNRELATED, all, by_name, by_number, is_unrelated,
};

/// The C library's header, an independent source of the numbers.
fn header() -> Option<Vec<(String, u32)>> {
    let text = std::fs::read_to_string("/usr/include/x86_64-linux-gnu/asm/unistd_64.h").ok()?;
    let rows = text.lines().filter_map(|line| {
        let mut words = line.strip_prefix("#define __NR_")?.split_whitespace();
        Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
    });
    Some(rows.collect())
}

#[test]
fn numbers_are_the_kernels() {
    let Some(header) = header() else {
        return eprintln!("SKIP: no asm/unistd_64.h (install linux-libc-dev)");
    };
    let number = |name: &str| header.iter().find(|(n, _)| n == name).map(|(_, v)| *v);
    for call in all() {
        if let Some(expected) = number(call.name) {
            assert_eq!(call.number, expected, "{}", call.name);
        }
        // No kernel has a number like theirs, nor any header their name.
        assert!(!call.is_pseudo() || number(call.name).is_none(), "{}", call.name);
    }
    assert!(header.iter().all(|(_, number)| *number < PSEUDO));
    for &(value, name) in UNRELATED {
        if let Some(expected) = number(name) {
            assert_eq!(value, expected, "{name}");
        }
    }
}

#[test]
fn every_call_of_this_header_is_classified() {
    let Some(header) = header() else {
        return eprintln!("SKIP: no asm/unistd_64.h (install linux-libc-dev)");
    };
    let unclassified: Vec<_> = header
        .iter()
        .filter(|(_, number)| by_number(*number).is_none() && !is_unrelated(*number))
        .map(|(name, _)| name.as_str())
        .collect();
    // Obsolete or never implemented; a program that calls one is told so in the summary.
    assert!(unclassified.len() < 40, "{} unclassified: {unclassified:?}", unclassified.len());
}

#[test]
fn rows_are_consistent() {
    let mut names = HashSet::new();
    let mut numbers = HashSet::new();
    for call in all() {
        assert!(names.insert(call.name), "{} twice", call.name);
        assert!(numbers.insert(call.number), "number {} twice", call.number);
        assert!(!is_unrelated(call.number), "{} is also called unrelated", call.name);
        assert!(call.args.len() <= 6, "{}", call.name);
        assert_eq!(by_name(call.name), Some(call));
        assert_eq!(by_number(call.number), Some(call), "{}", call.name);
        for arg in call.args {
            if let ArgKind::InData(i) | ArgKind::OutData(i) | ArgKind::InVector(i) | ArgKind::OutVector(i) = arg.kind {
                assert_eq!(call.args[i as usize].kind, ArgKind::Length, "{}.{}", call.name, arg.name);
            }
            if let ArgKind::In(Struct::Sized(i)) | ArgKind::InOut(Struct::CloneArgs(i)) = arg.kind {
                assert_eq!(call.args[i as usize].kind, ArgKind::Length, "{}.{}", call.name, arg.name);
            }
        }
        let returns_data = call.position(|k| matches!(k, ArgKind::OutData(_) | ArgKind::OutVector(_))).is_some();
        if call.check == Check::Content {
            assert!(returns_data && call.returns == Returns::Count, "{}", call.name);
        }
        if matches!(call.replay, Replay::Unsupported(_) | Replay::Skip(_)) {
            assert_eq!(call.check, Check::Nothing, "{}", call.name);
        }
        if matches!(call.effect, Effect::Read | Effect::MappedRead) {
            assert!(returns_data, "{}", call.name);
        }
    }
    assert!(names.len() >= 110, "{} calls", names.len());
}
