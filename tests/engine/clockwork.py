"""What the engine costs and how punctual it is: single figures, each with the bar that it is held to.

Goals: figures of the replay's own result, beside another way to do the same in the same round where there is one. Non-goals:
rates beside the original program (`replays`).
"""

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "capture"))

from machine import MIB, TICK, Unable, build, processes_of  # noqa: E402
from replays import pread_files, record_pread, reprise  # noqa: E402


@dataclass
class Figure:
    """A figure of several rounds; `bar` is the greatest it may be, or None."""

    name: str
    unit: str
    bar: float | None = None
    at_least: bool = False
    values: list = field(default_factory=list)

    def verdict(self):
        if self.bar is None or not self.values:
            return ""
        value = statistics.median(self.values)
        met = value >= self.bar if self.at_least else value <= self.bar
        return f"{'met' if met else 'missed'} ({'≥' if self.at_least else '≤'} {self.bar:g})"


def replayed(binary, plan, target, *options):
    """Replays; what the result says."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    said = json.loads(reprise(binary, "replay", "-q", "--json", *options, plan, "--target", target).stdout)
    if said["end"] != "complete":
        raise Unable(f"a replay ended early: {said['end']}")
    return said


class Punctual:
    """One thread with an event every so often: instant of issue minus the instant it was due."""

    def __init__(self, gap_us, count):
        self.name, self.gap_us, self.count = f"punctual-{gap_us}", gap_us, count
        every = f"events every {gap_us} us"
        self.figures = [
            Figure(f"issue error, {every}, p50", "ns", 60),
            Figure(f"issue error, {every}, p99", "ns", 150),
            Figure(f"the same by clock_nanosleep, p50 / ours", "times", 100, at_least=True),
            Figure(f"the same by clock_nanosleep, p99 / ours", "times", 100, at_least=True),
            Figure(f"events behind or disturbed, {every}", "%"),
        ]

    def prepare(self, binary, place):
        (place / "file").write_bytes(os.urandom(MIB))
        self.program, self.trace, self.target = build(place, ["ticks"]) / "ticks", place / "trace", place / "target"
        words = (self.program, self.gap_us, self.count, place / "file")
        reprise(binary, "record", "-q", "--data", "none", "-o", self.trace, "--", *words)

    def round(self, binary):
        words = [self.program, str(self.gap_us), str(self.count)]
        sleeper = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
        by = replayed(binary, self.trace, self.target, "--pace", "timestamp")["times"]["issue_error_by"]
        own, others = by["on_time"], by["behind"]["count"] + by["disturbed"]["count"]
        ratios = [sleeper[q] / max(1, own[q]) for q in ("p50_ns", "p99_ns")]
        values = [own["p50_ns"], own["p99_ns"], *ratios, 100 * others / (own["count"] + others)]
        for figure, value in zip(self.figures, values):
            figure.values.append(value)


class HandOff:
    """Two threads that run, each waiting for the other: from the completion of one action to the issue of the next."""

    name = "hand-off"

    def __init__(self, count):
        self.count = count
        self.figures = [
            Figure("hand-off of a dependency, p50", "ns", 250),
            Figure("hand-off of a dependency, p99", "ns", 400),
            Figure("from one thread's store to the other's next step, in C, p50", "ns"),
            Figure("from one thread's store to the other's next step, in C, p99", "ns"),
        ]

    def prepare(self, binary, place):
        (place / "file").write_bytes(os.urandom(4096))
        self.trace, self.plan, self.target, self.result = (place / n for n in ("trace", "plan", "target", "result"))
        self.program = build(place, ["turns"]) / "turns"
        words = (self.program, self.count, place / "file")
        reprise(binary, "record", "-q", "--data", "none", "-o", self.trace, "--", *words)

    def round(self, binary):
        shutil.rmtree(self.result, ignore_errors=True)
        replayed(binary, self.trace, self.target, "--order", "temporal", "-o", self.result)
        rows = [json.loads(line) for line in reprise(binary, "cat", "--json", self.result).stdout.splitlines()]
        rows = [row for row in rows if row["call"] == "pread64"]
        rows.sort(key=lambda row: row["origin"])
        between = sorted(
            after["begin_ns"] - before["begin_ns"] - before["duration_ns"]
            for before, after in zip(rows, rows[1:])
            if before["thread"] != after["thread"]
        )
        values = [between[int(quantile * (len(between) - 1))] for quantile in (0.5, 0.99)]
        bare = json.loads(subprocess.run([self.program, str(self.count)], check=True, capture_output=True, text=True).stdout)
        for figure, value in zip(self.figures, [*values, bare["p50_ns"], bare["p99_ns"]]):
            figure.values.append(value)


class Start:
    """A trace of 50,000 actions: all that a replay takes beside replaying, compiling and reading its own log included."""

    name = "start"

    def __init__(self, binaries):
        self.program = binaries / "pread-load"
        self.figures = [Figure("compiling and starting a trace of 50,000 actions", "s", 0.2)]

    def prepare(self, binary, place):
        pread_files(place)
        self.trace, self.target = place / "trace", place / "target"
        record_pread(binary, self.program, place, self.trace, 25_000)

    def round(self, binary):
        begin = time.monotonic()
        said = replayed(binary, self.trace, self.target)
        self.figures[0].values.append(time.monotonic() - begin - said["replay_ns"] / 1e9)


class Length:
    """A plan that is longer than what is held of it: what it costs to read it, and what of it is in memory.

    To bring commands costs what the threads take that do it. What the engine costs is the processor time of the replayed threads,
    whose reads only touch pages, beyond that of a loop in C that does nothing but these loads.
    """

    name = "length"

    def __init__(self, binaries, reads):
        self.program, self.reads = binaries / "pread-load", reads
        actions = f"{2 * reads / 1e6:g} M actions"
        self.figures = [
            Figure("processor time of the threads that bring commands, for each command", "ns", 6),
            Figure("processor time of all, for each command that is brought, beside one that is mapped", "ns"),
            Figure(f"anonymous memory of the replay, two threads, {actions}", "MiB", 8 + 2),
            Figure(f"commands in the page cache after it, {actions}", "MiB", 4),
            Figure("the engine's processor time beyond the loads themselves, for each action (decode, check, clock, log)", "ns", 15),
            Figure("the same with the loads", "ns"),
        ]

    def prepare(self, binary, place):
        pread_files(place)
        self.plan, self.target = place / "plan", place / "target"
        self.loads = [build(place, ["leanest"]) / "leanest", "load", place / "file", "2", "10000000"]
        record_pread(binary, self.program, place, place / "trace", self.reads)
        reprise(binary, "compile", "-q", "--order", "root", place / "trace", "-o", self.plan)
        shutil.rmtree(place / "trace")
        os.sync()

    def round(self, binary):
        mapped, mapped_s, _ = self.watched(binary, "1T")
        drop(self.plan)
        brought, brought_s, anonymous = self.watched(binary, "0")
        cached = cached_bytes(self.plan) / MIB
        took = mapped["engine"]
        engine = (took["user_ns"] + took["system_ns"] - took["plan_ns"] - took["log_ns"]) / mapped["actions"]
        load = json.loads(subprocess.run(self.loads, check=True, capture_output=True, text=True).stdout)["elapsed_ns"] / 1e7
        bringing = brought["engine"]["plan_ns"] / brought["actions"]
        beside = (brought_s - mapped_s) * 1e9 / brought["actions"]
        values = [bringing, beside, anonymous / MIB, cached, engine - load, engine]
        for figure, value in zip(self.figures, values):
            figure.values.append(value)

    def watched(self, binary, held):
        """The result, processor seconds of all processes while it ran, the most anonymous memory that one of them had."""
        shutil.rmtree(self.target, ignore_errors=True)
        self.target.mkdir()
        words = [binary, "replay", "-q", "--json", "--io", "touch", "--plan-memory", held, self.plan, "--target", self.target]
        process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, text=True)
        seen = Memory(process.pid, binary)
        text, _ = process.communicate()
        said = json.loads(text)
        return said, seen.stop(), seen.most_bytes


class Long:
    """A trace of very many actions: what is in memory while it is compiled and replayed, and how long each phase takes."""

    name = "long"
    #: Of `synth-trace reads`.
    threads = 8

    def __init__(self, binaries, actions):
        self.program, self.actions = binaries / "synth-trace", actions
        of = f"{actions / 1e6:g} M actions, {self.threads} threads"
        self.figures = [
            Figure(f"compiling {of}, s", "s"),
            Figure("anonymous memory of the compiler", "MiB"),
            Figure(f"replaying {of}, s", "s"),
            Figure("anonymous memory of the replay's worker", "MiB", 8 + self.threads),
            Figure("anonymous memory of the process that started it", "MiB"),
            Figure("commands in the page cache after it", "MiB", 4),
            Figure("log in the page cache during it, at most", "MiB"),
        ]

    def prepare(self, binary, place):
        self.trace, self.plan, self.target = place / "trace", place / "plan", place / "target"
        subprocess.run([self.program, "reads", str(self.actions), self.trace], check=True)

    def round(self, binary):
        begin = time.monotonic()
        compiling = subprocess.Popen([str(w) for w in (binary, "compile", "-q", self.trace, "-o", self.plan)])
        compiler = Memory(compiling.pid, binary)
        if compiling.wait():
            raise Unable(f"the compiler ended with {compiling.returncode}")
        compiler.stop()
        compiled = time.monotonic() - begin
        drop(self.plan)
        self.target.mkdir()
        words = [binary, "replay", "-q", "--json", self.plan, "--target", self.target]
        process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, text=True)
        seen = Memory(process.pid, binary, logs=True)
        said = json.loads(process.communicate()[0])
        seen.stop()
        cached = cached_bytes(self.plan) / MIB
        self.plan.unlink()
        shutil.rmtree(self.target)
        if said["end"] != "complete" or said["diverged"] or said["actions"] < self.actions:
            raise Unable(f"the long replay went wrong: {said['end']}, {said['diverged']} diverged")
        values = [compiled, compiler.parent_bytes / MIB, said["replay_ns"] / 1e9, seen.most_bytes / MIB, seen.parent_bytes / MIB, cached,
                  seen.log_bytes / MIB]
        for figure, value in zip(self.figures, values):
            figure.values.append(value)


class Memory(threading.Thread):
    """Looks at the worker of a replay, below the process, until told to stop."""

    def __init__(self, parent, program, logs=False):
        super().__init__(daemon=True)
        self.parent, self.program, self.logs = parent, os.path.realpath(program), logs
        self.most_bytes, self.parent_bytes, self.log_bytes = 0, 0, 0
        self.seconds, self.ended = 0.0, threading.Event()
        self.start()

    def run(self):
        while not self.ended.wait(0.05):
            self.parent_bytes = max(self.parent_bytes, anonymous_bytes(self.parent))
            for worker in processes_of(self.parent, self.program)[1:]:
                self.most_bytes = max(self.most_bytes, anonymous_bytes(worker))
                # A process for each look: nothing for a run whose time counts.
                if self.logs:
                    self.log_bytes = max(self.log_bytes, cached_log_bytes(self.parent))
                try:
                    times = pathlib.Path(f"/proc/{worker}/stat").read_text().rsplit(")", 1)[1].split()
                except (FileNotFoundError, ProcessLookupError):
                    continue
                self.seconds = max(self.seconds, (int(times[11]) + int(times[12])) / TICK)

    def stop(self):
        self.ended.set()
        self.join()
        return self.seconds


def anonymous_bytes(process):
    """Memory of a process that is no file's; 0 when it has ended."""
    try:
        status = pathlib.Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("RssAnon"))


def cached_log_bytes(process):
    """What the page cache holds of files that a process has open and that have no name any more: its log."""
    total = 0
    for number in pathlib.Path(f"/proc/{process}/fd").glob("*"):
        try:
            if os.readlink(number).endswith("(deleted)") and number.stat().st_size:
                total += cached_bytes(number)
        except (FileNotFoundError, ProcessLookupError, subprocess.CalledProcessError, IndexError):
            continue
    return total


def drop(path):
    """Takes a file out of the page cache."""
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def cached_bytes(path):
    """How much of a file the page cache holds."""
    said = subprocess.run(["fincore", "-b", "-n", "-o", "RES", str(path)], check=True, capture_output=True, text=True)
    return int(said.stdout.split()[0])


def figures(binaries, scale):
    """All of them, each to be prepared and then gone through in rounds."""
    return [
        Punctual(50, max(1000, int(40_000 * scale))),
        Punctual(1000, max(200, int(4_000 * scale))),
        HandOff(max(1000, int(200_000 * scale))),
        Start(binaries),
        Length(binaries, max(200_000, int(5_000_000 * scale))),
        Long(binaries, max(500_000, int(100_000_000 * scale))),
    ]


def measured(case, binary, place, repeat, tell):
    """All rounds of a case, in a directory of its own."""
    directory = place / case.name
    directory.mkdir()
    case.prepare(binary, directory)
    for number in range(repeat):
        tell(f"{case.name}: {number + 1} of {repeat}")
        os.sync()
        case.round(binary)
    shutil.rmtree(directory)
    return case.figures
