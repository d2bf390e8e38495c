//! Logs as strace of different versions and options prints them, written by hand.

mod means;

use means::{import, import_threads};
use reprise_calls::by_name;
use reprise_formats::strace::{ImportError, Reason};
use reprise_trace::Action;
use reprise_trace::payload::child_handle;

#[test]
fn plain() {
    let log = import(
        "execve(\"/bin/cat\", [\"cat\", \"a\"], 0x7ffd /* 3 vars */) = 0\n\
         brk(NULL)                               = 0x5581\n\
         openat(AT_FDCWD, \"/etc/passwd\", O_RDONLY|O_CLOEXEC) = 3\n\
         fstat(3, {st_mode=S_IFREG|0644, st_size=1234, ...}) = 0\n\
         read(3, \"root:x:0\"..., 4096)           = 1234\n\
         read(3, \"\", 4096)                      = 0\n\
         close(3)                                = 0\n\
         exit_group(0)                           = ?\n\
         +++ exited with 0 +++\n",
    )
    .unwrap();
    assert_eq!(log.calls(), "execve=0 openat=3 fstat=0 read=1234 read=0 close=0 exit_group=0");
    assert_eq!(
        log.tree(),
        [
            "/assumed 40755 0",
            "/assumed/working 40755 0",
            "/assumed/working/directory 40755 0",
            "/bin 40755 0",
            "/bin/cat 100755 0",
            "/etc 40755 0",
            "/etc/passwd 100644 1234"
        ]
    );
    let read = &log.actions()[3];
    assert_eq!((read.data_bytes, read.truncated_bytes), (1234, 1226));
    assert!(log.actions()[2].output.len() == 4, "a shortened structure is left out");
    assert_eq!(log.trace.manifest().command, ["cat", "a"]);
}

#[test]
fn threads_with_unfinished_calls() {
    let log = import(
        "10 1700000000.000001 execve(\"/x\", [\"x\"], 0x7ff /* 0 vars */) = 0 <0.0001>\n\
         10 1700000000.000002 clone(child_stack=0x7f00, flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_SIGHAND|CLONE_THREAD <unfinished ...>\n\
         11 1700000000.000003 openat(AT_FDCWD, \"/a\", O_RDONLY) = 3 <0.000010>\n\
         10 1700000000.000004 <... clone resumed>, parent_tid=[11], tls=0x7f, child_tidptr=0x7f) = 11 <0.000050>\n\
         11 1700000000.000005 read(3,  <unfinished ...>\n\
         10 1700000000.000006 close(3 <unfinished ...>\n\
         11 1700000000.000007 <... read resumed>\"x\", 1) = 1 <0.000020>\n\
         10 1700000000.000008 <... close resumed>) = 0 <0.000002>\n\
         11 1700000000.000009 exit(0) = ?\n\
         11 1700000000.000010 +++ exited with 0 +++\n\
         10 1700000000.000011 exit_group(0 <unfinished ...>\n\
         10 1700000000.000012 <... exit_group resumed>) = ?\n\
         10 1700000000.000013 +++ exited with 0 +++\n",
    )
    .unwrap();
    assert_eq!(log.calls(), "execve=0 clone=11 openat=3 read=1 close=0 exit=0 exit_group=0");
    let threads = log.trace.threads().unwrap();
    assert_eq!(threads.len(), 2);
    assert_eq!((threads[1].created_by, threads[1].process, threads[1].shares_descriptors), (Some(1), 0, 1));
    let read = &log.actions()[3];
    assert_eq!((read.begin_ns, read.duration_ns), (4_000, 20_000));
    assert_eq!(log.trace.manifest().started_ns, 1_700_000_000_000_001_000);
}

/// Errors that are about the ends of paths: the directories on the way stood there.
#[test]
fn the_way_of_calls_that_failed() {
    let log = import(
        "execve(\"/x\", [\"x\"], 0x7ff /* 0 vars */) = 0\n\
         link(\"/\", \"/srv/a/new\") = -1 EPERM (Operation not permitted)\n\
         rename(\"/from/old\", \"/to/new\") = -1 EXDEV (Invalid cross-device link)\n\
         mkdir(\"/made/before\", 0755) = -1 EEXIST (File exists)\n\
         link(\"/lacks/old\", \"/lacking/new\") = -1 ENOENT (No such file or directory)\n\
         exit_group(0) = ?\n",
    )
    .unwrap();
    let directories =
        ["/srv 40755 0", "/srv/a 40755 0", "/from 40755 0", "/to 40755 0", "/made 40755 0", "/made/before 40755 0"];
    let tree = log.tree();
    let found: Vec<_> = tree.iter().filter(|name| !name.starts_with("/assumed") && !name.starts_with("/x ")).collect();
    assert_eq!(found, directories.iter().collect::<Vec<_>>());
}

#[test]
fn the_rest_of_a_call_without_its_thread() {
    // strace 6.1 -f -z, as it is.
    let log = import(
        "10 execve(\"/x\", [\"x\"], 0x7ff /* 0 vars */) = 0\n\
         10 openat(AT_FDCWD, \"/a\", O_RDONLY) = 0\n\
         10 vfork()                           = 11\n\
         11 read(0,  <unfinished ...>\n\
         \"\", 16384)                              = 0\n\
         11 write(1, \"      2       2      12\\n\", 24 <unfinished ...>\n\
         )                                       = 24\n\
         11 newfstatat(0, \"\",  <unfinished ...>\n\
         {st_mode=S_IFREG|0644, st_size=47, ...}, AT_EMPTY_PATH) = 0\n\
         11 +++ exited with 0 +++\n\
         10 wait4(-1,  <unfinished ...>\n\
         [{WIFEXITED(s) && WEXITSTATUS(s) == 0}], 0, NULL) = 11\n\
         10 close(0 <unfinished ...>\n\
         output of the program) = 0 (no end of that call)\n\
         10 <... close resumed>) = 0\n\
         10 +++ exited with 0 +++\n",
    )
    .unwrap();
    assert_eq!(
        log.calls(),
        "execve=0 openat=0 vfork=11 read=0 write=24 newfstatat=0 exit_group=0 wait4=11 close=0 exit_group=0"
    );
}

#[test]
fn a_fork_in_an_old_version() {
    let log = import(
        "execve(\"/bin/sh\", [\"sh\"], [/* 20 vars */]) = 0\n\
         clone(Process 501 attached (waiting for parent)\n\
         child_stack=0, flags=CLONE_CHILD_CLEARTID|SIGCHLD, child_tidptr=0xb7) = 501\n\
         [pid   500] waitpid(-1, Process 500 suspended\n\
          <unfinished ...>\n\
         [pid   501] stat64(\"/tmp\", {st_mode=S_IFDIR|S_ISVTX|0777, st_size=4096, ...}) = 0\n\
         [pid   501] _llseek(0, 0, [55], SEEK_CUR) = 0\n\
         [pid   501] mmap2(NULL, 4096, PROT_READ, MAP_PRIVATE, 3, 0) = -1 EBADF (Bad file descriptor)\n\
         [pid   501] exit_group(0)             = ?\n\
         Process 500 resumed\n\
         Process 501 detached\n\
         <... waitpid resumed> [{WIFEXITED(s) && WEXITSTATUS(s) == 0}], 0) = 501\n\
         --- SIGCHLD (Child exited) @ 0 (0) ---\n\
         fcntl64(0, F_SETFD, FD_CLOEXEC)         = 0\n\
         exit_group(0)                           = ?\n",
    )
    .unwrap();
    assert_eq!(log.calls(), "execve=0 clone=501 stat=0 lseek=55 mmap=-9 exit_group=0 wait4=501 fcntl=0 exit_group=0");
    let threads = log.trace.threads().unwrap();
    assert_eq!(threads.iter().map(|t| t.tid).collect::<Vec<_>>(), [500, 501]);
    assert!(log.tree().contains(&"/tmp 41777 0".to_owned()));
}

#[test]
fn attached_and_detached_in_the_middle() {
    let log = import(
        "strace: Process 70 attached with 2 threads\n\
         [pid 71] <... read resumed>\"abc\", 3)    = 3\n\
         [pid 70] restart_syscall(<... resuming interrupted poll ...> <unfinished ...>\n\
         [pid 71] write(4</tmp/out>, \"abc\", 3)   = 3\n\
         [pid 70] <... restart_syscall resumed>)  = 0\n\
         [pid 70] read(5, 0x7ffd, 10)             = ? ERESTARTSYS (To be restarted if SA_RESTART is set)\n\
         [pid 70] --- SIGWINCH {si_signo=SIGWINCH, si_code=SI_KERNEL} ---\n\
         [pid 70] read(5,  <unfinished ...>\n\
         strace: Process 70 detached\n\
         strace: Process 71 detached\n",
    )
    .unwrap();
    assert_eq!(log.calls(), "write=3");
    assert_eq!(log.counted(Reason::NeverBegan), 1);
    assert_eq!(log.counted(Reason::NeverReturned), 1);
    let threads = log.trace.threads().unwrap();
    assert!(threads.iter().all(|t| t.process == 0));
    let descriptors = log.trace.descriptors().unwrap();
    let out = descriptors.iter().find(|d| d.fd == 4).unwrap();
    assert_eq!((out.path.to_text(), out.flags), ("/tmp/out".to_owned(), 1));
}

#[test]
fn output_spliced_in() {
    let log = import(
        "write(1, \"hello\\n\", 6hello\n\
         )                  = 6\n\
         write(1, \"12\", 212)                      = 2\n\
         write(1, \"it's \\\"so\\\"\\n\", 10it's \"so\"\n\
         some more output\n\
         )            = 10\n\
         prompt> read(0, \"x\\n\", 1024)            = 2\n\
         just output\n\
         write(1, \"cut",
    )
    .unwrap();
    assert_eq!(log.calls(), "write=6 write=2 write=10 read=2");
    assert_eq!(log.actions().iter().map(|a| a.args[2]).collect::<Vec<_>>(), [6, 2, 10, 1024]);
    assert_eq!((log.counted(Reason::Foreign), log.counted(Reason::CutOff)), (2, 1));
}

#[test]
fn prefixes_and_annotations() {
    let log = import(
        b"[pid 9<sh>] 10:00:00.000001 (+     0.000000) [ 257] [00007f00] openat(AT_FDCWD</home/u>, \"f\", O_WRONLY|O_CREAT|O_EXCL, 0644) = 3</home/u/f> <0.000005>\r\n\
          [pid 9<sh>] 10:00:00.000100 (+     0.000099) [   1] [00007f00] write(3</home/u/f>, \"\\x61\\xff\", 2) = 2 (DELAYED) <0.000005>\r\n\
           > /lib/libc.so.6(write+0x10) [0xf00]\r\n\
          \r\n\
          # what is this?\r\n\
          [pid 9<sh>] 10:00:00.000200 (+     0.000100) [  32] [00007f00] dup(1</dev/pts/0<char 136:0>>) = 4</dev/pts/0<char 136:0>> <0.000005>\r\n\
          [pid 9<sh>] 10:00:00.000300 (+     0.000100) [   1] [00007f00] write(2<UNIX-STREAM:[5->6,\"/run/a,b\"]>, \"\xff\", 1) = 1 <0.000005>\r\n",
    )
    .unwrap();
    assert_eq!(log.calls(), "openat=3 write=2 dup=4 write=1");
    assert_eq!(log.report.account.counted(), 0);
    assert_eq!(log.tree()[..2], ["/home 40755 0", "/home/u 40755 0"]);
    assert_eq!(log.trace.processes().unwrap()[0].cwd.to_text(), "/home/u");
    assert_eq!(log.trace.blobs().content(&log.actions()[1].data).unwrap().unwrap(), b"a\xff");
    let kinds: Vec<u32> = log.trace.descriptors().unwrap().iter().map(|d| d.kind).collect();
    assert_eq!(kinds, [0o020000, 0o020000, 0o140000]);
}

#[test]
fn structures_in_full() {
    let log = import(
        "stat(\"/d/f\", {st_dev=makedev(0x8, 0x1), st_ino=77, st_mode=S_IFREG|S_ISUID|0755, st_nlink=2, st_uid=5, st_gid=6, st_blksize=4096, st_blocks=8, st_size=10, st_atime=1 /* 1970 */, st_atime_nsec=2, st_mtime=3, st_mtime_nsec=4, st_ctime=5, st_ctime_nsec=6}) = 0\n\
         lstat(\"/d/g\", {st_dev=makedev(0x8, 0x1), st_ino=77, st_mode=S_IFREG|S_ISUID|0755, st_nlink=2, st_uid=5, st_gid=6, st_blksize=4096, st_blocks=8, st_size=10, st_atime=1, st_atime_nsec=2, st_mtime=3, st_mtime_nsec=4, st_ctime=5, st_ctime_nsec=6}) = 0\n\
         open(\"/d\", O_RDONLY|O_DIRECTORY) = 3\n\
         getdents64(3, [{d_ino=77, d_off=1, d_reclen=24, d_type=DT_REG, d_name=\"f\"}, {d_ino=8, d_off=2, d_reclen=24, d_type=DT_LNK, d_name=\"l\"}], 32768) = 48\n\
         readlink(\"/d/l\", \"f\", 100) = 1\n\
         utimensat(AT_FDCWD, \"/d/f\", [{tv_sec=7, tv_nsec=8} /* date */, UTIME_OMIT], 0) = 0\n\
         fcntl(3, F_SETLK, {l_type=F_WRLCK, l_whence=SEEK_SET, l_start=1, l_len=2}) = 0\n\
         writev(4, [{iov_base=\"ab\", iov_len=2}, {iov_base=\"c\", iov_len=1}], 2) = 3\n\
         pipe2([5, 6], O_CLOEXEC) = 0\n\
         umask(077) = 022\n\
         copy_file_range(3, [5], 4, NULL, 9, 0) = 9\n\
         getxattr(\"/d/f\", \"user.a\", \"val\", 100) = 3\n\
         getuid() = 1000\n\
         ioctl(3, FIONBIO, [1]) = 0\n",
    )
    .unwrap();
    let actions = log.actions();
    let output = |i: usize| actions[i].output[4..].to_vec();
    let word = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let stat = output(0);
    assert_eq!((stat.len(), word(&stat, 0), word(&stat, 8), word(&stat, 16), word(&stat, 48)), (144, 0x801, 77, 2, 10));
    assert_eq!(word(&stat, 24), 0o104755 | 5 << 32);
    assert_eq!((word(&stat, 88), word(&stat, 96)), (3, 4));
    let names = log.trace.tree().unwrap();
    let inodes: Vec<_> =
        names.iter().filter(|r| ["f", "g"].contains(&r.name.to_text().as_str())).map(|r| (r.inode, r.nlink)).collect();
    assert_eq!(inodes, [(77, 2), (77, 2)], "two names of one file");
    assert_eq!(names.iter().find(|r| *r.name == *b"l").unwrap().target.to_text(), "f");
    let listing = log.trace.blobs().content(&actions[3].data).unwrap().unwrap();
    assert_eq!((listing.len(), listing[18], listing[19], listing[42], listing[43]), (48, 8, b'f', 10, b'l'));
    let times = &actions[5].input[4..];
    assert_eq!([0, 8, 24].map(|at| word(times, at)), [7, 8, 0x3fff_fffe]);
    assert_eq!(actions[6].input[4..8], [1, 0, 0, 0]);
    assert_eq!((word(&actions[6].input[4..], 8), word(&actions[6].input[4..], 16)), (1, 2));
    assert_eq!((word(&actions[7].input[4..], 0), word(&actions[7].input[4..], 8)), (2, 1));
    assert_eq!(output(8), [5, 0, 0, 0, 6, 0, 0, 0]);
    assert_eq!((actions[9].args[0], actions[9].result), (0o77, 0o22));
    assert_eq!(word(&actions[10].input, 4), 5);
    assert_eq!(actions[12].input, [[4, 0, 0, 0], [1, 0, 0, 0]].concat());
    let process = &log.trace.processes().unwrap()[0];
    assert_eq!((process.umask, process.uids.clone()), (0o22, vec![1000; 4]));
}

#[test]
fn what_a_call_made_was_not_there() {
    let log = import(
        "mkdir(\"/w/new\", 0755) = 0\n\
         open(\"/w/new/f\", O_RDWR|O_CREAT, 0644) = 3\n\
         open(\"/w/db\", O_RDWR|O_CREAT, 0644) = 4\n\
         read(4, \"SQLite\"..., 100) = 100\n\
         open(\"/w/log\", O_WRONLY|O_CREAT|O_APPEND, 0644) = 5\n\
         write(5, \"x\", 1) = 1\n\
         fstat(5, {st_mode=S_IFREG|0600, st_size=11, ...}) = 0\n\
         open(\"/w/none\", O_RDONLY) = -1 ENOENT (No such file or directory)\n\
         open(\"/w/none\", O_WRONLY|O_CREAT, 0644) = 6\n\
         rename(\"/w/old\", \"/w/db\") = 0\n\
         unlink(\"/w/gone\") = 0\n",
    )
    .unwrap();
    let mut tree: Vec<String> = log.tree().into_iter().filter(|t| t.starts_with("/w/")).collect();
    tree.sort();
    assert_eq!(tree, ["/w/db 100644 100", "/w/gone 100644 0", "/w/log 100600 10", "/w/old 100644 0"]);
}

#[test]
fn what_calls_went_through_turns_out_to_be_a_link() {
    const THROUGH: &str = "openat(AT_FDCWD, \"/d/l/s/f\", O_RDONLY) = 3\n";
    // What tells of the link; its text.
    let cases = [
        ("lstat(\"/d/l\", {st_mode=S_IFLNK|0777, st_size=5, ...}) = 0\n", "0-not"),
        ("unlink(\"/d/l\") = 0\nmkdir(\"/d/l\", 0700) = 0\n", "0-not-in-the-log"),
        ("open(\"/d/l\", O_RDONLY|O_NOFOLLOW) = -1 ELOOP (Too many levels of symbolic links)\n", "0-not-in-the-log"),
        ("chdir(\"/d\") = 0\nreadlink(\"l\", \"e/r\", 99) = 3\n", "e/r"),
        (
            "chdir(\"/d\") = 0\nlstat(\"l\", {st_mode=S_IFLNK|0777, st_size=3, ...}) = 0\nreadlink(\"l\", \"e/r\", 99) = 3\n",
            "e/r",
        ),
        (
            "stat(\"/d/l\", {st_mode=S_IFDIR|0755, st_size=0, ...}) = 0\nlstat(\"/d/l\", {st_mode=S_IFLNK|0777, st_size=1, ...}) = 0\n",
            "0-not-in-the-log",
        ),
    ];
    for (call, text) in cases {
        let log = import(format!("{THROUGH}{call}")).unwrap();
        let names = log.trace.tree().unwrap();
        let link = names.iter().position(|r| *r.name == *b"l").expect(call);
        assert_eq!((names[link].mode & 0o170000, names[link].target.to_text().as_str()), (0o120000, text), "{call}");
        let reached: Vec<String> = log.tree().into_iter().filter(|row| row.starts_with("/d/")).collect();
        let file = format!("/d/{text}/s/f 100644 0");
        assert!(reached.contains(&file), "{call}: {reached:?}");
        let is_behind = |i: usize| {
            let row = &names[i];
            let holds = |r: &reprise_trace::TreeNode| (r.device, r.inode) == (row.parent_device, row.parent_inode);
            row.name.is_empty() || names[..i].iter().any(|r| holds(r) && r.mode & 0o170000 == 0o040000)
        };
        assert!((0..names.len()).all(is_behind), "a row comes before its directory: {call}");
    }
}

/// A call that output tore apart, and that is unfinished then, takes the place of the one that its thread was in.
#[test]
fn a_call_that_another_supersedes_is_counted() {
    let log = import(
        "100 clone(child_stack=NULL, flags=CLONE_VM|SIGCHLD <unfinished ...>\n\
         101 rename(\"/w/f\", \"/w/h\" <unfinished ...>\n\
         write(1, \"hello\\n\", 6hello\n \
         clone(child_stack=NULL, flags=CLONE_VM|SIGCHLD <unfinished ...100 <... clone resumed>, child_tidptr=0x7f) = 101\n",
    )
    .unwrap();
    let account = &log.report.account;
    assert_eq!((account.lines, account.understood, log.counted(Reason::NeverReturned)), (4, 0, 4), "{account:?}");
}

/// What a link says that a call made is nothing of the beginning.
#[test]
fn a_link_that_was_made_was_not_there() {
    let makers = [
        "symlink(\"e\", \"/d/l\") = 0\n",
        "symlinkat(\"e\", AT_FDCWD</d>, \"l\") = 0\n",
        "symlink(\"e\", \"/d/k\") = 0\nrename(\"/d/k\", \"/d/l\") = 0\n",
        "symlink(\"e\", \"/d/k\") = 0\nrenameat2(AT_FDCWD</d>, \"k\", AT_FDCWD</d>, \"l\", RENAME_NOREPLACE) = 0\n",
    ];
    for maker in makers {
        let missing = "stat(\"/d/l\", 0x7ffc) = -1 ENOENT (No such file or directory)\n";
        let log = import(format!("{missing}{maker}readlink(\"/d/l\", \"e\", 99) = 1\n")).unwrap();
        let reached: Vec<String> = log.tree().into_iter().filter(|row| row.starts_with("/d/")).collect();
        assert!(reached.is_empty(), "{maker}: {reached:?}");
    }
}

/// The number of the descriptor of a child, as versions of strace print it, with and without what it is.
#[test]
fn descriptors_of_children_have_their_numbers() {
    let log = import(
        "clone(child_stack=NULL, flags=CLONE_PIDFD|SIGCHLD, parent_tid=[3]) = 101\n\
         clone(child_stack=NULL, flags=CLONE_PIDFD|SIGCHLD, parent_tid=[4<pid:102>]) = 102\n\
         clone(child_stack=NULL, flags=CLONE_PARENT_SETTID|SIGCHLD, parent_tid=[103]) = 103\n\
         clone3({flags=CLONE_PIDFD, pidfd=0x7ffe, exit_signal=SIGCHLD, stack=NULL, stack_size=0} => {pidfd=[5]}, 88) = 104\n\
         clone3({flags=CLONE_PIDFD|CLONE_PARENT_SETTID, pidfd=0x7ffe, parent_tid=0x7ffc, exit_signal=SIGCHLD, stack=NULL, \
         stack_size=0} => {pidfd=[6<pid:105>], parent_tid=[105]}, 88) = 105\n\
         clone3({flags=0, exit_signal=SIGCHLD, stack=NULL, stack_size=0}, 88) = 106\n\
         clone3({flags=CLONE_PIDFD, pidfd=0x7ffe, exit_signal=SIGCHLD, stack=NULL, stack_size=0}, 88) = -1 EAGAIN\n",
    )
    .unwrap();
    let handle = |a: &Action| child_handle(by_name(&a.call).expect("a row"), &a.output);
    let handles: Vec<Option<u32>> = log.actions().iter().map(handle).collect();
    assert_eq!(handles, [Some(3), Some(4), None, Some(5), Some(6), None, None]);
}

/// No link that leads into what it led to can have been passed.
#[test]
fn a_link_that_leads_into_itself_moves_nothing() {
    let log =
        import("openat(AT_FDCWD, \"/d/l/s/f\", O_RDONLY) = 3\nchdir(\"/d\") = 0\nreadlink(\"l\", \"l/s/x\", 99) = 5\n")
            .unwrap();
    let reached: Vec<String> = log.tree().into_iter().filter(|row| row.starts_with("/d/")).collect();
    assert_eq!(reached, ["/d/l 40755 0", "/d/l/s 40755 0", "/d/l/s/f 100644 0"]);
}

#[test]
fn a_call_that_failed_does_not_show_that_its_name_stood() {
    let long = "x".repeat(300);
    let log = import(format!(
        "chroot(\"/{long}\") = -1 ENAMETOOLONG (File name too long)\nchroot(\"/none\") = -1 ENOENT (No such file or directory)\n"
    ))
    .unwrap();
    assert!(log.tree().iter().all(|row| !row.contains("xxx") && !row.contains("none")), "{:?}", log.tree());
}

#[test]
fn a_log_of_each_thread() {
    let parent = "1700000000.000001 execve(\"/x\", [\"x\"], 0x7ff /* 0 vars */) = 0\n\
                  1700000000.000002 vfork() = 22\n\
                  1700000000.000003 wait4(-1, NULL, 0, NULL) = 22\n\
                  1700000000.000020 exit_group(0) = ?\n\
                  1700000000.000021 +++ exited with 0 +++\n";
    let child = "1700000000.000002 chdir(\"/tmp\") = 0\n\
                 1700000000.000010 exit_group(0) = ?\n\
                 1700000000.000011 +++ exited with 0 +++\n";
    let log = import_threads(&[(22, child), (21, parent)]).unwrap();
    assert_eq!(log.calls(), "execve=0 vfork=22 chdir=0 exit_group=0 wait4=22 exit_group=0");
    let bare = |text: &str| text.lines().map(|l| l.split_once(' ').unwrap().1.to_owned() + "\n").collect::<String>();
    assert!(matches!(import_threads(&[(21, &bare(parent)), (22, &bare(child))]), Err(ImportError::NoOrder)));
    assert!(import_threads(&[(21, &bare(parent))]).is_ok());
}

#[test]
fn a_vfork_whose_child_runs_first() {
    let log = import(
        "5 vfork( <unfinished ...>\n\
         6 execve(\"/y\", [\"y\"], 0x7ff /* 0 vars */ <unfinished ...>\n\
         5 <... vfork resumed>) = 6\n\
         6 <... execve resumed>) = 0\n\
         6 +++ killed by SIGKILL +++\n\
         5 --- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_KILLED, si_pid=6} ---\n",
    )
    .unwrap();
    assert_eq!(log.calls(), "vfork=6 execve=0 exit_group=0");
    assert_eq!(log.actions()[2].args[0], 137);
}

#[test]
fn reasons_have_names_and_lines() {
    let log = import(
        "close(3) = 0\n\
         frobnicate(1) = 2\n\
         close(zzz) = 0\n\
         close(3) is broken\n\
         % time     seconds  usecs/call     calls    errors syscall\n",
    )
    .unwrap();
    for (reason, line) in [(Reason::UnknownCall, 2), (Reason::Arguments, 3), (Reason::Result, 4), (Reason::Summary, 5)]
    {
        let tally = &log.report.account.reasons[&reason];
        assert_eq!((tally.count, tally.first[0].line), (1, line), "{reason}");
        let ledger = log.trace.ledger();
        assert!(
            ledger.losses.values().any(|c| c.keys().any(|k| k.contains(reason.name()))),
            "{reason} is in the ledger"
        );
    }
}

#[test]
fn what_is_not_strace_is_named() {
    for (text, word) in [
        ("", "empty"),
        ("Dear all,\nplease find attached the report.\n", "plain text"),
        ("{\"a\": 1}\n", "JSON"),
        ("\x7fELF\x02\x01", "program"),
        (
            "open(\"/etc/libmap.conf\",O_RDONLY,0666)\t\t = 3 (0x3)\nopen(\"/x\",O_RDONLY,00)\t ERR#2 'No such file or directory'\n",
            "FreeBSD",
        ),
        ("execve(\"/bin/ls\", 0x08047BC4, 0x08047BD0)\targc = 1\nopen(\"/x\", O_RDONLY)\t\tErr#2 ENOENT\n", "Solaris"),
        ("__libc_start_main(0x4005, 1, 0x7ff) = 0\nputs(\"hello\") = 6\n+++ exited (status 0) +++\n", "ltrace"),
        (" 1234 ls       CALL  open(0x80,0)\n 1234 ls       NAMI  \"/x\"\n 1234 ls       RET   open 3\n", "ktrace"),
        (
            "% time     seconds  usecs/call     calls    errors syscall\n------ ----------- ----------- --------- --------- ----------------\n 40.00    0.000004           4         1           read\n",
            "-c",
        ),
    ] {
        match import(text) {
            Err(ImportError::Foreign { kind, .. }) => assert!(kind.contains(word), "{kind} for {text}"),
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("taken for strace: {text}"),
        }
    }
}

#[test]
fn a_name_that_strace_cuts_off_is_too_long_for_a_replay_too() {
    let (path, name) = ("/".repeat(4095), "n".repeat(249));
    let log = import(format!(
        "chdir(\"{path}\"...) = -1 ENAMETOOLONG (File name too long)\n\
         memfd_create(\"{name}\"..., 0) = -1 EINVAL (Invalid argument)\n\
         getxattr(\"/f\", \"user.shortened\"..., \"x\", 10) = 1\n"
    ))
    .unwrap();
    let actions = log.actions();
    assert_eq!(actions[0].path.as_ref().map(|path| path.0.len()), Some(4096));
    assert!(actions[1].input.ends_with(b"nx"), "{:?}", actions[1].input);
    assert!(!actions[2].input.ends_with(b"x"), "what is known of a call that succeeded");
}

#[test]
fn what_every_machine_has_in_dev_was_there() {
    let log = import(
        "openat(AT_FDCWD, \"/dev/null\", O_WRONLY|O_CREAT|O_TRUNC, 0666) = 3\n\
         openat(AT_FDCWD, \"/dev/other\", O_WRONLY|O_CREAT|O_TRUNC, 0666) = 4\n\
         pwrite64(3, \"x\", 1, 1004211379570065135) = 1\n",
    )
    .unwrap();
    assert_eq!(log.tree().last().map(String::as_str), Some("/dev/null 20666 0"));
}

/// `/lib` leads to `/usr/lib`, where calls found something, too.
#[test]
fn a_link_leads_to_what_was_met_there_under_its_own_name() {
    let file = whole_stat("S_IFREG", 77, 1);
    let before = format!(
        "openat(AT_FDCWD, \"/usr/lib/x/other\", O_RDONLY) = 3\nopenat(AT_FDCWD, \"/usr/lib/x/libc\", O_RDONLY) = 4\n\
         openat(AT_FDCWD, \"/lib/x/libc\", O_RDONLY) = 5\nfstat(5, {file}) = 0\nread(5, \"ELF\", 3) = 3\n\
         openat(AT_FDCWD, \"/lib/x/more/f\", O_RDONLY) = 6\nopen(\"/lib/none\", O_RDONLY) = -1 ENOENT (No such file or directory)\n"
    );
    let link = "lstat(\"/lib\", {st_mode=S_IFLNK|0777, st_size=7, ...}) = 0\n";
    let text = "readlink(\"/lib\", \"usr/lib\", 99) = 7\n";
    for (told, after) in [
        (text.to_owned(), ""),
        (format!("{link}{text}"), ""),
        (format!("{link}openat(AT_FDCWD, \"/lib/x/new\", O_RDONLY) = 7\n{text}"), "/usr/lib/x/new"),
    ] {
        let log = import(format!("{before}{told}chdir(\"/lib/x\") = 0\nopen(\"last\", O_RDONLY) = 8\n")).unwrap();
        let names = log.trace.tree().unwrap();
        let link = names.iter().find(|r| *r.name == *b"lib" && r.mode & 0o170000 == 0o120000).expect("a link");
        assert_eq!(link.target.to_text(), "usr/lib");
        let mut tree = log.tree();
        tree.retain(|row| row.contains("lib/") || row.contains("-not-"));
        tree.retain(|row| after.is_empty() || !row.starts_with(after));
        tree.sort();
        let expected = [
            "/usr/lib/x 40755 0",
            "/usr/lib/x/last 100644 0",
            "/usr/lib/x/libc 100755 4096",
            "/usr/lib/x/more 40755 0",
            "/usr/lib/x/more/f 100644 0",
            "/usr/lib/x/other 100644 0",
        ];
        assert_eq!(tree, expected, "{told}");
    }
}

#[test]
fn a_number_that_nothing_has_was_not_open_at_the_beginning() {
    let log = import(
        "newfstatat(7, \"\", 0x7ffd, AT_EMPTY_PATH) = -1 EBADF (Bad file descriptor)\n\
         fcntl(8, F_GETFD) = -1 EBADF (Bad file descriptor)\n\
         openat(9, \"x\", O_RDONLY) = -1 EBADF (Bad file descriptor)\n\
         fsync(10) = -1 EBADF (Bad file descriptor)\n\
         fsync(11) = 0\n",
    )
    .unwrap();
    let numbers: Vec<u32> = log.trace.descriptors().unwrap().iter().map(|d| d.fd).collect();
    assert_eq!(numbers, [0, 1, 2, 11]);
}

/// That a child made, or closed, a number says nothing of its parent's.
#[test]
fn a_number_of_the_beginning_is_told_by_whoever_still_has_it() {
    let log = import(
        "10 fork() = 11\n10 fork() = 12\n11 close(7) = 0\n11 openat(AT_FDCWD, \"/f\", O_RDONLY) = 8\n\
         12 fsync(7) = 0\n12 fsync(8) = 0\n11 fsync(9) = 0\n",
    )
    .unwrap();
    let mut numbers: Vec<u32> = log.trace.descriptors().unwrap().iter().map(|d| d.fd).collect();
    numbers.retain(|fd| *fd > 2);
    assert_eq!(numbers, [7, 8, 9]);
}

/// What `stat` shows in full of a file of that type, inode, and number of names.
fn whole_stat(kind: &str, inode: u32, links: u32) -> String {
    format!(
        "{{st_dev=makedev(0x8, 0x1), st_ino={inode}, st_mode={kind}|0755, st_nlink={links}, st_uid=0, st_gid=0, st_blksize=4096, st_blocks=8, st_size=4096, st_atime=1, st_atime_nsec=2, st_mtime=3, st_mtime_nsec=4, st_ctime=5, st_ctime_nsec=6}}"
    )
}

/// Nobody tells that `/d/plugin` is a link, but the file has one name.
#[test]
fn a_file_with_one_name_that_was_met_under_two_is_behind_a_link() {
    let file = whole_stat("S_IFREG", 77, 1);
    let seen = [
        format!("stat(\"/usr/lib/gcc/plugin.so\", {file}) = 0\nstat(\"/d/plugin\", {file}) = 0\n"),
        format!(
            "stat(\"/d/plugin\", {file}) = 0\nopen(\"/usr/lib/gcc/plugin.so\", O_RDONLY) = 3\nfstat(3, {file}) = 0\n"
        ),
    ];
    for log in seen {
        let rows = import(log).unwrap().trace.tree().unwrap();
        let link = rows.iter().find(|r| r.mode & 0o170000 == 0o120000).expect("a link");
        assert_eq!(
            (link.name.to_text().as_str(), link.target.to_text().as_str()),
            ("plugin", "/usr/lib/gcc/plugin.so")
        );
        let file: Vec<_> = rows.iter().filter(|r| r.inode == 77).collect();
        assert_eq!(file.iter().map(|r| (r.name.to_text(), r.size)).collect::<Vec<_>>(), [("plugin.so".into(), 4096)]);
    }
    let gone = whole_stat("S_IFREG", 77, 1);
    let again = format!(
        "stat(\"/d/long/gone\", {gone}) = 0\nunlink(\"/d/long/gone\") = 0\nopen(\"/d/f\", O_RDWR|O_CREAT, 0644) = 3\nfstat(3, {gone}) = 0\nstat(\"/d/f\", {gone}) = 0\n"
    );
    assert!(
        import(again).unwrap().trace.tree().unwrap().iter().all(|r| r.mode & 0o170000 != 0o120000),
        "a number is used again"
    );
}

/// Nobody tells that `/lib` is a link, but below it is what stands below `/usr/lib`.
#[test]
fn directories_of_one_inode_are_one_behind_a_link() {
    let stat = |path: &str| format!("stat(\"{path}\", {}) = 0\n", whole_stat("S_IFDIR", 7, 2));
    let (first, second) = (stat("/lib/x/y"), stat("/usr/lib/x/y"));
    let files = "open(\"/lib/x/y/a\", O_RDONLY) = 3\nopen(\"/usr/lib/x/y/b\", O_RDONLY) = 3\n";
    for log in [format!("{files}{first}{second}"), format!("{files}{second}{first}")] {
        let log = import(log).unwrap();
        let rows = log.trace.tree().unwrap();
        let link = rows.iter().find(|r| r.mode & 0o170000 == 0o120000).expect("a link");
        assert_eq!((link.name.to_text().as_str(), link.target.to_text().as_str()), ("lib", "/usr/lib"));
        let mut tree = log.tree();
        tree.retain(|row| row.contains("/y"));
        tree.sort();
        assert_eq!(tree, ["/usr/lib/x/y 40755 0", "/usr/lib/x/y/a 100644 0", "/usr/lib/x/y/b 100644 0"]);
    }
}

/// `/d/e` is a directory: of a file below which something was looked for the error would have been ENOTDIR.
#[test]
fn what_nothing_was_found_in_is_a_directory() {
    let (missing, there) =
        ("stat(\"/d/e/none\", 0x7ffd) = -1 ENOENT (No such file or directory)\n", "access(\"/d/e\", F_OK) = 0\n");
    for log in [format!("{missing}{there}"), format!("{there}{missing}")] {
        let log = import(format!("access(\"/d\", F_OK) = 0\n{log}access(\"/d/f\", F_OK) = 0\n")).unwrap();
        let mut tree = log.tree();
        tree.retain(|row| row.starts_with("/d"));
        assert_eq!(tree, ["/d 40755 0", "/d/e 40755 0", "/d/f 100644 0"]);
    }
}

/// Whom a socket's name belongs to; and who may take a name away from where everybody makes some.
#[test]
fn a_socket_is_no_file_of_the_beginning_and_a_name_taken_away_is_its_owners() {
    let socket = "socket(AF_UNIX, SOCK_STREAM, 0) = 3\nbind(3, {sa_family=AF_UNIX, sun_path=\"/tmp/new\"}, 110) = 0\nunlink(\"/tmp/new\") = 0\n";
    let user = "setresgid(-1, 200, -1) = 0\nsetuid(100) = 0\nunlink(\"/tmp/old\") = 0\nrename(\"/var/tmp/a\", \"/var/tmp/b\") = 0\n";
    let log = import(format!("{socket}unlink(\"/tmp/roots\") = 0\n{user}")).unwrap();
    let rows = log.trace.tree().unwrap();
    let rows = rows.iter().map(|r| format!("{} {:o} {}", r.name.to_text(), r.mode, r.uid));
    let mut rows: Vec<String> = rows.filter(|row| !row.contains(" 40755 ")).collect();
    rows.sort();
    assert_eq!(rows, ["a 100644 100", "old 100644 100", "roots 100644 0", "tmp 41777 0", "tmp 41777 0"]);
}
