//! What random programs and explored orders have found: each as the smallest program that shows it.

mod means;

use std::path::Path;

use means::{mkdir, record, run};
use reprise_testkit::scratch::Scratch;
use reprise_testkit::skip;
use reprise_trace::TraceReader;

const PYTHON: &str = "/usr/bin/python3";

/// Records a Python program, replays it in several orders, and looks at the trees.
fn same_in_every_order(name: &str, program: &str) {
    // Not what stands for it in the path: that may be a script of many processes.
    if !Path::new(PYTHON).exists() {
        return skip(name, "no /usr/bin/python3");
    }
    let s = Scratch::new();
    let dir = s.path();
    mkdir(dir, "w");
    std::fs::write(dir.join("w/old"), "it was there").unwrap();
    std::fs::write(dir.join("program.py"), program).unwrap();
    record(dir, "t.reprise", &format!("cd w && {PYTHON} -S -E -B ../program.py"));
    for schedule in 0..8 {
        let target = format!("t{schedule}");
        mkdir(dir, &target);
        let number = schedule.to_string();
        run(dir, &["replay", "t.reprise", "--target", &target, "--schedule", &number]).ends(0);
        run(dir, &["verify", "--tree", "t.reprise", &target]).ends(0);
    }
    let trace = TraceReader::open(&dir.join("t.reprise")).expect("a trace");
    let doubts = ["overlapping", "not in the log"];
    let doubted: Vec<_> = trace.ledger().notes.keys().filter(|note| doubts.iter().any(|d| note.contains(d))).collect();
    assert!(doubted.is_empty(), "{doubted:?}");
}

/// The replay's thread had not ended yet, its table was left before the descriptor was there.
#[test]
fn a_table_whose_other_user_has_ended_is_not_left() {
    same_in_every_order(
        "a_table_whose_other_user_has_ended_is_not_left",
        r#"
import ctypes, os, threading
def opens():
    global fd
    fd = os.open("made", os.O_RDWR | os.O_CREAT)
thread = threading.Thread(target=opens)
thread.start()
thread.join()
while len(os.listdir("/proc/self/task")) > 1:
    pass
UNSHARE = 2
assert ctypes.CDLL(None).syscall(436, 900, 902, UNSHARE) == 0
os.write(fd, b"by a table that nobody shares")
os.close(fd)
"#,
    );
}

/// In the thread's own table the number meant another file.
#[test]
fn the_first_threads_descriptor_is_not_sought_in_another_table() {
    same_in_every_order(
        "the_first_threads_descriptor_is_not_sought_in_another_table",
        r#"
import ctypes, os, threading
fd = os.open("gone", os.O_RDWR | os.O_CREAT, 0o600)
os.write(fd, b"12345")
os.unlink("gone")
def leaves():
    CLONE_FILES = 0x400
    assert ctypes.CDLL(None).unshare(CLONE_FILES) == 0
    os.close(fd)
    assert os.open("other", os.O_RDWR | os.O_CREAT, 0o644) == fd
    assert os.stat(f"/proc/self/fd/{fd}").st_size == 5
thread = threading.Thread(target=leaves)
thread.start()
thread.join()
"#,
    );
}

#[test]
fn a_file_copied_over_itself_and_behind_its_end() {
    same_in_every_order(
        "a_file_copied_over_itself_and_behind_its_end",
        r#"
import os
for name, size, to, count in [("end", 5000, 5000, 9999), ("over", 9000, 4096, 9000), ("little", 100, 100, 700)]:
    source = os.open(name, os.O_RDWR | os.O_CREAT)
    os.write(source, bytes(i * 7 % 251 for i in range(size)))
    target = os.open(name, os.O_RDWR)
    os.lseek(target, to, os.SEEK_SET)
    assert os.sendfile(target, source, 0, count) > 0
"#,
    );
}

#[test]
fn a_copy_of_nothing_makes_a_file_no_longer() {
    same_in_every_order(
        "a_copy_of_nothing_makes_a_file_no_longer",
        r#"
import os
source, target = (os.open(name, os.O_RDWR | os.O_CREAT) for name in ("source", "target"))
os.lseek(target, 70000, os.SEEK_SET)
assert os.sendfile(target, source, 0, 100) == 0
"#,
    );
}

/// `FIOCLEX` fails on an `O_PATH` descriptor, which so outlives the execution of a program.
#[test]
fn a_descriptor_marked_in_vain_is_not_closed_by_exec() {
    same_in_every_order(
        "a_descriptor_marked_in_vain_is_not_closed_by_exec",
        r#"
import fcntl, os, sys
fd = os.open(".", os.O_PATH)
os.set_inheritable(fd, True)
try:
    fcntl.ioctl(fd, 0x5451)
    raise SystemExit("marked")
except OSError:
    pass
os.execv(sys.executable, [sys.executable, "-S", "-E", "-B", "-c", f"import os; os.mkdir('below', dir_fd={fd}); os.close({fd})"])
"#,
    );
}

/// The name is gone long before the call has freed the file's blocks and returns.
#[test]
fn a_listing_lacks_a_name_that_is_being_removed() {
    same_in_every_order(
        "a_listing_lacks_a_name_that_is_being_removed",
        r#"
import os, threading
for name in ("removed", "moved", "replaced"):
    with open(name, "wb") as file:
        file.write(bytes(40 << 20))
os.mkdir("other")
open("new", "w").close()
for change in (
    lambda: os.unlink("removed"),
    lambda: os.rename("new", "replaced"),
    lambda: os.rename("moved", "other/moved"),
):
    before = os.listdir(".")
    thread = threading.Thread(target=change)
    thread.start()
    while sorted(os.listdir(".")) == sorted(before):
        pass
    os.listdir("other")
    thread.join()
"#,
    );
}

/// The same of a directory that the program has made, and of many listings meanwhile.
#[test]
fn listings_of_a_new_directory_lack_a_name_that_is_being_removed() {
    same_in_every_order(
        "listings_of_a_new_directory_lack_a_name_that_is_being_removed",
        r#"
import os, threading
os.mkdir("made")
for number in range(4):
    with open(f"made/{number}", "wb") as file:
        file.write(bytes(40 << 20))
def remove():
    for number in range(4):
        os.unlink(f"made/{number}")
thread = threading.Thread(target=remove)
thread.start()
while os.listdir("made"):
    pass
thread.join()
"#,
    );
}

/// `utimensat` that leaves both times is successful whatever it names, and a name with a slash behind it cannot be made by opening it,
/// whatever stands there.
#[test]
fn results_that_tell_of_no_file() {
    same_in_every_order(
        "results_that_tell_of_no_file",
        r#"
import ctypes, os, struct
OMIT = (1 << 30) - 2
assert ctypes.CDLL(None).utimensat(-100, b"nothing", struct.pack("qqqq", 0, OMIT, 0, OMIT), 0) == 0
assert not os.path.exists("nothing")
try:
    os.open("made/", os.O_WRONLY | os.O_CREAT)
except IsADirectoryError:
    os.mkdir("made")
os.stat("made")
"#,
    );
}

/// What is received is what was sent, also when it is opened again by its number.
#[test]
fn a_descriptor_that_came_in_a_message_is_opened_again() {
    same_in_every_order(
        "a_descriptor_that_came_in_a_message_is_opened_again",
        r#"
import os, socket
one, other = socket.socketpair()
if os.fork() == 0:
    one.close()
    received = socket.recv_fds(other, 1, 1)[1][0]
    again = os.open(f"/proc/self/fd/{received}", os.O_WRONLY)
    os.write(again, b"IT")
    os.ftruncate(again, 6)
    os._exit(0)
other.close()
socket.send_fds(one, [b"x"], [os.open("old", os.O_PATH)])
assert os.wait()[1] == 0
assert open("old").read() == "IT was"
"#,
    );
}

/// The number of a file without a name had been another's, which was longer.
#[test]
fn a_file_without_a_name_begins_empty() {
    same_in_every_order(
        "a_file_without_a_name_begins_empty",
        r#"
import os
for turn in range(20):
    fd = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600)
    if turn % 2 == 0:
        os.write(fd, b"long")
    os.read(fd, 9)
    os.close(fd)
"#,
    );
}

/// What was written before a file was sealed was written past the seal.
#[test]
fn a_file_is_sealed_behind_what_is_written_to_it() {
    same_in_every_order(
        "a_file_is_sealed_behind_what_is_written_to_it",
        r#"
import fcntl, os, threading
fd = os.memfd_create("sealed", os.MFD_ALLOW_SEALING)
def writes():
    for turn in range(9):
        os.pwrite(fd, b"written", 7 * turn)
thread = threading.Thread(target=writes)
thread.start()
thread.join()
fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
"#,
    );
}

/// What a seal refuses is asked for behind it.
#[test]
fn what_a_seal_refuses_comes_behind_it() {
    same_in_every_order(
        "what_a_seal_refuses_comes_behind_it",
        r#"
import fcntl, os, threading
seals, ALL = [], fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
files = [os.memfd_create("sealed", os.MFD_ALLOW_SEALING) for turn in range(30)]
def refused(call, *given):
    try:
        call(*given)
        assert False
    except PermissionError:
        pass
turns = [threading.Semaphore(0), threading.Semaphore(0)]
def writes():
    for fd in files:
        turns[0].acquire()
        refused(os.write, fd, b"abc")
        refused(os.ftruncate, fd, 100)
        refused(os.posix_fallocate, fd, 0, 100)
        seals.append(fcntl.fcntl(fd, fcntl.F_GET_SEALS))
        turns[1].release()
thread = threading.Thread(target=writes)
thread.start()
for fd in files:
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, ALL)
    turns[0].release()
    turns[1].acquire()
thread.join()
assert seals == [ALL] * 30
"#,
    );
}

/// What is marked by its number is there before.
#[test]
fn a_descriptor_that_another_thread_made_is_marked_behind_that() {
    same_in_every_order(
        "a_descriptor_that_another_thread_made_is_marked_behind_that",
        r#"
import ctypes, fcntl, os, threading
fd = os.open("made", os.O_RDWR | os.O_CREAT)
def duplicates():
    for turn in range(9):
        os.pwrite(fd, b"before", 6 * turn)
    fcntl.fcntl(fd, fcntl.F_DUPFD, 40)
thread = threading.Thread(target=duplicates)
thread.start()
thread.join()
CLOSE_ON_EXEC = 4
assert ctypes.CDLL(None).syscall(436, 40, 50, CLOSE_ON_EXEC) == 0
assert fcntl.fcntl(40, fcntl.F_GETFD) == 1
"#,
    );
}
