"""What a program can be traced with: how it is started, and what it says that it lost.

A tool is a row of `tools()`. Goals: those that this machine or this build does not have say why. Non-goals: how good a
tool's trace is beyond losses and counts of calls.
"""

import json
import re
import shutil
import subprocess
from dataclasses import dataclass, field

import machine
from machine import Unable, bytes_of

UNTRACED = "untraced"


@dataclass
class Losses:
    """What a tool itself says that it lost, by word, and what it should have seen and did not."""

    said: dict = field(default_factory=dict)
    missing: int = 0
    #: the same with the tool's reasons
    causes: list = field(default_factory=list)

    def text(self):
        words = [f"{count} {word}" for word, count in self.said.items() if count]
        if self.missing:
            words.append(f"{self.missing} calls missing")
        return ", ".join(words) or "0"


class Tool:
    """A way to trace a program. `name` identifies it, `label` explains it in the table."""

    slow = False
    #: whether there is a trace to look into afterwards
    keeps = True
    #: whether it sees calls that it could lose
    observes = True
    program = None
    package = None

    def __init__(self, name, label):
        self.name, self.label = name, label

    def lack(self, _scratch):
        """Why it cannot be used here, or nothing."""
        return None if shutil.which(self.program) else f"{self.program} is not installed (Debian: {self.package})"

    def command(self, out):
        """What stands before the program; the trace goes to `out`."""
        raise NotImplementedError

    def losses(self, out, err):
        return Losses()

    def calls(self, out, name):
        """How many calls of this name are in the trace."""
        raise NotImplementedError

    def output_bytes(self, out):
        return bytes_of(out)


class Untraced(Tool):
    keeps = observes = False

    def __init__(self):
        super().__init__(UNTRACED, "untraced")

    def lack(self, _scratch):
        return None

    def command(self, out):
        return []


class Disk(Tool):
    """No tool: what the disk takes that traces go to, for the bars of rate. No recorder to that disk is above it for long."""

    keeps = observes = False

    def __init__(self):
        super().__init__("disk", "the disk itself: as many bytes past the page cache, 1 MiB at a time")

    def lack(self, _scratch):
        return None


DISK = Disk()


class Floor(Tool):
    """What no recorder by tracepoints is below: `floor` of tests/programs."""

    keeps = observes = False

    def __init__(self, name, level, label):
        super().__init__(name, label)
        self.level = level

    def lack(self, scratch):
        self.program = machine.build(scratch / "programs", ["floor"]) / "floor"
        done = subprocess.run([*self.command(None), "true"], capture_output=True, text=True, check=False)
        said = done.stderr.strip().splitlines()
        return None if done.returncode == 0 else f"the kernel refuses: {said[-1] if said else done.returncode}"

    def command(self, out):
        return [str(self.program), self.level]


def lines_with(out, pattern):
    """How many lines of a text match; `grep`, since there may be gigabytes of them."""
    done = subprocess.run(["grep", "-c", "-a", "-E", pattern, str(out)], capture_output=True, text=True, check=False,
                          env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"})
    return int(done.stdout or 0)


class Strace(Tool):
    """strace loses nothing: what it traces waits for it."""

    slow, program, package = True, "strace", "strace"

    def __init__(self, name, label, *flags):
        super().__init__(name, label)
        self.flags = flags

    def command(self, out):
        return ["strace", "-f", *self.flags, "-o", str(out)]

    def calls(self, out, name):
        return lines_with(out, rf"^[0-9]+ +{name}\(")


class PerfTrace(Tool):
    program, package = "perf", "linux-perf"

    def __init__(self):
        super().__init__("perf", "`perf trace`")

    def lack(self, scratch):
        if lack := super().lack(scratch):
            return lack
        out = scratch / "perf-probe"
        done = subprocess.run([*self.command(out), "true"], capture_output=True, text=True, check=False)
        if done.returncode == 0 and lines_with(out, r"execve|exit_group|mmap"):
            return None
        said = " ".join((done.stderr + done.stdout).split())
        return f"`perf trace` does not work on this kernel: {said[:300] or 'it ends with ' + str(done.returncode)}"

    def command(self, out):
        return ["perf", "trace", "-o", str(out), "--"]

    def losses(self, out, err):
        text = subprocess.run(["grep", "-a", "-o", "-E", "LOST [0-9]+ events", str(out)], capture_output=True, text=True, check=False)
        lost = re.findall(r"LOST (\d+) events", text.stdout + err)
        return Losses({"lost": sum(map(int, lost))})

    def calls(self, out, name):
        # A call that another one interrupted is printed again when it ends, then without its thread before the name.
        return lines_with(out, rf"/[0-9]+ {name}\(")


class Reprise(Tool):
    """`reprise record` with one backend."""

    def __init__(self, binary, backend, data, *flags, name=None, label=None, keeps=True):
        short = {"none": "metadata", "full": "full"}[data]
        super().__init__(name or f"{backend}-{short}", label or f"Reprise {backend}, {short if data == 'none' else 'full data'}")
        self.binary, self.backend, self.data, self.flags = str(binary), backend, data, flags
        self.slow, self.keeps = backend == "ptrace", keeps

    def lack(self, scratch):
        help_text = subprocess.run([self.binary, "record", "--help"], capture_output=True, text=True, check=False).stdout
        wanted = [f for f in ([] if self.backend == "ptrace" else ["--backend"]) + list(self.flags) if f.startswith("--")]
        if unknown := [f for f in wanted if f not in help_text]:
            return f"this build does not know `record {' '.join(unknown)}`"
        self.chosen = ["--backend", self.backend] if "--backend" in help_text else []
        out = scratch / f"probe-{self.name}"
        shutil.rmtree(out, ignore_errors=True)
        done = subprocess.run([*self.command(out), "true"], capture_output=True, text=True, check=False)
        shutil.rmtree(out, ignore_errors=True)
        said = done.stderr.strip().splitlines()
        return None if done.returncode == 0 else f"`record` refuses: {said[-1] if said else done.returncode}"

    chosen = ()

    def command(self, out):
        return [self.binary, "record", "-q", "--json", *self.chosen, "--data", self.data, *self.flags, "-o", str(out), "--"]

    def summary(self, err):
        """What `record --json` said at its end."""
        for line in reversed(err.splitlines()):
            if line.startswith("{"):
                return json.loads(line)
        return {}

    def losses(self, out, err):
        rows = [(word, cause, entry["count"]) for word, causes in self.summary(err).get("ledger", {}).get("losses", {}).items() for cause, entry in causes.items()]
        said = {}
        for word, _, count in rows:
            said[word] = said.get(word, 0) + count
        return Losses(said, causes=[f"{count} {word}: {cause}" for word, cause, count in rows])

    def info(self, out):
        """What the finished trace says of itself; read anew from disk."""
        done = subprocess.run([self.binary, "info", "--json", str(out)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unable(f"the trace cannot be read: {done.stderr.strip()[-300:]}")
        return json.loads(done.stdout)

    def calls(self, out, name):
        return sum(row["count"] for row in self.info(out)["calls"] if row["call"] == name)

    def kept_bytes(self, out, name):
        """Content that calls of this name have in the trace (how much of the disk it takes is another number: it is compressed)."""
        query = f"SELECT sum(data_bytes - truncated_bytes) AS kept FROM actions WHERE call = '{name}'"
        done = subprocess.run([self.binary, "sql", "--json", str(out), query], capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unable(f"the trace cannot be read: {done.stderr.strip()[-300:]}")
        return json.loads(done.stdout.splitlines()[0])["kept"] or 0


def tools(binary):
    """All of them, in the order of the table."""
    return [
        Untraced(),
        Floor("floor", "clock", "floor: the clock is read twice"),
        Floor("floor-copy", "copy", "floor with data: and what moves is copied"),
        Reprise(binary, "ebpf", "none"),
        Reprise(binary, "ebpf", "full"),
        Reprise(binary, "ebpf", "full", "--sink", "null", name="ebpf-null", label="Reprise ebpf, full data to a null sink", keeps=False),
        PerfTrace(),
        Strace("strace", "`strace -f`"),
        Strace("strace-data", "`strace -f -xx -s 65536`", "-xx", "-s", "65536"),
        Strace("strace-seccomp", "`strace -f --seccomp-bpf -e %file,%desc`", "--seccomp-bpf", "-e", "trace=%file,%desc"),
        Reprise(binary, "ptrace", "none"),
        Reprise(binary, "ptrace", "full"),
    ]
