//! Threads and processes.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;

use crate::context::{Context, Options};
use crate::{attributes, data, descriptors, names, opening, reading};
use reprise_testkit::raw;

const NOBODY: u64 = 65534;

/// The whole program.
pub fn run(options: Options) {
    std::env::set_current_dir(&options.dir).ok();
    if options.user && raw::sys(libc::SYS_geteuid, &[]) == 0 {
        drop_privileges();
    }
    let mut c = Context::new(&options, 0);
    options.inherited.iter().for_each(|fd| c.keep(*fd));
    let few = options.ops.min(10);
    steps(&mut c, few);
    let mut children: Vec<i32> = Vec::new();
    for number in 1..options.processes {
        children.extend(fork(|| {
            let mut c = Context::new(&options, number * 1000);
            if c.rng.chance(25) && !options.user && raw::sys(libc::SYS_geteuid, &[]) == 0 {
                drop_privileges();
            }
            threads(&options, number * 1000, c.rng.pick(&[1, 2]));
            0
        }));
    }
    threads(&options, 0, options.threads);
    steps(&mut c, few / 2);
    for child in children {
        raw::wait(child);
    }
    steps(&mut c, few / 2);
}

fn drop_privileges() {
    raw::sys(libc::SYS_setgroups, &[0, 0]);
    raw::sys(libc::SYS_setresgid, &[NOBODY, NOBODY, NOBODY]);
    raw::sys(libc::SYS_setresuid, &[NOBODY, NOBODY, NOBODY]);
}

/// So many threads, the present one among them.
fn threads(options: &Options, salt: u64, count: u64) {
    let baton = if options.waits { Context::baton() } else { [-1; 2] };
    let begin = move |number| {
        let mut c = Context::new(options, salt + number);
        c.share_baton(baton);
        thread(&mut c);
    };
    std::thread::scope(|scope| {
        for number in 1..count {
            scope.spawn(move || begin(number));
        }
        begin(500);
    });
}

fn thread(c: &mut Context) {
    let half = c.options.ops / 2;
    if c.options.waits {
        c.prepare_to_wait();
    }
    steps(c, half);
    match c.rng.below(20) {
        0 => drop(c.call(libc::SYS_unshare, &[libc::CLONE_FS as u64])),
        1 => drop(c.call(libc::SYS_unshare, &[libc::CLONE_FILES as u64])),
        2..=9 if c.options.waits => c.hand_over(),
        _ => {}
    }
    // A short-lived child in the middle of everything.
    let seed = c.rng.draw();
    let child = (c.options.processes > 1 && c.rng.chance(40)).then(|| {
        fork(|| {
            let mut c = Context::new(&c.options, seed);
            c.synchronised = false;
            steps(&mut c, 15);
            if c.rng.chance(50) {
                execute(&c, seed % 100_000);
            }
            0
        })
    });
    steps(c, half);
    if let Some(Some(child)) = child {
        raw::wait(child);
    }
}

fn steps(c: &mut Context, count: u64) {
    for _ in 0..count {
        match c.rng.below(100) {
            0..=24 => opening::any(c),
            25..=51 => data::any(c),
            52..=69 => names::any(c),
            70..=81 => reading::any(c),
            82..=88 => attributes::any(c),
            _ => descriptors::any(c),
        }
    }
}

/// A child, by the C library: the memory allocator must know.
fn fork(child: impl FnOnce() -> i32) -> Option<i32> {
    // SAFETY: the child runs ordinary code, as the C library permits after its own `fork`, and leaves by `_exit`.
    match unsafe { libc::fork() } {
        0 => raw::exit(child()),
        pid => (pid > 0).then_some(pid),
    }
}

/// The same program again, small and alone, with what descriptors remain.
fn execute(c: &Context, seed: u64) {
    let Some(this) = std::env::current_exe().ok().and_then(|p| CString::new(p.as_os_str().as_bytes()).ok()) else {
        return;
    };
    let fds = c.shared().iter().map(i64::to_string).collect::<Vec<_>>().join(",");
    let seed = seed.to_string();
    let dir = c.options.dir.to_string_lossy();
    let mut words = vec!["random-program", "--threads", "1", "--processes", "1", "--ops", "10", "--inherited", &fds];
    words.extend(c.options.portable.then_some("--portable"));
    words.extend([seed.as_str(), &dir]);
    let words: Vec<CString> = words.into_iter().filter_map(|w| CString::new(w).ok()).collect();
    let mut list: Vec<u64> = words.iter().map(|w| w.as_ptr() as u64).collect();
    list.push(0);
    raw::sys(libc::SYS_execve, &[this.as_ptr() as u64, list.as_ptr() as u64, [0u64; 1].as_ptr() as u64]);
}
