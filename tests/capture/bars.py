"""What a recorder stands: the greatest rate of calls and of bytes without loss, and a recording larger than memory.

Each bar is one run of `rate` (tests/programs) on files in memory, untraced and under Reprise's tools. What must be in the
trace is known beforehand: every call with every byte of its content.
"""

import json
import mmap
import os
import shutil
import tempfile
import time
from dataclasses import dataclass, field

import machine
from machine import MIB, Unable
from tools import DISK, UNTRACED, Losses, Reprise
from trial import note, remove

GB = 1_000_000_000
MEMORY_LIMIT_BYTES = 256 * MIB
THREADS = 2


@dataclass(frozen=True)
class Bar:
    """Calls of so many bytes each; how many for a tool that keeps up, and for one that is known not to."""

    name: str
    how: str
    call_bytes: int
    calls: int
    calls_if_slow: int
    #: of tools with this data policy
    data: str
    #: what a backend in the kernel must reach: (figure, unit)
    least: tuple


@dataclass
class Reached:
    """What a tool reached."""

    bar: str
    tool: str
    round: int
    calls: int = 0
    bytes: int = 0
    seconds: float = 0.0
    whole_seconds: float = 0.0
    output_bytes: int = 0
    memory_bytes: int = 0
    quiet_share: float = 1.0
    losses: Losses = field(default_factory=Losses)
    #: content that should be stored and is not
    missing_bytes: int = 0
    failure: str | None = None

    def rate(self, unit):
        return {"records/s": self.calls, "GB/s": self.bytes / GB}[unit] / self.seconds if self.seconds else 0.0


def bars(scale, sustained_gb, large_gb):
    """All of them, for a share of the work."""
    def in_calls(gb, call_bytes):
        return max(1, int(gb * scale * GB) // call_bytes // THREADS)

    return [
        Bar("records", "read", 1, int(5_000_000 * scale), int(100_000 * scale), "none", (2e6, "records/s")),
        Bar("bytes", "write", 256 << 10, in_calls(sustained_gb, 256 << 10), in_calls(sustained_gb / 8, 256 << 10), "full", (2.0, "GB/s")),
        Bar("large", "write", MIB, in_calls(large_gb, MIB), in_calls(large_gb, MIB), "full", (None, "GB/s")),
    ]


class Bench:
    """Runs bars under tools."""

    def __init__(self, work, traces, binary, options):
        self.work, self.traces, self.binary, self.options = work, traces, binary, options
        self.programs = machine.build(work / "programs")
        self.memory = tempfile.mkdtemp(prefix="reprise-capture.", dir="/dev/shm")

    def close(self):
        shutil.rmtree(self.memory, ignore_errors=True)

    def run(self, bar, tools):
        """The bar under each tool that it is for, in turn; the large one once."""
        chosen = [t for t in tools if t.name == UNTRACED or (isinstance(t, Reprise) and t.data == bar.data)]
        chosen += [DISK] if bar.data == "full" else []
        reached = []
        for number in range(1 if bar.name == "large" else self.options.repeat):
            for tool in chosen:
                if tool.slow and number >= self.options.slow_repeat:
                    continue
                one = self._one(bar, tool, number)
                reached.append(one)
                note(line(bar, one))
        return reached

    def _disk(self, bar, number):
        """How fast the disk takes as many bytes as the bar moves, not more than it takes in some seconds."""
        reached = Reached(bar.name, DISK.name, number)
        path = self.traces / "raw"
        try:
            self._room(DISK, bar.calls * THREADS * bar.call_bytes)
            os.sync()
            machine.wait_for_quiet(self.options.quiet, self.options.patience)
            count = max(1, min(bar.calls * THREADS * bar.call_bytes, 8 * GB) // MIB)
            with mmap.mmap(-1, MIB) as piece, machine.Meter() as meter:
                piece[:] = os.urandom(MIB)
                file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_DIRECT)
                begin = time.monotonic()
                for at in range(count):
                    os.pwrite(file, piece, at * MIB)
                reached.seconds = reached.whole_seconds = time.monotonic() - begin
                os.close(file)
            reached.calls, reached.bytes, reached.quiet_share = count, count * MIB, meter.quiet_share
        except (OSError, Unable) as unable:
            reached.failure = str(unable)
        finally:
            path.unlink(missing_ok=True)
        return reached

    def _one(self, bar, tool, number):
        if tool is DISK:
            return self._disk(bar, number)
        out = self.traces / "trace"
        calls = bar.calls_if_slow if tool.slow else bar.calls
        reached = Reached(bar.name, tool.name, number)
        command = [*tool.command(out), str(self.programs / "rate"), bar.how, self.memory, str(bar.call_bytes), str(calls), str(THREADS)]
        remove(out)
        try:
            self._room(tool, calls * THREADS * bar.call_bytes)
            os.sync()
            machine.wait_for_quiet(self.options.quiet, self.options.patience)
            err = self._execute(reached, command, isinstance(tool, Reprise))
            reached.output_bytes = tool.output_bytes(out)
            reached.losses = tool.losses(out, err)
            if tool.keeps:
                self._complete(reached, tool, out, bar)
        except Unable as unable:
            reached.failure = str(unable)
        finally:
            remove(out)
        return reached

    def _room(self, tool, wanted):
        """A spool and the trace made of it may be there at a time."""
        if (tool is DISK or tool.keeps and tool.data == "full") and machine.free_bytes(self.traces) < 2.3 * wanted:
            raise Unable(f"left out: {2.3 * wanted / GB:.0f} GB must be free in {self.traces}")

    def _execute(self, reached, command, is_reprise):
        with machine.Meter() as meter, tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            begin = time.monotonic()
            code, reached.memory_bytes = machine.run(command, self.options.limit, self.binary if is_reprise else None, stdout=out, stderr=err)
            reached.whole_seconds = time.monotonic() - begin
            for stream in (out, err):
                stream.seek(0)
            printed, text = out.read(), err.read()
        if code:
            raise Unable(f"ended with {code}: {' '.join(text.split())[-400:]}")
        said = json.loads(printed)
        reached.calls, reached.bytes, reached.seconds = said["calls"], said["bytes"], said["seconds"]
        reached.quiet_share = meter.quiet_share
        return text

    def _complete(self, reached, tool, out, bar):
        name = "pread64" if bar.how == "read" else "pwrite64"
        reached.losses.missing += max(0, reached.calls - tool.calls(out, name))
        if bar.data == "full":
            reached.missing_bytes = max(0, reached.bytes - tool.kept_bytes(out, name))


def line(bar, one):
    if one.failure:
        return f"{bar.name:12} {one.tool:16} {one.failure}"
    return (f"{bar.name:12} {one.tool:16} round {one.round + 1}: {one.rate(bar.least[1]):,.3g} {bar.least[1]}, lost {one.losses.text()}, "
            f"{one.missing_bytes} bytes missing, memory {one.memory_bytes / MIB:.0f} MiB, complete after {one.whole_seconds:.1f} s")
