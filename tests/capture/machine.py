"""The machine of the bench: what its processors did during a run, what a process held in memory, room, programs.

Goals: figures of the kernel's own, cheap enough not to disturb a run. Non-goals: what runs (`workloads`), and under which
tool (`tools`).
"""

import contextlib
import ctypes
import os
import pathlib
import platform
import signal
import subprocess
import threading
import time

PROGRAMS = pathlib.Path(__file__).resolve().parent.parent / "programs"
TICK = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
MIB = 1 << 20
PR_SET_CHILD_SUBREAPER = 36


class Unable(Exception):
    """This machine lacks something that is needed."""


def adopt_orphans():
    """Servers that a run leaves to nobody become this process's children: waited for, and their time counted."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def busy_and_all():
    """Seconds that all processors were busy, and that there were (the host's share, steal, is busy: it was not ours)."""
    fields = [int(f) for f in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    idle = fields[3] + fields[4]
    return (sum(fields) - idle) / TICK, sum(fields) / TICK


def wait_for_quiet(share, limit_s):
    """Until the processors were idle for so great a share of half a second; at most so long."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        busy, whole = busy_and_all()
        time.sleep(0.5)
        busy_after, whole_after = busy_and_all()
        if busy_after - busy <= (1 - share) * max(whole_after - whole, 1 / TICK):
            return


class Meter:
    """Processor time of the run, and how much of the processors nobody else had."""

    def __enter__(self):
        self.busy, self.whole = busy_and_all()
        self.own = own_seconds()
        return self

    def __exit__(self, *_):
        busy, whole = busy_and_all()
        self.cpu_seconds = own_seconds() - self.own
        others = max(0.0, busy - self.busy - self.cpu_seconds)
        self.quiet_share = 1 - others / max(whole - self.whole, 1 / TICK)


def own_seconds():
    """Processor time of this process and of all children that ended and were waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class Memory:
    """The most that the processes of one program held, looked at four times a second until the end: each look takes of the
    processors that the program uses.

    Counts the processes below `pid` (and itself) whose executable is the program's: the recorder and its helpers, not what
    they record. A peak of one process between two looks is seen too, since the kernel keeps it.
    """

    def __init__(self, pid, program):
        self.pid, self.program, self.peak_bytes = pid, os.path.realpath(program), 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()

    def _watch(self):
        while not self.over.is_set():
            self.peak_bytes = max(self.peak_bytes, sum(map(peak_of, processes_of(self.pid, self.program))))
            self.over.wait(0.25)

    def end(self):
        self.over.set()
        self.thread.join()
        return self.peak_bytes


def processes_of(pid, program):
    """A process and those below it, as far as their executable is this program's."""
    todo, found = [pid], []
    while todo:
        pid = todo.pop()
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{pid}/exe") != program:
                continue
            found.append(pid)
            for task in os.listdir(f"/proc/{pid}/task"):
                todo += map(int, pathlib.Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    return found


def peak_of(pid):
    """The kernel's high-water mark of resident memory, 0 when the process is gone."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(l.split()[1]) << 10 for l in lines if l.startswith("VmHWM:")), 0)


def run(command, limit_s, watched=None, **streams):
    """Runs a command to its end: its exit status and the memory that processes of the program `watched` held.

    What takes too long is killed with its process group, also when this process is asked to end.
    """
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, **streams)
    memory = Memory(process.pid, watched) if watched else None
    try:
        code = process.wait(limit_s)
    except subprocess.TimeoutExpired:
        raise Unable(f"not done in {limit_s:g} seconds") from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        peak_bytes = memory.end() if memory else 0
    return code, peak_bytes


def reap_orphans(limit_s):
    """Waits for what the run left running; an Unable names what does not end."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.02)
        except ChildProcessError:
            return
    raise Unable("a run left a process behind that does not end")


def free_bytes(directory):
    room = os.statvfs(directory)
    return room.f_bavail * room.f_frsize


def bytes_of(path):
    """Of a file, or of all files below a directory."""
    path = pathlib.Path(path)
    if path.is_dir():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file() and not file.is_symlink())
    return path.stat().st_size if path.exists() else 0


def build(directory, names=("phases", "rate")):
    """Compiles programs of tests/programs; their directory."""
    directory.mkdir(exist_ok=True)
    for name in names:
        command = [os.environ.get("CC", "cc"), "-O2", "-pthread", "-static", "-o", str(directory / name), str(PROGRAMS / f"{name}.c")]
        try:
            subprocess.run(command, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise Unable(f"{name}.c does not compile: {error}") from None
    return directory


def described(directory):
    """One line for the head of a table."""
    memory = next(l for l in pathlib.Path("/proc/meminfo").read_text().splitlines() if l.startswith("MemTotal"))
    kind = subprocess.run(["findmnt", "-n", "-o", "FSTYPE", "-T", str(directory)], capture_output=True, text=True, check=False)
    clock = pathlib.Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    return (f"{platform.machine()}, {os.cpu_count()} processors, {int(memory.split()[1]) >> 20} GiB; Linux {platform.release()}; "
            f"clock {clock.read_text().strip() if clock.exists() else 'unknown'}; files and traces on {kind.stdout.strip() or 'an unknown file system'}; "
            f"{time.strftime('%Y-%m-%d')}")
