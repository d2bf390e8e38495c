"""Small programs for corners of the kernel, one by name: `corners.py NAME`, in an empty directory.

Each does the same from run to run, so that two recordings of it can be compared.
"""

import ctypes
import errno
import fcntl
import mmap
import os
import resource
import signal
import socket
import struct
import sys
import threading

libc = ctypes.CDLL(None, use_errno=True)
AT_FDCWD, AT_EMPTY_PATH, AT_SYMLINK_FOLLOW = -100, 0x1000, 0x400
SYS_close_range, SYS_pidfd_open, SYS_pidfd_getfd = 436, 434, 438


def put(name, text, flags=os.O_WRONLY | os.O_CREAT | os.O_TRUNC):
    fd = os.open(name, flags, 0o644)
    os.write(fd, text)
    os.close(fd)


def get(name):
    fd = os.open(name, os.O_RDONLY)
    text = os.read(fd, 1 << 16)
    os.close(fd)
    return text


def child(body):
    """A process that does something and ends; waited for."""
    pid = os.fork()
    if pid == 0:
        try:
            body()
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


def xattrs():
    put("f", b"x")
    os.setxattr("f", "user.one", b"1" * 300)
    os.setxattr("f", "user.two", b"")
    put("out", os.getxattr("f", "user.one") + ",".join(sorted(os.listxattr("f"))).encode())
    os.removexattr("f", "user.two")
    try:
        os.getxattr("f", "user.two")
    except OSError:
        put("missing", b"")


def links():
    put("a", b"one")
    os.link("a", "b")
    os.symlink("b", "c")
    os.symlink("nowhere", "d")
    put("c", b"through", os.O_WRONLY | os.O_APPEND)
    os.unlink("a")
    os.link("c", "e", follow_symlinks=False)
    put("out", (os.readlink("c") + os.readlink("d")).encode() + get("e"))
    os.rename("d", "f")


def listing():
    os.mkdir("d")
    for i in range(300):
        put(f"d/{i:03}" + "x" * 100, b"")
    fd = os.open("d", os.O_RDONLY | os.O_DIRECTORY)
    room = ctypes.create_string_buffer(4096)
    got = libc.syscall(217, fd, room, 4096)  # a part only
    put("out", b"some" if got > 0 else b"none")
    os.close(fd)
    put("all", str(len(os.listdir("d"))).encode())


def sparse():
    fd = os.open("f", os.O_RDWR | os.O_CREAT, 0o600)
    os.ftruncate(fd, 5 << 30)
    os.pwrite(fd, b"far", (4 << 30) + 7)
    os.lseek(fd, (4 << 30) + 5, os.SEEK_SET)
    text = os.read(fd, 10)
    libc.fallocate(fd, 3, ctypes.c_long(4 << 30), ctypes.c_long(4096))  # punch a hole
    put("out", text + os.pread(fd, 10, (4 << 30) + 5))
    os.close(fd)


def passed():
    put("f", b"handed over")
    one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)

    def receive():
        message, fds, _, _ = socket.recv_fds(two, 10, 2)
        put("out", message + os.read(fds[0], 100))
        os.close(fds[0])

    fd = os.open("f", os.O_RDONLY)
    socket.send_fds(one, [b"here"], [fd])
    os.close(fd)
    child(receive)


def script():
    put("inner", b"#!/bin/sh\necho $1 > out\n")
    put("outer", b"#!./inner with\n")
    os.chmod("inner", 0o755)
    os.chmod("outer", 0o755)
    os.spawnv(os.P_WAIT, "./outer", ["./outer", "arguments"])


def threads():
    """Threads one after the other, the first of all ends last."""

    def work(i):
        put(f"t{i}", str(i).encode())

    for i in range(4):
        t = threading.Thread(target=work, args=(i,))
        t.start()
        t.join()
    put("out", get("t3"))


def leader():
    """The first thread of a process ends, another goes on."""

    def body():
        ready = os.pipe()

        def rest():
            os.read(ready[0], 1)
            put("late", b"late")
            os._exit(0)

        threading.Thread(target=rest, daemon=True).start()
        os.write(ready[1], b"x")
        libc.syscall(60, 0)  # exit, of this thread only

    child(body)
    put("out", get("late"))


def killed():
    pid = os.fork()
    if pid == 0:
        put("before", b"x")
        os.kill(os.getpid(), signal.SIGKILL)
    put("out", str(os.waitpid(pid, 0)[1]).encode())


def closed():
    """Files under the numbers of the standard descriptors."""

    def body():
        for fd in (0, 1, 2):
            os.close(fd)
        fds = [os.open(name, os.O_RDWR | os.O_CREAT, 0o644) for name in ("zero", "one", "two")]
        for fd in fds:
            os.write(fd, b"%d" % fd)

    child(body)


def rooted():
    os.makedirs("r/in")
    put("r/in/f", b"inside")

    def body():
        os.chroot("r")
        os.chdir("/")
        put("/out", get("/in/f") + get("in/../in/f"))

    child(body)


def moved():
    os.makedirs("a/b")
    put("a/b/f", b"x")
    fd = os.open("a/b", os.O_RDONLY | os.O_DIRECTORY)
    os.rename("a", "c")
    os.chdir("c/b")
    put("g", b"relative")
    put("../up", b"above")
    h = os.open("h", os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=fd)
    os.write(h, b"by descriptor")
    os.close(h)


def gone():
    """A working directory and an open file without names."""
    os.mkdir("d")
    fd = os.open("f", os.O_RDWR | os.O_CREAT, 0o644)
    os.unlink("f")
    os.write(fd, b"nameless")

    def body():
        os.chdir("d")
        os.rmdir("../d")
        try:
            put("g", b"")
        except OSError:
            pass

    child(body)
    put("out", os.pread(fd, 100, 0))


def nameless():
    fd = os.open(".", os.O_RDWR | os.O_TMPFILE, 0o644)
    os.write(fd, b"given a name later")
    if libc.linkat(fd, b"", AT_FDCWD, b"named", AT_EMPTY_PATH):
        libc.linkat(AT_FDCWD, b"/proc/self/fd/%d" % fd, AT_FDCWD, b"named", AT_SYMLINK_FOLLOW)
    os.close(fd)
    memory = os.memfd_create("m")
    os.write(memory, b"in memory")
    os.lseek(memory, 0, os.SEEK_SET)
    put("out", os.read(memory, 100) + get("named"))


def spliced():
    put("f", b"0123456789" * 1000)
    source = os.open("f", os.O_RDONLY)
    target = os.open("out", os.O_WRONLY | os.O_CREAT, 0o644)
    from_pipe, to_pipe = os.pipe()
    os.splice(source, to_pipe, 5000)
    os.splice(from_pipe, target, 5000)
    os.copy_file_range(source, target, 3000)
    os.sendfile(target, source, 100, 50)
    os.writev(target, [b"a", b"bc", b""])


def numbers():
    put("f", b"0123456789")
    fd = os.open("f", os.O_RDWR)
    other = os.dup(fd)
    far = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100)
    os.dup2(fd, 50)
    text = os.read(other, 2) + os.read(far, 2) + os.read(50, 2)
    fcntl.fcntl(50, fcntl.F_SETFL, os.O_APPEND)
    os.write(fd, b"end")
    libc.syscall(SYS_close_range, 40, 200, 0)
    try:
        os.read(50, 1)
    except OSError:
        text += b"closed"
    put("out", text)


def taken():
    """A descriptor taken from another process."""
    put("f", b"of a child")
    ready, go = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        fd = os.dup2(os.open("f", os.O_RDONLY), 77)
        os.read(fd, 3)
        os.write(ready[1], b"x")
        os.read(go[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    handle = libc.syscall(SYS_pidfd_open, pid, 0)
    fd = libc.syscall(SYS_pidfd_getfd, handle, 77, 0)
    put("out", os.read(fd, 100))
    os.write(go[1], b"x")
    os.waitpid(pid, 0)


def locked():
    fd = os.open("f", os.O_RDWR | os.O_CREAT, 0o644)
    fcntl.flock(fd, fcntl.LOCK_EX)
    fcntl.fcntl(fd, 37, struct.pack("hhxxxxqqi4x", fcntl.F_WRLCK, 0, 100, 10, 0))  # F_OFD_SETLK
    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 10)

    def body():
        other = os.open("f", os.O_RDWR)
        try:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            put("out", b"refused")

    child(body)
    fcntl.flock(fd, fcntl.LOCK_UN)


def unwaiting():
    """Whether calls wait, told by `ioctl`, for all descriptors of an open file."""
    FIONBIO = 0x5421
    fd = os.open("f", os.O_RDWR | os.O_CREAT, 0o644)
    other = os.dup(fd)
    flags = []
    for on in (1, 0, 1):
        fcntl.ioctl(fd, FIONBIO, struct.pack("i", on))
        flags.append(fcntl.fcntl(other, fcntl.F_GETFL) & os.O_NONBLOCK)
    put("out", repr(flags).encode())


def allocated_by_request():
    """Ranges that `ioctl` reserves, makes zero and gives back, told from the begin, the position and the end."""
    RESERVE, GIVE_BACK, ZERO = 0x4030582A, 0x4030582B, 0x40305839
    fd = os.open("f", os.O_RDWR | os.O_CREAT, 0o644)
    os.write(fd, b"A" * 32768)
    os.lseek(fd, 20480, os.SEEK_SET)
    for request, whence, start in (
        (ZERO, os.SEEK_SET, 4096),
        (GIVE_BACK, os.SEEK_CUR, -4096),
        (GIVE_BACK, os.SEEK_END, -4096),
        (RESERVE, os.SEEK_SET, 65536),
    ):
        try:
            fcntl.ioctl(fd, request, struct.pack("hhqqiI4i", 0, whence, start, 4096, 0, 0, 0, 0, 0, 0))
        except OSError as e:
            put(f"refused-{request}-{whence}", str(e.errno).encode())
    put("out", os.pread(fd, 65536, 0))


def kept_over_programs():
    """Whether a descriptor is closed when a program is run, told by `ioctl`, for this descriptor alone."""
    FIONCLEX, FIOCLEX = 0x5450, 0x5451
    fd = os.open("f", os.O_RDWR | os.O_CREAT, 0o644)
    other = os.dup(fd)
    flags = []
    for request in (FIONCLEX, FIOCLEX, FIONCLEX):
        fcntl.ioctl(fd, request)
        flags += [fcntl.fcntl(which, fcntl.F_GETFD) for which in (fd, other)]
    put("out", repr(flags).encode())


def too_many():
    """More descriptors than the program may have."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
    fd = os.open("f", os.O_RDWR | os.O_CREAT, 0o644)
    for _ in range(64):
        try:
            os.dup(fd)
        except OSError as e:
            assert e.errno == errno.EMFILE
    for duplicate in (fcntl.F_DUPFD, fcntl.F_DUPFD_CLOEXEC):
        for least, expected in ((3, errno.EMFILE), (40, errno.EINVAL)):
            try:
                fcntl.fcntl(fd, duplicate, least)
            except OSError as e:
                assert e.errno == expected
    os.write(fd, b"x")


def bound():
    """A socket that gets a name which nobody had looked for, and loses it; one whose name another has."""
    def named(name, then=lambda: None):
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(name)
            then()

    def twice():
        try:
            named("s")
        except OSError as e:
            assert e.errno == errno.EADDRINUSE
        put("out", b"%o" % os.stat("s").st_mode)

    child(lambda: named("s", twice))
    os.unlink("s")
    named("s")
    os.rename("s", "t")
    os.unlink("t")


def left_mapped():
    """A process with several threads ends while a file is mapped that it has stored to: its first thread is gone before the others."""
    put("f", bytes(5 * 4096))

    def body():
        for _ in range(4):
            threading.Thread(target=signal.pause, daemon=True).start()
        fd = os.open("f", os.O_RDWR)
        pages = mmap.mmap(fd, 5 * 4096)
        os.close(fd)
        for page in range(5):
            pages[page * 4096 + 7] += 1 + page
        os._exit(0)

    child(body)
    child(body)
    put("out", get("f"))


def users_apart():
    """A user namespace in which who is 0 outside is 7: owners that are told, and given, are others."""
    NEW_USERS = 0x10000000
    put("f", b"before")

    def body():
        if libc.unshare(NEW_USERS) != 0:
            return
        put("/proc/self/setgroups", b"deny", os.O_WRONLY)
        put("/proc/self/uid_map", b"7 %d 1" % uid, os.O_WRONLY)
        put("/proc/self/gid_map", b"7 %d 1" % gid, os.O_WRONLY)
        put("g", b"within")
        os.chown("f", 7, 7)
        os.setuid(7)
        os.setgid(7)
        owners = [os.stat(name).st_uid for name in ("f", "g", "/")]
        put("out", repr(owners).encode())
        child(lambda: put("h", repr(os.stat("f").st_gid).encode()))

    uid, gid = os.getuid(), os.getgid()
    child(body)
    for name in ("f", "g", "h"):
        os.stat(name)


def mounted():
    """Mounts made by the calls that configure them step by step, in a namespace of its own; what they hid is there again."""
    NEW_MOUNTS, PRIVATE, SET_STRING, CREATE, EMPTY_FROM, CLONE, NO_DEVICES = 0x20000, 0x44000, 1, 6, 4, 1, 4
    attributes = ctypes.create_string_buffer(bytes([NO_DEVICES]) + bytes(31), 32)

    def call(number, *args):
        return libc.syscall(number, *[ctypes.c_void_p(a) if isinstance(a, int) else a for a in args])

    def body():
        if libc.unshare(NEW_MOUNTS) != 0 or call(165, 0, b"/", 0, PRIVATE, 0) != 0:
            return
        context = call(430, b"tmpfs", 1)
        if context < 0 or call(431, context, SET_STRING, b"size", b"1m", 0) or call(431, context, CREATE, 0, 0, 0):
            return
        mount = call(432, context, 1, 0)
        call(429, mount, b"", AT_FDCWD, b"m", EMPTY_FROM)
        put("m/x", b"inside")
        os.close(call(433, AT_FDCWD, b"m", 1))
        call(442, AT_FDCWD, b"m", 0, attributes, 32)
        copy = call(428, AT_FDCWD, b"m", CLONE)
        call(429, copy, b"", AT_FDCWD, b"n", EMPTY_FROM)
        put("out", " ".join(os.listdir("n")).encode())
        for name in (b"n", b"m"):
            call(166, name, 2)
        put("after", get("m/below"))

    os.mkdir("m")
    os.mkdir("n")
    put("m/below", b"hidden")
    child(body)


def brought():
    """File systems of memory: what is made in one stays there, what another one hid is there again, and what comes anew is empty."""
    NEW_MOUNTS, PRIVATE, BIND, MOVE = 0x20000, 0x44000, 0x1000, 0x2000

    def call(number, *args):
        return libc.syscall(number, *[ctypes.c_void_p(a) if isinstance(a, int) else a for a in args])

    def memory(place):
        if call(165, b"none", place, b"tmpfs", 0, b"mode=0750") != 0:
            raise OSError(ctypes.get_errno(), "mount")

    def told(path):
        try:
            return b"%o" % os.stat(path).st_mode
        except OSError as error:
            return errno.errorcode[error.errno].encode()

    def body():
        if libc.unshare(NEW_MOUNTS) != 0 or call(165, 0, b"/", 0, PRIVATE, 0) != 0:
            return
        # Its device may be that of what comes next.
        if call(165, b"none", b"m", b"devpts", 0, 0) == 0:
            os.listdir("m")
            call(166, b"m", 0)
        memory(b"m")
        seen = [told("m"), told("m/below")]
        os.chmod("m", 0o711)
        os.makedirs("m/d/e")
        put("m/d/e/x", b"inside")
        os.symlink("d/e/x", "m/link")
        os.link("m/d/e/x", "m/again")
        os.rename("m/again", "m/d/again")
        put("m/link", b", by a link", os.O_WRONLY | os.O_APPEND)
        try:
            os.rename("m/d/again", "n/again")
        except OSError as error:
            seen.append(errno.errorcode[error.errno].encode())
        put("n/again", get("m/d/again"))
        memory(b"m/d")
        seen += [told("m/d/e"), b" ".join(sorted(os.listdir(b"m")))]
        put("m/d/above", b"hides what is below")
        call(165, b"m/d", b"o", 0, BIND, 0)
        put("o/bound", get("m/d/above"))
        call(166, b"m/d", 0)
        seen += [told("m/d/above"), told("m/d/e/x"), told("o/above")]
        os.listdir("/")
        call(165, b"m", b"n", 0, MOVE, 0)
        put("n/d/moved", get("n/link"))
        os.chdir("n/d")
        put("../here", os.getcwd().encode())
        os.chdir("../..")
        call(166, b"n", 0)
        memory(b"n")
        seen += [told("n/d"), told("n/again")]
        os.mkdir("n/d", 0o700)
        call(166, b"n", 0)
        put("out", b"\n".join(seen))

    for name in ("m", "n", "o"):
        os.mkdir(name)
    put("m/below", b"hidden")
    child(body)
    put("after", get("m/below") + get("n/again"))


def beneath():
    """Paths that do not lead out of the directory where they begin (openat2(2)), also of a bound one."""
    IN_ROOT, BENEATH, NEW_MOUNTS, BIND = 0x10, 8, 0x20000, 0x1000

    def put_in(directory, path, rule):
        how = struct.pack("QQQ", os.O_RDWR | os.O_CREAT, 0o644, rule)
        fd = libc.syscall(437, directory, path, how, 24)
        if fd >= 0:
            os.write(fd, path)
            os.close(fd)

    def all(directory):
        for path in (b"/abs", b"link", b"../../up", b"sub/one", b"/missing/x"):
            put_in(directory, path, IN_ROOT)
        for path in (b"sub/two", b"link", b"../out", b"/abs"):
            put_in(directory, path, BENEATH)

    def body():
        if libc.unshare(NEW_MOUNTS) == 0 and libc.mount(b"other", b"d/sub", None, BIND, None) == 0:
            all(os.open("d", os.O_RDONLY))

    for name in ("d", "d/sub", "other"):
        os.mkdir(name)
    os.symlink("/in", "d/link")
    all(os.open("d", os.O_RDONLY))
    child(body)


def sandbox():
    """Directories and files bound elsewhere, roots exchanged as container runtimes do, and a program that enters such a namespace."""
    NEW_MOUNTS, PRIVATE, BIND, RECURSIVE, MOVE, DETACH, CLONE, EMPTY_FROM = 0x20000, 0x44000, 0x1000, 0x4000, 0x2000, 2, 1, 4

    def call(number, *args):
        return libc.syscall(number, *[ctypes.c_void_p(a) if isinstance(a, int) else a for a in args])

    def mount(source, target, flags, kind=None):
        if call(165, source, target, kind or 0, flags, 0) != 0:
            raise OSError(ctypes.get_errno(), "mount")

    def bound():
        mount(b"data", b"m", BIND)
        mount(b"sub", b"m/k", BIND)
        mount(b"m", b"n", BIND | RECURSIVE)
        put("n/k/one", get("m/in"))
        mount(b"m", b"o", BIND)
        put("o/k/two", b"below, not what is mounted there")
        mount(b"o", b"p", MOVE)
        put("p/three", b" ".join(name.encode() for name in sorted(os.listdir("o"))))
        mount(b"data/in", b"file", BIND)
        put("file", b" and more", os.O_WRONLY | os.O_APPEND)
        call(166, b"file", 0)
        put("p/file", get("file"))
        os.chdir("m/k")
        put("../up", os.getcwd().encode())
        os.chdir("../..")
        put("q", b"where it was")
        tree = call(428, AT_FDCWD, b"sub", CLONE)
        call(429, tree, b"", AT_FDCWD, b"o", EMPTY_FROM)
        os.rename("o/one", "o/1")
        try:
            os.rename("o/1", "m/1")
        except OSError as error:
            put("apart", errno.errorcode[error.errno].encode())

    def rooted():
        mount(b"none", b"m", 0, b"tmpfs")
        for name in ("m/new", "m/old"):
            os.mkdir(name)
        mount(b"m/new", b"m/new", BIND | RECURSIVE)
        here = os.getcwd()
        os.chdir("m")
        if call(155, b".", b"old") != 0:
            return
        os.chdir("/")
        for name in ("/new/work", "/new/sub"):
            os.mkdir(name)
        mount(b"/old" + here.encode() + b"/data", b"/new/work", BIND | RECURSIVE)
        mount(b"/old" + here.encode() + b"/sub", b"/new/sub", BIND | RECURSIVE)
        os.symlink("work/in", "/new/link")
        call(166, b"old", DETACH)
        old = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
        os.chdir("/new")
        if call(155, b".", b".") != 0:
            return
        os.fchdir(old)
        call(166, b".", DETACH)
        os.chdir("/work")
        put("seen", get("/link") + repr((os.getcwd(), sorted(os.listdir("/")))).encode())
        put("../sub/over", get("../work/in"))
        work, root = os.open("/work", os.O_RDONLY), os.open("/", os.O_RDONLY)
        os.mkdir("d", dir_fd=work)
        os.link("in", "work/again", src_dir_fd=work, dst_dir_fd=root)
        os.symlink("/sub/over", "far")
        put("far", b"by a link", os.O_WRONLY | os.O_APPEND)
        for name in ("missing", "/missing", "/sub/missing/x", "in/x"):
            try:
                os.stat(name)
            except OSError as error:
                put("/kept", errno.errorcode[error.errno].encode())

    def entered():
        told, ready = os.pipe(), os.pipe()
        pid = os.fork()
        if pid == 0:
            alone(lambda: mount(b"data", b"sub", BIND))
            os.write(told[1], b"x")
            os.read(ready[0], 1)
            os._exit(0)
        os.read(told[0], 1)
        here = os.getcwd()
        if libc.setns(os.pidfd_open(pid), NEW_MOUNTS) == 0:
            put(here + "/sub/entered", get(here + "/sub/in"))
        os.write(ready[1], b"x")
        os.waitpid(pid, 0)

    def alone(body):
        if libc.unshare(NEW_MOUNTS) == 0 and call(165, 0, b"/", 0, PRIVATE, 0) == 0:
            body()

    def returned():
        """To a namespace that was left, and to the own one: both lead to the root."""
        own, here = os.open("/proc/self/ns/mnt", os.O_RDONLY), os.getcwd()[1:]

        def back(name):
            if libc.setns(own, NEW_MOUNTS) == 0:
                put(f"{here}/{name}", repr((os.getcwd(), get(f"{here}/sub/in"))).encode())

        put("sub/in", b"not bound")
        back("stayed")
        os.chdir(here)
        alone(lambda: mount(b"data", b"sub", BIND))
        back("returned")

    for name in ("data", "data/k", "sub", "m", "n", "o", "p"):
        os.mkdir(name)
    put("data/in", b"within")
    put("file", b"without")
    for body in (bound, rooted):
        child(lambda: alone(body))
    for body in (entered, returned):
        child(body)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
