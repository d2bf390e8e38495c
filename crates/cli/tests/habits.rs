//! Habits of a good command: help, colours, progress, JSON, completions, manual pages, pipes, exit codes, terminals.

mod means;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

use means::{Said, has, kill, mkdir, record, reprise, run, until};
use reprise_testkit::scratch::{Scratch, is_root};
use reprise_testkit::{program, skip};
use serde_json::Value;

const SUBCOMMANDS: [&str; 15] = [
    "record",
    "recover",
    "replay",
    "verify",
    "info",
    "cat",
    "stat",
    "export",
    "sql",
    "report",
    "doctor",
    "compile",
    "calls",
    "completions",
    "man",
];

const SOME: &str = "mkdir d; echo one > d/a; mv d/a d/b; cat d/b missing 2> /dev/null; ls d > /dev/null; true";

/// Runs a shell line with the command as `$R`.
fn shell(dir: &Path, line: &str) -> Said {
    let mut command = Command::new("bash");
    command.args(["-c", line]).current_dir(dir).env("R", program::reprise().unwrap()).stdin(Stdio::null());
    command.env_remove("NO_COLOR").env("TERM", "xterm");
    Said::new(line.to_owned(), program::run(&mut command))
}

fn c_program(dir: &Path, name: &str, flags: &[&str], source: &str) -> Result<String, String> {
    let file = dir.join(format!("{name}.c"));
    fs::write(&file, source).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-w", "-O1", "-o", name]).args(flags).arg(&file).current_dir(dir);
    let output = cc.output().map_err(|e| format!("no C compiler: {e}"))?;
    if output.status.success() { Ok(format!("./{name}")) } else { Err(format!("cc {flags:?} cannot compile")) }
}

#[test]
fn help_has_examples() {
    let s = Scratch::new();
    for subcommand in SUBCOMMANDS {
        let help = run(s.path(), &[subcommand, "--help"]);
        help.ends(0);
        assert!(help.out.contains("Examples:") && help.out.contains(&format!("reprise {subcommand}")), "{help:#?}");
        assert!(!help.out.contains('\x1b'), "escape codes to a pipe: {help:#?}");
    }
    let long = run(s.path(), &["--help"]);
    let short = run(s.path(), &["-h"]);
    for help in [&long, &short] {
        help.ends(0);
        assert!(help.out.contains("xit codes"), "{help:#?}");
    }
    assert!(long.out.contains("Examples:"));
    run(s.path(), &[]).ends(2);
    run(s.path(), &["no-such"]).ends(2);
    run(s.path(), &["--version"]).ends(0);
}

#[test]
fn completions_and_manual_pages() {
    let s = Scratch::new();
    let dir = s.path();
    for (sh, check) in [("bash", "bash -n"), ("zsh", "zsh -n"), ("fish", "fish -n")] {
        let script = run(dir, &["completions", sh]);
        script.ends(0);
        assert!(script.out.contains("replay") && script.out.contains("reprise"), "{script:#?}");
        fs::write(dir.join("script"), &script.out).unwrap();
        if has(sh) {
            shell(dir, &format!("{check} script")).ends(0);
        }
    }
    run(dir, &["completions", "tcsh-no"]).ends(2);
    run(dir, &["man", "pages/man1"]).ends(0);
    let pages: Vec<_> = fs::read_dir(dir.join("pages/man1")).unwrap().map(|e| e.unwrap().path()).collect();
    for subcommand in SUBCOMMANDS {
        assert!(pages.iter().any(|p| p.ends_with(format!("reprise-{subcommand}.1"))), "{subcommand}: {pages:?}");
    }
    if !has("groff") {
        return skip("completions_and_manual_pages", "no groff to check the pages with");
    }
    for page in pages {
        let lint = program::run(Command::new("groff").args(["-man", "-Tutf8", "-ww", "-z"]).arg(&page));
        assert!(lint.status.success() && lint.stderr.is_empty(), "{page:?}: {lint:?}");
    }
}

#[test]
fn no_escapes_where_nobody_looks() {
    let s = Scratch::new();
    let dir = s.path();
    record(dir, "t.reprise", SOME);
    mkdir(dir, "t");
    run(dir, &["replay", "t.reprise", "--target", "t", "-o", "r.reprise"]).ends(0);
    let commands = [
        "info t.reprise",
        "stat t.reprise",
        "cat t.reprise",
        "verify t.reprise r.reprise",
        "verify --tree t.reprise t",
        "replay t.reprise --target t",
        "--help",
        "info nowhere",
        "info --wrong",
        "calls",
    ];
    for command in commands {
        let plain = shell(dir, &format!("$R {command}"));
        assert!(!format!("{}{}", plain.out, plain.err).contains('\x1b'), "{plain:#?}");
        if has("script") {
            let declined = shell(dir, &format!("NO_COLOR=1 script -qec \"$R {command}\" /dev/null"));
            assert!(!declined.out.contains('\x1b'), "{declined:#?}");
        }
    }
    if !has("script") {
        return skip("no_escapes_where_nobody_looks", "no `script` to make a terminal with");
    }
    let seen = shell(dir, "script -qec \"$R info t.reprise\" /dev/null");
    assert!(seen.out.contains("\x1b["), "no colour on a terminal: {seen:#?}");
}

#[test]
fn progress_on_a_terminal_only() {
    let s = Scratch::new();
    let dir = s.path();
    if !has("script") {
        return skip("progress_on_a_terminal_only", "no `script` to make a terminal with");
    }
    record(dir, "t.reprise", "dd if=/dev/zero of=slow bs=4096 count=6000 oflag=dsync status=none");
    mkdir(dir, "t");
    let seen = shell(dir, "script -qec \"$R replay t.reprise --target t\" /dev/null");
    seen.ends(0);
    let took = |said: &Said| said.out.contains("replayed ");
    assert!(took(&seen), "{seen:#?}");
    let long = seen.out.contains("replaying") && seen.out.contains("ETA");
    let quick = shell(dir, "time -p $R replay t.reprise --target t");
    quick.ends(0);
    assert!(!quick.err.contains("ETA") && !quick.out.contains("ETA"), "{quick:#?}");
    let quiet = shell(dir, "script -qec \"$R replay -q t.reprise --target t\" /dev/null");
    assert!(!quiet.out.contains("ETA"), "{quiet:#?}");
    let seconds = quick.err.lines().find_map(|l| l.strip_prefix("real ")).and_then(|t| t.parse::<f64>().ok());
    if seconds.is_some_and(|t| t < 1.5) {
        return skip("progress_on_a_terminal_only", "the disk is too fast for a replay that takes seconds");
    }
    assert!(long, "no progress in {seen:#?}");
}

#[test]
fn json_everywhere() {
    let s = Scratch::new();
    let dir = s.path();
    let recorded = run(dir, &["record", "--json", "-o", "t.reprise", "--", "sh", "-c", SOME]);
    recorded.ends(0);
    let summary: Value = serde_json::from_str(&recorded.err).unwrap_or_else(|e| panic!("{e}: {recorded:#?}"));
    assert!(summary["actions"].as_u64() > Some(10));
    mkdir(dir, "t");
    let replayed = run(dir, &["replay", "--json", "t.reprise", "--target", "t", "-o", "r.reprise"]);
    assert_eq!(replayed.ends(0).json()["diverged"], 0);
    for args in [
        vec!["info", "t.reprise"],
        vec!["stat", "t.reprise"],
        vec!["stat", "--by", "path", "t.reprise"],
        vec!["stat", "--by", "thread", "t.reprise"],
        vec!["verify", "t.reprise", "r.reprise"],
        vec!["verify", "--tree", "t.reprise", "t"],
        vec!["compile", "t.reprise", "-o", "plan"],
        vec!["calls"],
        vec!["replay", "plan", "--target", "t"],
    ] {
        let said = run(dir, &[args.clone(), vec!["--json"]].concat());
        said.ends(0).json();
        assert!(said.err.is_empty(), "{said:#?}");
    }
    let lines = run(dir, &["cat", "--json", "t.reprise"]);
    let rows: Vec<Value> = lines.ends(0).out.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(rows.len() as u64, summary["actions"].as_u64().unwrap());
    // A tree that differs: exit code 1, and still JSON.
    fs::write(dir.join(format!("t{}/d/b", dir.display())), "two").unwrap();
    let differs = run(dir, &["verify", "--tree", "--json", "t.reprise", "t"]);
    differs.ends(1).json();
}

#[test]
fn a_reader_that_leaves() {
    let s = Scratch::new();
    let dir = s.path();
    record(dir, "t.reprise", "i=0; while [ $i -lt 3000 ]; do echo $i > f; i=$((i+1)); done");
    for command in [
        "cat t.reprise",
        "cat --json t.reprise",
        "stat --by path --json t.reprise",
        "info t.reprise",
        "calls",
        "calls --markdown",
        "completions bash",
        "--help",
    ] {
        let said = shell(dir, &format!("set -o pipefail; $R {command} | head -1 > /dev/null"));
        assert!(said.code == Some(0) && said.err.is_empty(), "{said:#?}");
    }
    let full = shell(dir, "$R cat t.reprise > /dev/full");
    full.fails(8, &["No space left"]);
}

#[test]
fn ends_as_the_program_does() {
    let s = Scratch::new();
    let dir = s.path();
    for code in [0, 1, 42, 255] {
        run(dir, &["record", "-q", "--", "sh", "-c", &format!("exit {code}")]).ends(code);
    }
    for signal in [libc::SIGTERM, libc::SIGKILL, libc::SIGSEGV, libc::SIGPIPE] {
        let said = run(
            dir,
            &["record", "-q", "-o", &format!("{signal}.reprise"), "--", "sh", "-c", &format!("kill -{signal} $$")],
        );
        assert_eq!(said.signal, Some(signal), "{said:#?}");
        let info = run(dir, &["info", "--json", &format!("{signal}.reprise")]).json();
        assert_eq!(info["complete"], true);
    }
    // Names of traces: COMMAND.reprise, then with numbers.
    for name in ["sh.reprise", "sh-1.reprise", "sh-2.reprise", "sh-3.reprise"] {
        assert!(dir.join(name).is_dir(), "{name}");
    }
    run(dir, &["record", "-o", "a.reprise", "no-such-program"]).fails(127, &["no-such-program", "not found", "PATH"]);
    run(dir, &["record", "-o", "a.reprise", "./no-such"]).fails(127, &["no-such", "not found"]);
    fs::write(dir.join("text"), "just text").unwrap();
    run(dir, &["record", "-o", "a.reprise", "./text"]).fails(126, &["text", "permissions"]);
    run(dir, &["record", "-o", "a.reprise", "/"]).fails(126, &["permissions"]);
    run(dir, &["record", "-o", "a.reprise", ""]).fails(127, &["not found"]);
    assert!(!dir.join("a.reprise").exists(), "a trace of nothing");
    run(dir, &["record"]).ends(2);
    run(dir, &["record", "--"]).ends(2);
}

#[test]
fn arguments_pass_untouched() {
    let s = Scratch::new();
    let dir = s.path();
    let echo = |args: &[&str]| run(dir, args).ends(0).out.clone();
    assert_eq!(echo(&["record", "-q", "echo", "-n", "--json", "-o", "x"]), "--json -o x");
    assert_eq!(echo(&["record", "-q", "--", "echo", "--", "-q", "--help"]), "-- -q --help\n");
    assert_eq!(echo(&["record", "-q", "printf", "%s|", "", "a b", "ü", "*"]), "|a b|ü|*|");
    let odd = std::ffi::OsStr::from_bytes(b"odd \xff\n-name");
    let path = dir.join(odd);
    fs::write(&path, "#!/bin/sh\nprintf '%s' \"$1\"\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = reprise(dir, &["record", "-q", "--"]);
    command.arg(Path::new(".").join(odd)).arg(std::ffi::OsStr::from_bytes(b"\xfe"));
    let output = program::succeed(&mut command);
    assert_eq!(output.stdout, b"\xfe");
    let traces =
        fs::read_dir(dir).unwrap().filter(|e| e.as_ref().unwrap().file_name().as_bytes().ends_with(b".reprise"));
    assert_eq!(traces.count(), 4);
}

#[test]
fn input_environment_and_terminal_are_the_users() {
    let s = Scratch::new();
    let dir = s.path();
    let said = shell(dir, "printf 'some input' | $R record -q -o a.reprise cat");
    assert_eq!(said.ends(0).out, "some input");
    let said = shell(dir, "cd /; A='x y' $R record -q -o $OLDPWD/b.reprise sh -c 'umask; pwd; echo \"$A\"; ulimit -n'");
    let plain = shell(dir, "cd /; A='x y' sh -c 'umask; pwd; echo \"$A\"; ulimit -n'");
    assert_eq!(said.out, plain.out);
    // Signals 32 and 33 are the C library's own.
    let signals = |said: Said| -> Vec<u64> {
        let masks = said.out.lines().filter(|l| l.starts_with("Sig") && !l.starts_with("SigQ"));
        let numbers = masks.map(|l| u64::from_str_radix(l.split_whitespace().nth(1).unwrap(), 16).unwrap());
        numbers.map(|mask| mask & !(3 << 31)).collect()
    };
    let recorded = signals(shell(dir, "$R record -q -o c.reprise cat /proc/self/status"));
    assert_eq!(recorded, signals(shell(dir, "cat /proc/self/status")));
    assert!(recorded.len() > 3);
    if !has("script") {
        return skip("input_environment_and_terminal_are_the_users", "no `script` to make a terminal with");
    }
    let said = shell(
        dir,
        "script -qec \"$R record -q -o d.reprise sh -c 'test -t 0 && test -t 1 && stty size && echo yes'\" /dev/null",
    );
    assert!(said.out.contains("yes"), "{said:#?}");
}

#[test]
fn interrupting_the_whole_group() {
    use std::os::unix::process::CommandExt;
    let s = Scratch::new();
    let dir = s.path();
    // A program that dies of it, and one that cleans up.
    for (trace, script, expected) in [
        ("dies.reprise", "echo x > up; sleep 30", Err(libc::SIGINT)),
        ("cleans.reprise", "trap 'rm up; exit 5' INT; echo x > up; while :; do sleep 0.05; done", Ok(5)),
    ] {
        let mut command = reprise(dir, &["record", "-o", trace, "--", "sh", "-c", script]);
        command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        until("the program is up", || dir.join("up").exists());
        std::thread::sleep(std::time::Duration::from_millis(100));
        kill(child.id().wrapping_neg(), libc::SIGINT);
        let said = Said::new(trace.into(), child.wait_with_output().unwrap());
        match expected {
            Ok(code) => drop(said.ends(code)),
            Err(signal) => assert_eq!(said.signal, Some(signal), "{said:#?}"),
        }
        let info = run(dir, &["info", "--json", trace]).json();
        assert_eq!(info["complete"], true, "{said:#?}");
        let target = mkdir(dir, &format!("t-{trace}"));
        run(dir, &["replay", trace, "--target", &target]).ends(0);
        let _ = fs::remove_file(dir.join("up"));
    }
}

/// A lock that ends with its holder, by its own wish or by a signal, is free only after that in the trace.
#[test]
fn locks_end_with_their_holders() {
    let s = Scratch::new();
    let dir = s.path();
    if !has("flock") {
        return skip("locks_end_with_their_holders", "no flock");
    }
    let script = "for i in 1 2 3 4 5 6; do flock l sleep 0.02 & done; wait; \
        for i in 1 2 3 4; do (exec 9> l; flock 9; sh -c 'kill -9 $PPID'; :) & done; wait; true";
    record(dir, "t.reprise", script);
    let target = mkdir(dir, "t");
    for _ in 0..3 {
        run(dir, &["replay", "t.reprise", "--target", &target]).ends(0);
    }
}

#[test]
fn traces_without_contents() {
    let s = Scratch::new();
    let dir = s.path();
    fs::write(dir.join("in"), "some input").unwrap();
    for data in ["hash", "none"] {
        let trace = format!("{data}.reprise");
        let script = format!("cat in > out-{data}; echo more >> out-{data}; cat out-{data} > /dev/null");
        run(dir, &["record", "-q", "--data", data, "-o", &trace, "sh", "-c", &script]).ends(0);
        let target = mkdir(dir, &format!("t-{data}"));
        let replay = run(dir, &["replay", &trace, "--target", &target]);
        replay.ends(0);
        assert!(replay.out.contains("without contents") && replay.out.contains("length"), "{replay:#?}");
        let out = fs::metadata(dir.join(format!("t-{data}{}/out-{data}", dir.display()))).unwrap();
        assert_eq!(out.len(), 15);
        run(dir, &["verify", "--tree", &trace, &target]).ends(0);
    }
}

#[test]
fn requests_that_no_replay_makes_are_counted() {
    const SCRIPT: &str = "import fcntl, struct, sys\n\
        GET, SET, NODUMP = 0x80086601, 0x40086602, 0x40\n\
        with open('f', 'w') as f:\n\
        \x20   try:\n\
        \x20       bits = struct.unpack('i', fcntl.ioctl(f, GET, bytes(4)))[0]\n\
        \x20       fcntl.ioctl(f, SET, struct.pack('i', bits | NODUMP))\n\
        \x20   except OSError:\n\
        \x20       sys.exit(9)\n";
    if !has("python3") {
        return;
    }
    let s = Scratch::new();
    let dir = s.path();
    fs::write(dir.join("p.py"), SCRIPT).unwrap();
    let recorded = run(dir, &["record", "-q", "-o", "t.reprise", "python3", "p.py"]);
    if recorded.code == Some(9) {
        return skip("requests on files", "this file system has no flags of files");
    }
    recorded.ends(0);
    let target = mkdir(dir, "t");
    let replay = run(dir, &["replay", "--json", "t.reprise", "--target", &target]);
    assert_eq!(replay.json()["unsupported"], 1, "{replay:#?}");
}

/// Hints for a file (`qemu-img create` gives one of the size of extents) are given in a replay; attributes that forbid writing are not.
#[test]
fn hints_of_files_are_given() {
    const SCRIPT: &str = "import fcntl, struct, sys\n\
        GET, SET, EXTENT_SIZE, APPEND = 0x801c581f, 0x401c5820, 0x800, 0x10\n\
        def hint(f, bits, size):\n\
        \x20   have = struct.unpack('5I8x', fcntl.ioctl(f, GET, bytes(28)))\n\
        \x20   fcntl.ioctl(f, SET, struct.pack('5I8x', have[0] | bits, size, 0, have[3], 0))\n\
        with open('f', 'w') as f:\n\
        \x20   try:\n\
        \x20       hint(f, EXTENT_SIZE, 1 << 20)\n\
        \x20       if sys.argv[1:]: hint(f, APPEND, 0)\n\
        \x20   except OSError:\n\
        \x20       sys.exit(9)\n";
    if !has("python3") {
        return;
    }
    let s = Scratch::new();
    let dir = s.path();
    fs::write(dir.join("p.py"), SCRIPT).unwrap();
    for (more, unsupported) in [(None, 0), (Some("append"), 1)] {
        let trace = format!("t{unsupported}.reprise");
        let command = ["record", "-q", "-o", &trace, "--", "python3", "p.py"];
        let recorded = run(dir, &[&command[..], more.as_slice()].concat());
        if recorded.code == Some(9) {
            return skip("hints of files", "this file system takes none, or none from this user");
        }
        recorded.ends(0);
        let target = mkdir(dir, &format!("t{unsupported}"));
        let replay = run(dir, &["replay", "--json", &trace, "--target", &target]);
        assert_eq!(replay.ends(0).json()["unsupported"], unsupported, "{replay:#?}");
        assert_eq!(replay.json()["diverged"], 0, "{replay:#?}");
    }
}

#[test]
fn directories_deeper_than_a_path_may_be_long() {
    let s = Scratch::new();
    let dir = s.path();
    let deep = "n".repeat(200);
    let script = format!("for i in $(seq 40); do mkdir {deep}; cd -P {deep} || exit; done; echo deep > f; ln -s f l");
    run(dir, &["record", "-q", "-o", "t.reprise", "bash", "-c", &script]).ends(0);
    let target = mkdir(dir, "t");
    run(dir, &["replay", "-q", "t.reprise", "--target", &target]).ends(0);
    run(dir, &["verify", "--tree", "t.reprise", &target]).ends(0);
}

#[test]
fn programs_that_trace_or_filter() {
    let s = Scratch::new();
    let dir = s.path();
    let binary = program::reprise().unwrap();
    let binary = binary.to_str().unwrap();
    let ptrace = ["--backend", "ptrace", "-o"];
    let inner = [&["a.reprise", "--", binary, "record"], &ptrace[..], &["b.reprise", "--", "true"]].concat();
    let nested = run(dir, &[&["record"], &ptrace[..], &inner].concat());
    nested.fails(125, &["being traced itself", "another recording"]);
    assert!(!dir.join("b.reprise").exists());
    if has("strace") {
        let strace = ["s.reprise", "--", "strace", "-o", "/dev/null", "true"];
        let said = run(dir, &[&["record"], &ptrace[..], &strace].concat());
        assert!(said.err.contains("traces others (ptrace)"), "{said:#?}");
        let said = shell(dir, "strace -f -o /dev/null $R record -o u.reprise true");
        assert!(said.code == Some(0) || said.err.contains("being traced itself"), "{said:#?}");
    }
    let filter = "#include <stddef.h>\n#include <stdio.h>\n#include <fcntl.h>\n#include <unistd.h>\n#include <errno.h>\n\
        #include <sys/prctl.h>\n#include <sys/syscall.h>\n#include <linux/seccomp.h>\n#include <linux/filter.h>\n\
        int main() { struct sock_filter f[] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),\n\
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mkdir, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),\n\
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) }; struct sock_fprog p = { 4, f };\n\
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); if (prctl(PR_SET_SECCOMP, 2, &p)) { perror(\"seccomp\"); return 3; }\n\
        if (syscall(SYS_mkdir, \"never\", 0755) == 0 || errno != EPERM) return 4;\n\
        int fd = open(\"made\", O_CREAT | O_WRONLY, 0644); return write(fd, \"x\", 1) != 1; }\n";
    let program = match c_program(dir, "filter", &[], filter) {
        Ok(program) => program,
        Err(why) => return skip("programs_that_trace_or_filter", &why),
    };
    let said = run(dir, &[&["record"], &ptrace[..], &["f.reprise", &program]].concat());
    assert!(said.err.contains("filters its own calls"), "{said:#?}");
    if said.ends(0).code == Some(0) {
        mkdir(dir, "t");
        run(dir, &["replay", "f.reprise", "--target", "t"]).ends(0);
    }
}

#[test]
fn programs_of_32_bits() {
    let s = Scratch::new();
    let source = "#include <fcntl.h>\n#include <sys/mman.h>\n#include <unistd.h>\n\
        int main() { int f = open(\"out\", O_RDWR | O_CREAT, 0644); if (write(f, \"x\", 1) != 1) return 1;\n\
        return *(volatile char *)mmap(0, 1, PROT_READ, MAP_SHARED, f, 0) != 'x'; }\n";
    let program = match c_program(s.path(), "small", &["-m32"], source) {
        Ok(program) => program,
        Err(why) => return skip("programs_of_32_bits", &why),
    };
    let said = run(s.path(), &["record", "-o", "t.reprise", &program]);
    said.ends(0);
    assert!(said.err.contains("32"), "{said:#?}");
    // Nothing was, in a recording that begins with its command.
    assert!(!said.err.contains("there before the recording"), "{said:#?}");
}

#[test]
fn an_ordinary_user_records_and_replays() {
    const NAME: &str = "an_ordinary_user_records_and_replays";
    if !is_root() || !has("setpriv") {
        return skip(NAME, "wants root and setpriv to become somebody else");
    }
    let s = Scratch::new();
    let dir = s.path();
    fs::set_permissions(dir, fs::Permissions::from_mode(0o777)).unwrap();
    fs::copy(program::reprise().unwrap(), dir.join("reprise")).unwrap();
    let user = "setpriv --reuid=65534 --regid=65534 --clear-groups env TMPDIR=$PWD";
    let said = shell(
        dir,
        &format!("{user} ./reprise record -q -o t.reprise sh -c '{SOME}; cat /etc/shadow 2> /dev/null; id -u'"),
    );
    assert_eq!(said.ends(0).out, "one\n65534\n");
    let said = shell(dir, &format!("{user} mkdir t; {user} ./reprise replay t.reprise --target t"));
    if said.code == Some(6) {
        said.fails(6, &["confine"]);
        return skip(NAME, "this machine grants users no namespaces");
    }
    said.ends(0);
    assert_eq!(fs::metadata(dir.join("t")).unwrap().uid(), 65534);
    // Root's replay of it, into a target of the user's.
    mkdir(dir, "u");
    shell(dir, "./reprise replay t.reprise --target u && ./reprise verify --tree t.reprise u").ends(0);
}

fn rows(dir: &Path, args: &[&str]) -> Vec<Value> {
    let said = run(dir, &[&["cat", "--json", "t.reprise"], args].concat());
    said.ends(0).out.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

#[test]
fn cat_filters_and_stat_sums() {
    let s = Scratch::new();
    let dir = s.path();
    record(dir, "t.reprise", SOME);
    let all = rows(dir, &[]);
    let some = rows(dir, &["--call", "openat,renameat2,rename"]);
    let is = |row: &Value, names: &[&str]| names.iter().any(|n| row["call"] == *n);
    assert_eq!(some.len(), all.iter().filter(|r| is(r, &["openat", "rename", "renameat2"])).count());
    let thread = rows(dir, &["--thread", "1"]);
    assert!(!thread.is_empty());
    assert_eq!(thread.len(), all.iter().filter(|r| r["thread"] == 1).count());
    let path = rows(dir, &["--path", "d/b"]);
    let names = |r: &Value| [&r["path"], &r["path2"]].iter().any(|p| p.as_str().is_some_and(|p| p.contains("d/b")));
    // Named, or through a descriptor that was opened by that name.
    assert_eq!(path.iter().filter(|r| names(r)).count(), all.iter().filter(|r| names(r)).count());
    assert!(path.iter().any(|r| r["call"] == "read" && !names(r)), "{path:?}");
    assert!(path.iter().filter(|r| names(r)).count() >= 2);
    assert!(rows(dir, &["--path", "d/b", "--call", "mmap"]).is_empty());
    run(dir, &["cat", "t.reprise", "--call", "no_such"]).fails(2, &["no_such", "reprise calls"]);
    let text = run(dir, &["cat", "t.reprise"]);
    assert_eq!(text.ends(0).out.lines().count(), all.len());
    for by in ["call", "thread"] {
        let stat = run(dir, &["stat", "--json", "--by", by, "t.reprise"]).ends(0).json();
        let mut counted: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for row in &all {
            let entry = counted.entry(text_of(&row[by])).or_default();
            entry.0 += 1;
            entry.1 += u64::from(row["result"].as_i64() < Some(0));
        }
        // Threads are shown as `T0 name`.
        let key = |key: &Value| match by {
            "thread" => text_of(key).trim_start_matches('T').split(' ').next().unwrap_or_default().to_owned(),
            _ => text_of(key),
        };
        let found: BTreeMap<String, (u64, u64)> = stat_rows(&stat)
            .iter()
            .map(|r| (key(&r["key"]), (r["calls"].as_u64().unwrap(), r["errors"].as_u64().unwrap())))
            .collect();
        assert_eq!(found, counted, "{stat:#}");
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn stat_rows(stat: &Value) -> &Vec<Value> {
    program::field(stat, "rows").and_then(Value::as_array).unwrap_or_else(|| panic!("no rows in {stat:#}"))
}

/// Traces are readable without our code: the queries of `docs/FORMAT.md` in DuckDB.
#[test]
fn duckdb_reads_it() {
    let s = Scratch::new();
    let dir = s.path();
    let pythons = ["python3", "/tmp/duck/bin/python"];
    let imports = |p: &&&str| {
        Command::new(p).args(["-c", "import duckdb"]).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
    };
    let Some(python) = pythons.iter().find(imports) else {
        return skip("duckdb_reads_it", "no python3 with duckdb (pip install duckdb)");
    };
    record(dir, "t.reprise", SOME);
    let document = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/FORMAT.md")).unwrap();
    let queries = document.split("```sql").nth(1).and_then(|t| t.split("```").next()).unwrap().replace("NAME", "t");
    let script = r#"
import duckdb, json, sys
queries, tables = json.loads(sys.argv[1]), json.loads(sys.argv[2])
for query in queries:
    duckdb.sql(query).fetchall()
out = {t: duckdb.sql(f"SELECT count(*) FROM 't.reprise/{t}/*.parquet'").fetchall()[0][0] for t in tables}
out["calls"] = duckdb.sql("SELECT call, count(*), count(*) FILTER (result < 0 AND errno IS NOT NULL) FROM 't.reprise/actions/*.parquet' GROUP BY call").fetchall()
out["written"] = duckdb.sql("SELECT string_agg(b.content::VARCHAR, '|' ORDER BY a.seq) FROM 't.reprise/actions/*.parquet' a, unnest(a.data) d(blob) JOIN 't.reprise/blobs/*.parquet' b ON b.blob = d.blob WHERE a.call = 'write'").fetchall()[0][0]
print(json.dumps(out))
"#;
    let queries: Vec<&str> = queries.split(';').map(str::trim).filter(|q| !q.is_empty()).collect();
    assert_eq!(queries.len(), 3);
    let tables = ["actions", "threads", "processes", "descriptors", "tree", "contents", "blobs"];
    let mut command = Command::new(python);
    command.args(["-c", script, &serde_json::to_string(&queries).unwrap(), &serde_json::to_string(&tables).unwrap()]);
    let output = program::succeed(command.current_dir(dir));
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    let all = rows(dir, &[]);
    assert_eq!(seen["actions"].as_u64(), Some(all.len() as u64));
    for table in tables {
        assert!(seen[table].as_u64() > Some(0), "{table}: {seen}");
    }
    assert!(seen["written"].as_str().is_some_and(|t| t.contains("one")), "{seen}");
    let stat = run(dir, &["stat", "--json", "t.reprise"]).json();
    let ours: BTreeMap<_, _> =
        stat_rows(&stat).iter().map(|r| (text_of(&r["key"]), (r["calls"].clone(), r["errors"].clone()))).collect();
    let theirs: BTreeMap<_, _> =
        seen["calls"].as_array().unwrap().iter().map(|r| (text_of(&r[0]), (r[1].clone(), r[2].clone()))).collect();
    assert_eq!(ours, theirs);
}

#[test]
fn the_ledger_shows_losses() {
    let s = Scratch::new();
    let dir = s.path();
    let source = "#include <fcntl.h>\n#include <unistd.h>\n#include <sys/mman.h>\nint main() { int fd = open(\"m\", O_CREAT | O_RDWR, 0644);\n\
        ftruncate(fd, 4096); char *p = mmap(0, 4096, 3, MAP_SHARED, fd, 0); p[0] = 'x'; return 0; }\n";
    let program = match c_program(dir, "mapped", &[], source) {
        Ok(program) => program,
        Err(why) => return skip("the_ledger_shows_losses", &why),
    };
    let said = run(dir, &["record", "--mapped", "off", "-o", "t.reprise", &program]);
    assert!(said.ends(0).err.contains("dropped: writes through a shared mapping"), "{said:#?}");
    let info = run(dir, &["info", "t.reprise"]);
    assert!(info.ends(0).out.contains("writes through a shared mapping"), "{info:#?}");
    mkdir(dir, "t");
    let replay = run(dir, &["replay", "t.reprise", "--target", "t"]);
    assert!(replay.ends(0).out.contains("writes through a shared mapping"), "{replay:#?}");
}

/// A name with an escape sequence and an end of line in it.
#[test]
fn names_do_nothing_to_a_terminal() {
    let s = Scratch::new();
    let dir = s.path();
    record(dir, "t.reprise", "echo x > \"$(printf 'a\\033[31mb\\nc')\"");
    let file = "SELECT file FROM actions WHERE file LIKE '%[31m%'";
    for args in [&["stat", "--by", "path", "t.reprise"][..], &["tree", "t.reprise"], &["sql", "t.reprise", file]] {
        let said = run(dir, args);
        assert!(said.ends(0).out.contains("a\\x1b[31mb\\x0ac"), "{said:#?}");
        assert!(said.out.chars().all(|c| c == '\n' || !c.is_control()), "{said:#?}");
    }
}

#[test]
fn what_is_not_for_a_form_is_refused_and_a_full_output_is_told() {
    let s = Scratch::new();
    let dir = s.path();
    record(dir, "t.reprise", "true");
    run(dir, &["export", "t.reprise", "--to", "csv", "--weight", "bytes"]).fails(2, &["--to folded"]);
    let streamed = run(dir, &["export", "t.reprise", "--to", "csv", "-o", "-"]);
    assert!(streamed.ends(0).out.starts_with("seq,") && !dir.join("-").exists());
    for args in [&["stat", "t.reprise"][..], &["sql", "--csv", "t.reprise", "SELECT 1"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = reprise(dir, args).stdout(full).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(8) && err.contains("standard output"), "{args:?}: {err}");
    }
}

#[test]
fn help_ends_in_whole_paragraphs() {
    let s = Scratch::new();
    let said = run(s.path(), &["report", "--help"]);
    let last = said.ends(0).out.trim_end().rsplit("\n\n").next().unwrap().to_owned();
    let lines: Vec<&str> = last.lines().collect();
    let (_, whole) = lines.split_last().unwrap();
    assert!(whole.iter().all(|line| line.len() > 80), "{last}");
    assert!(run(s.path(), &["workload", "--help"]).ends(0).out.contains("Examples:"));
}
