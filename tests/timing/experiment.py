"""The experiment: record on sources, run and replay on targets, in turn.

Every run starts cold on a file system made for the target. The original program and all replays on one target take
turns in random order, so that what else the machine does falls on all of them.
"""

import json
import random
import shutil
import subprocess
import sys
from dataclasses import dataclass, field

from machine import Environment, Unable
from workloads import workloads

ENVIRONMENTS = {e.name: e for e in [
    Environment("ext4 hdd", "ext4", "hdd"),
    Environment("xfs hdd", "xfs", "hdd"),
    Environment("btrfs hdd", "btrfs", "hdd"),
    Environment("ext4 raid", "ext4", "raid"),
    Environment("xfs flash", "xfs", "flash"),
    Environment("btrfs throttled", "btrfs", "flash", iops=400),
    Environment("ext4 small cache", "ext4", "hdd", cache_mib=48),
    Environment("ext4 raid small cache", "ext4", "raid", cache_mib=64),
    Environment("ext4 slice 12 ms", "ext4", "hdd", slice_ms=12),
    Environment("ext4 slice 100 ms", "ext4", "hdd", slice_ms=100),
]}
ALL = ["ext4 hdd", "xfs hdd", "btrfs hdd", "ext4 raid", "xfs flash", "btrfs throttled", "ext4 small cache"]
SOURCES = ["ext4 hdd", "xfs flash"]
SLICES = ["ext4 slice 12 ms", "ext4 slice 100 ms"]
CACHES = ["ext4 raid", "ext4 raid small cache"]

#: workload: pairs of source and target, as (sources, targets)
PLAN = {
    "1 reader": (["ext4 hdd"], ["ext4 hdd"]),
    "2 readers": (["ext4 hdd", "ext4 raid"], ["ext4 hdd", "ext4 raid"]),
    "8 readers": (["ext4 hdd"], ALL[:5]),
    "cache": (CACHES, CACHES),
    "slices": (SLICES, SLICES),
    "readrandom": (SOURCES, ALL),
    "fillsync": (["ext4 hdd"], ALL),
}
QUICK = {
    "8 readers": (["ext4 hdd"], ["ext4 hdd"]),
    "readrandom": (["ext4 hdd"], ["ext4 hdd", "xfs flash"]),
}
MODES = ["single", "temporal", "root", "root:file=range"]
#: Calls that wait for other threads or for time, not for storage.
WAITING = {"wait4", "waitid", "poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "pause"}


@dataclass
class Run:
    """What was measured of one run."""

    seconds: float
    concurrency: float | None = None
    diverged: int = 0
    #: what the disk got: reads, writes
    requests: tuple = (0, 0)


@dataclass
class Cell:
    """One workload, source and target: the original's runs there, and the replays' by mode."""

    workload: str
    source: str
    target: str
    original: list = field(default_factory=list)
    replays: dict = field(default_factory=dict)
    #: threads in calls, of the original recorded on the target
    concurrency: float = 0.0


class Experiment:
    def __init__(self, machine, reprise, options):
        self.machine, self.reprise, self.options = machine, str(reprise), options
        self.workloads = workloads(options.reads)
        self.traces = machine.work / "traces"
        self.traces.mkdir()
        self.modes = self._known_modes()

    def _known_modes(self):
        """Modes that this build knows; others are named and left out."""
        known = []
        for mode in self.options.modes:
            said = subprocess.run([self.reprise, "replay", "/nonexistent", "--target", "/", "--order", mode],
                                  capture_output=True, text=True, check=False)
            if said.returncode == 2:
                note(f"left out: --order {mode} (this build does not know it)")
            else:
                known.append(mode)
        return known

    def run(self):
        """All cells of the chosen workloads, one workload and target after the other."""
        plan = QUICK if self.options.quick else PLAN
        for name, (sources, targets) in plan.items():
            workload = self.workloads[name]
            if self.options.workloads and name not in self.options.workloads:
                continue
            if lack := workload.missing():
                note(f"left out: {name}: needs {lack}")
                continue
            concurrency = {}
            for place in dict.fromkeys(sources + targets):
                concurrency[place] = self._record(workload, place)
            for target in targets:
                yield from self._on_target(workload, sources, target, concurrency[target])
            shutil.rmtree(self.traces)
            self.traces.mkdir()

    def _trace(self, place):
        return self.traces / place.replace(" ", "-")

    def _prepare(self, workload):
        data = self.machine.mount / "data"
        workload.prepare(data, self.machine.work / "pristine")
        return data

    def _command(self, workload):
        first, *rest = workload.command
        own = self.machine.programs / first
        return [str(own) if own.exists() else shutil.which(first), *rest]

    def _cold(self, data, tree=None):
        return self.machine.start_script(data, tree)

    def _record(self, workload, place):
        self.machine.format(ENVIRONMENTS[place])
        data = self._prepare(workload)
        subprocess.run(["sh", "-c", self._cold(data)], check=True)
        # Only the program belongs to the group, not the recorder.
        command = [self.reprise, "record", "-q", "-o", str(self._trace(place)), "--", *self.machine.inside(*self._command(workload))]
        self._go(command, data)
        seconds, threads = concurrency(self.reprise, self._trace(place))
        note(f"{workload.name}: recorded on {place} in {seconds:.2f} s, {threads:.2f} threads in calls")
        return threads

    def _go(self, command, data):
        # What else the machine does is not to count.
        command = ["nice", "-n", "-20", *command]
        done = subprocess.run(command, cwd=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        self.machine.ease()
        if done.returncode not in (0, 1):
            raise Unable(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-2000:]}")
        return done

    def _on_target(self, workload, sources, target, threads):
        self.machine.format(ENVIRONMENTS[target])
        cells = {source: Cell(workload.name, source, target, concurrency=threads) for source in sources}
        originals = []
        for _ in range(self.options.repeat):
            turns = [(None, None)] + [(s, m) for s in sources for m in self.modes]
            random.shuffle(turns)
            for source, mode in turns:
                if source is None:
                    originals.append(self._original(workload))
                else:
                    cells[source].replays.setdefault(mode, []).append(self._replay(source, mode))
        for cell in cells.values():
            cell.original = originals
            report(cell)
            yield cell

    def _original(self, workload):
        data = self._prepare(workload)
        subprocess.run(["sh", "-c", self._cold(data)], check=True)
        took = self.machine.work / "time"
        self._go(self.machine.inside(*self._command(workload), time=took), data)
        return Run(int(took.read_text()) / 1e9, requests=self.machine.requests())

    def _replay(self, source, mode):
        target = self.machine.mount / ("target-" + source.replace(" ", "-"))
        target.mkdir(exist_ok=True)
        data = target / str(self.machine.mount / "data").lstrip("/")
        result = self.machine.work / "result"
        shutil.rmtree(result, ignore_errors=True)
        command = [self.reprise, "replay", str(self._trace(source)), "--target", str(target), "--order", mode,
                   "--fill", "random", "--before-start", self._cold(data, target), "--json", "-q"]
        # Writing a result takes memory, which a small cache does not have.
        with_result = not self.machine.environment.cache_mib
        if with_result:
            command += ["-o", str(result)]
        if self.options.pace:
            command += ["--pace", self.options.pace]
        done = self._go(command, "/")
        requests = self.machine.requests()
        said = json.loads(done.stdout)
        threads = concurrency(self.reprise, result)[1] if with_result else None
        return Run(said["replay_ns"] / 1e9, threads, said["diverged"], requests)


def concurrency(reprise, trace):
    """Seconds from the first call to the last, and how many threads were in a call on average."""
    listed = subprocess.run([reprise, "cat", "--json", str(trace)], stdout=subprocess.PIPE, text=True, check=True)
    first, last, inside = float("inf"), 0, 0
    for line in listed.stdout.splitlines():
        action = json.loads(line)
        begin, took = action["begin_ns"], action["duration_ns"]
        first, last = min(first, begin), max(last, begin + took)
        if action["call"] not in WAITING:
            inside += took
    return (last - first) / 1e9, inside / max(1, last - first)


def report(cell):
    original = median(r.seconds for r in cell.original)
    errors = "  ".join(f"{mode} {100 * (median(r.seconds for r in runs) / original - 1):+.1f} %" for mode, runs in cell.replays.items())
    note(f"{cell.workload}: {cell.source} → {cell.target}: {original:.2f} s;  {errors}")


def median(values):
    values = sorted(values)
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def note(text):
    print(text, file=sys.stderr, flush=True)
