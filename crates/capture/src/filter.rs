//! The seccomp filter: which calls stop the program.
//!
//! Goals: a stop for every call in the table and for every unknown one, none for calls that are known to be
//! unrelated; a short path by binary search over ranges. Non-goals: judging arguments, except where a call that
//! matters hides behind one that does not (`prctl`).

use libc::sock_filter;
use reprise_calls::{Call, is_unrelated};

/// Mark of an ordinary stop.
pub const CALL: u32 = 0;
/// Mark of a call through a 32-bit entry (i386, x32).
pub const NARROW: u32 = 1;
/// Mark of `prctl(PR_SET_SECCOMP)`.
pub const SECCOMP_BY_PRCTL: u32 = 2;

/// Number of `restart_syscall`: unrelated by itself, but it goes on with a call that is not.
pub const RESTART: u32 = 219;
/// Number of what is no call: who traces a thread gives it one that is not to be made (`strace -e inject`).
pub const NO_CALL: u32 = u32::MAX;
/// What is said of those.
pub const NOT_MADE: &str = "a call was not made: who traces the program skipped it, or it had the number -1";
const PRCTL: u32 = 157;
const PR_SET_SECCOMP: u32 = 22;
const ARCH_X86_64: u32 = 0xc000_003e;
const X32: u32 = 0x4000_0000;
/// Numbers from here on are unknown to the table.
const NUMBERS: u32 = 512;

fn statement(code: u32, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

fn jump(test: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code: (libc::BPF_JMP | test | libc::BPF_K) as u16, jt, jf, k }
}

fn load(offset: u32) -> sock_filter {
    statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset)
}

fn answer(value: u32) -> sock_filter {
    statement(libc::BPF_RET | libc::BPF_K, value)
}

fn trace(mark: u32) -> sock_filter {
    answer(libc::SECCOMP_RET_TRACE | mark)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Allow,
    Trace,
    Prctl,
}

fn verdict(number: u32) -> Verdict {
    match number {
        PRCTL => Verdict::Prctl,
        RESTART => Verdict::Trace,
        n if is_unrelated(n) => Verdict::Allow,
        _ => Verdict::Trace,
    }
}

fn leaf(verdict: Verdict) -> Vec<sock_filter> {
    match verdict {
        Verdict::Allow => vec![answer(libc::SECCOMP_RET_ALLOW)],
        Verdict::Trace => vec![trace(CALL)],
        Verdict::Prctl => vec![
            load(16), // seccomp_data.args[0], low half
            jump(libc::BPF_JEQ, PR_SET_SECCOMP, 0, 1),
            trace(SECCOMP_BY_PRCTL),
            answer(libc::SECCOMP_RET_ALLOW),
        ],
    }
}

/// Ranges by their first number, ascending, to a decision tree.
fn tree(ranges: &[(u32, Verdict)]) -> Vec<sock_filter> {
    let [(_, only)] = ranges else {
        let (low, high) = ranges.split_at(ranges.len() / 2);
        let Some((first, _)) = high.first() else {
            return vec![trace(CALL)];
        };
        let (below, above) = (tree(low), tree(high));
        let mut out = match u8::try_from(below.len()) {
            Ok(skip) => vec![jump(libc::BPF_JGE, *first, skip, 0)],
            Err(_) => {
                vec![jump(libc::BPF_JGE, *first, 0, 1), statement(libc::BPF_JMP | libc::BPF_JA, below.len() as u32)]
            }
        };
        out.extend(below);
        out.extend(above);
        return out;
    };
    leaf(*only)
}

/// Whether a call installs a filter of the program that asks others what becomes of a call.
pub fn is_answered_by_others(call: &Call, args: &[u64; 6]) -> bool {
    let installs = call.name == "seccomp" && args[0] == u64::from(libc::SECCOMP_SET_MODE_FILTER);
    installs && args[1] & libc::SECCOMP_FILTER_FLAG_NEW_LISTENER != 0
}

/// The filter's program.
pub fn program() -> Vec<sock_filter> {
    let mut ranges: Vec<(u32, Verdict)> = Vec::new();
    for number in 0..=NUMBERS {
        let verdict = verdict(number);
        if ranges.last().is_none_or(|(_, last)| *last != verdict) {
            ranges.push((number, verdict));
        }
    }
    let mut out = vec![
        load(4), // seccomp_data.arch
        jump(libc::BPF_JEQ, ARCH_X86_64, 1, 0),
        trace(NARROW),
        load(0), // seccomp_data.nr
        jump(libc::BPF_JGE, X32, 0, 1),
        trace(NARROW),
    ];
    out.extend(tree(&ranges));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the program as the kernel would, for the few instructions it has.
    fn run(program: &[sock_filter], number: u32, arch: u32, arg0: u32) -> u32 {
        let (mut a, mut pc) = (0, 0);
        loop {
            let i = program[pc];
            pc += 1;
            let code = u32::from(i.code);
            match code & 7 {
                libc::BPF_LD => {
                    a = match i.k {
                        0 => number,
                        4 => arch,
                        _ => arg0,
                    }
                }
                libc::BPF_RET => return i.k,
                _ if code & 0xf0 == libc::BPF_JA => pc += i.k as usize,
                _ => {
                    let taken = match code & 0xf0 {
                        libc::BPF_JEQ => a == i.k,
                        _ => a >= i.k,
                    };
                    pc += usize::from(if taken { i.jt } else { i.jf });
                }
            }
        }
    }

    #[test]
    fn every_number_gets_its_verdict() {
        let program = program();
        assert!(program.len() < 4096, "{}", program.len());
        let ask = |n| run(&program, n, ARCH_X86_64, 0);
        for call in reprise_calls::all() {
            assert_eq!(ask(call.number), libc::SECCOMP_RET_TRACE, "{}", call.name);
        }
        for (number, name) in reprise_calls::UNRELATED {
            let expected = match *number {
                RESTART => libc::SECCOMP_RET_TRACE,
                _ => libc::SECCOMP_RET_ALLOW,
            };
            assert_eq!(ask(*number), expected, "{name}");
        }
        for unknown in [500, 511, 512, 513, 99_999] {
            assert_eq!(ask(unknown), libc::SECCOMP_RET_TRACE);
        }
        assert_eq!(ask(X32 | 1), libc::SECCOMP_RET_TRACE | NARROW);
        assert_eq!(run(&program, 1, 0x4000_0003, 0), libc::SECCOMP_RET_TRACE | NARROW);
        let prctl = run(&program, PRCTL, ARCH_X86_64, PR_SET_SECCOMP);
        assert_eq!(prctl, libc::SECCOMP_RET_TRACE | SECCOMP_BY_PRCTL);
    }

    #[test]
    fn a_filter_that_asks_others_is_known_by_its_flag() {
        let seccomp = reprise_calls::by_name("seccomp").unwrap();
        let (installs, flag) = (libc::SECCOMP_SET_MODE_FILTER.into(), libc::SECCOMP_FILTER_FLAG_NEW_LISTENER);
        let asks = |operation, flags| is_answered_by_others(seccomp, &[operation, flags, 1, 0, 0, 0]);
        assert!(asks(installs, flag) && asks(installs, flag | libc::SECCOMP_FILTER_FLAG_TSYNC));
        assert!(!asks(installs, 0) && !asks(libc::SECCOMP_GET_ACTION_AVAIL.into(), flag));
        assert!(!is_answered_by_others(reprise_calls::by_name("openat").unwrap(), &[installs, flag, 1, 0, 0, 0]));
    }
}
