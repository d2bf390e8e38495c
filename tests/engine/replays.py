"""What is replayed against the original program: each recorded once, then original and replays run in turn.

Goals: ratios from one run, original and replay a second apart; the same state before each. Non-goals: how recording costs
(`bench-capture`), how ordering predicts (`bench-ordering`).
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "capture"))

import peers  # noqa: E402
import workloads as working  # noqa: E402
from machine import MIB, Unable, build  # noqa: E402

#: What replays do unless told otherwise: reads of a descriptor by several threads keep no order where no byte is concerned.
USUAL_ORDER = "root:file=range"
#: ROOT's own rules, as ARTC applies them.
ROOT_ORDER = "root"
#: What other replayers can do of a trace, too; that they open and close the files does not count as calls of theirs.
SHARED_CALLS = "SELECT DISTINCT call FROM actions WHERE category IN ('read', 'write', 'sync', 'open/close')"
#: So many of a program's calls a peer must make to be held against us.
LEAST_SHARE = 0.95


@dataclass(frozen=True)
class Way:
    """A replay: its name, and what it is called with."""

    name: str
    options: tuple
    #: How many times the rate of the original it has at least.
    bar: float | None = None
    #: Its name for `leanest.c`, which does in its place only what cannot be left out.
    least: str | None = None
    order: str = USUAL_ORDER
    #: Only the calls that a peer makes, which it is compared with.
    shared: bool = False


def lean(bar):
    """By calls, without the layers of confinement that each call pays for."""
    return Way("sync, --confine lean", ("--confine", "lean"), bar)


@dataclass
class Line:
    """One original and its replays: seconds of each run."""

    name: str
    about: str
    ways: tuple
    original: list = field(default_factory=list)
    replays: dict = field(default_factory=dict)
    least: dict = field(default_factory=dict)
    #: Calls of each run.
    calls: dict = field(default_factory=dict)
    peer: str | None = None
    notes: set = field(default_factory=set)

    def rates(self, name):
        """Calls a second."""
        return [self.calls[name] / seconds for seconds in self.replays.get(name, [])]

    def by_peer(self, way):
        """Calls a second by those of the peer, where it makes nearly all of them: else there is nothing to compare."""
        if not way.shared or self.calls[self.peer] < LEAST_SHARE * self.calls["sync"]:
            return []
        return [a / b for a, b in zip(self.rates(way.name), self.rates(self.peer))]

    def ratios(self, way):
        return [a / b for a, b in zip(self.original, self.replays.get(way.name, []))]

    def least_ratios(self, way):
        return [a / b for a, b in zip(self.original, self.least.get(way.name, []))]


def reprise(binary, *words):
    done = subprocess.run([str(binary), *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise Unable(f"reprise {words[0]} ended with {done.returncode}: {done.stderr[-500:]}")
    return done


def replay(line, way, binary, plan, target):
    """Replays once; its seconds, from the first issue to the last completion."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    said = json.loads(reprise(binary, "replay", "-q", "--json", *way.options, plan, "--target", target).stdout)
    if said["end"] != "complete":
        raise Unable(f"{line.name}, {way.name}: {said['end']}")
    if said["diverged"]:
        line.notes.add(f"{way.name}: {said['diverged']} of {said['actions']} actions diverged")
    line.notes.update(f"{way.name}: {text}" for text in said["notes"])
    line.calls[way.name] = said["issued"]
    return said["replay_ns"] / 1e9


def pread_files(directory):
    """What the two threads of `pread-load` read."""
    for number in range(2):
        (directory / f"file{number}").write_bytes(os.urandom(MIB))


def record_pread(binary, program, directory, trace, reads):
    """Records `pread-load` with two threads; lengths only."""
    reprise(binary, "record", "-q", "--data", "none", "-o", trace, "--", program, directory / "file", "2", reads)


class Pread:
    """Replayfs's Pread: two threads, each 1 KiB at random offsets of 1 MiB that is cached."""

    name, about = "pread", "two threads, each 1 KiB at random of 1 MiB in the page cache; lengths recorded, every result checked"
    ways = (
        Way("sync", (), 0.97, "sync"),
        lean(0.97),
        Way("uring", ("--io", "uring"), 2.2, "uring"),
        Way("linked", ("--io", "linked"), 1.9, "linked"),
        Way("uring, O_NOATIME", ("--io", "uring", "--noatime"), 2.4, "noatime"),
        Way("touch", ("--io", "touch"), 20, "touch"),
    )

    def __init__(self, binaries, scale, place):
        self.program, self.reads = binaries / "pread-load", max(10_000, int(1_000_000 * scale))
        self.leanest = place / "programs" / "leanest"

    def prepare(self, directory, pristine):
        pread_files(directory)
        if not self.leanest.exists():
            build(self.leanest.parent, ["leanest"])

    def least(self, way, directory):
        """Seconds of the leanest program that there can be in place of a replay."""
        words = [self.leanest, way, directory / "file", "2", str(self.reads)]
        said = subprocess.run(words, capture_output=True, text=True, check=True)
        return json.loads(said.stdout)["elapsed_ns"] / 1e9

    def recorded(self, binary, directory, trace):
        record_pread(binary, self.program, directory, trace, self.reads)

    def original(self, directory):
        said = subprocess.run([self.program, directory / "file", "2", str(self.reads)], capture_output=True, text=True, check=True)
        return json.loads(said.stdout)["elapsed_ns"] / 1e9


class Program:
    """A workload of `bench-capture`, one of its phases; the replay must not be slower than the program."""

    ways = (Way("sync", (), 1.0), lean(1.0), Way("uring", ("--io", "uring")))

    def __init__(self, workload, phase, scale):
        self.workload, self.phase, self.scale = workload, phase, scale
        self.name, self.about = f"{workload.name}, {phase}", workload.about

    def prepare(self, directory, pristine):
        self.workload.prepare(directory, pristine, self.scale)
        for phase in self.workload.phases(directory, self.scale):
            if phase.name == self.phase:
                self.command = phase.command
                return
            subprocess.run(phase.command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def recorded(self, binary, directory, trace):
        reprise(binary, "record", "-q", "-o", trace, "--", *self.command)

    def original(self, directory):
        begin = time.monotonic()
        subprocess.run(self.command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return time.monotonic() - begin


class ReadRandom:
    """RocksDB's `readrandom` by four threads, its database in the page cache and not in memory of its own."""

    name, about = "rocksdb, readrandom", "db_bench readrandom, 4 threads, 200,000 entries of 100 bytes in the page cache, no cache of blocks"
    ways = (Way("sync", (), 1.0), lean(1.0), Way("uring", ("--io", "uring")), Way(f"sync, {ROOT_ORDER}", (), order=ROOT_ORDER))
    entries, reads, threads = 200_000, 50_000, 4

    def __init__(self, scale):
        self.reads = max(500, int(self.reads * scale))
        self.entries = max(5_000, int(self.entries * scale))

    def prepare(self, directory, pristine):
        def make(part):
            part.mkdir()
            working.sh(*self._words(part, "fillrandom,compact", "--threads=1"))

        shutil.copytree(working.once(pristine / f"rocksdb-{self.entries}", make), directory / "db")
        self.command = self._words(directory / "db", "readrandom", f"--threads={self.threads}", f"--reads={self.reads}", "--use_existing_db=1")

    def _words(self, where, benchmark, *flags):
        return ("db_bench", f"--db={where}", f"--wal_dir={where}", f"--benchmarks={benchmark}", f"--num={self.entries}", "--seed=1", "--value_size=100",
                "--compression_type=none", "--histogram=0", "--cache_size=0", *flags)

    recorded, original = Program.recorded, Program.original


def programs(scale):
    """Those of which this machine has the programs."""
    all_of = working.workloads()
    found = [ReadRandom(scale)] if not all_of["rocksdb"].lack() else []
    for name, phases in (("sqlite", ("rollback", "wal")), ("tar", ("extract", "remove")), ("git", ("checkout", "switch"))):
        workload = next((w for known, w in all_of.items() if known.startswith(name)), None)
        if workload is not None and not workload.lack():
            found += [Program(workload, phase, scale) for phase in phases]
    return found


def peer_of(case, line, binary, trace, place):
    """Another replayer of the same calls, as a further way, beside a replay of just those; None, and a note, if it cannot."""
    try:
        peer = peers.Fio(binary, trace, place)
    except Unable as why:
        line.notes.add(f"fio left out: {why}")
        return None
    line.peer, line.calls[peer.name] = peer.name, peer.calls
    line.ways = (*case.ways, Way("sync, reads, writes, syncs, opens and closes alone, not compared", ("--verify", "off"), shared=True), Way(peer.name, ()))
    return peer


class Plans:
    """The plans of a trace: on another device than the target, where that can be, as measured replays should have them."""

    def __init__(self, binary, trace, place):
        self.binary, self.trace, self.made = binary, trace, {}
        memory = pathlib.Path("/dev/shm")
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="reprise-plans.", dir=memory if memory.is_dir() else place))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.place, ignore_errors=True)

    def of(self, way):
        key = way.order, way.shared
        if key not in self.made:
            plan = self.place / f"plan-{len(self.made)}"
            trace = self._shared() if way.shared else self.trace
            reprise(self.binary, "compile", "--order", way.order, trace, "-o", plan)
            self.made[key] = plan
        return self.made[key]

    def _shared(self):
        """The calls that peers make, as a trace."""
        rows = reprise(self.binary, "sql", "--json", self.trace, SHARED_CALLS).stdout
        calls = ",".join(json.loads(row)["call"] for row in rows.splitlines())
        part = self.place / "shared.reprise"
        reprise(self.binary, "slice", "-q", self.trace, "-o", part, "--call", calls)
        return part


def measured(case, binary, place, repeat, tell):
    """Records a case once, then runs it and its replays `repeat` times in turn."""
    line = Line(case.name, case.about, case.ways)
    pristine, directory, target, trace = place / "pristine", place / "work", place / "target", place / "trace.reprise"

    def fresh():
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        case.prepare(directory, pristine)

    pristine.mkdir(exist_ok=True)
    shutil.rmtree(trace, ignore_errors=True)
    fresh()
    case.recorded(binary, directory, trace)
    peer = peer_of(case, line, binary, trace, place / "peer")
    with Plans(binary, trace, place) as plans:
        # Before the rounds: what compiling leaves to be written is no part of them.
        ready = {way.name: plans.of(way) for way in line.ways if way.name != line.peer}
        for number in range(repeat):
            tell(f"{case.name}: {number + 1} of {repeat}")
            fresh()
            os.sync()
            line.original.append(case.original(directory))
            for way in line.ways:
                os.sync()
                if way.name == line.peer:
                    peer = beside(line, peer)
                    continue
                line.replays.setdefault(way.name, []).append(replay(line, way, binary, ready[way.name], target))
                if way.least:
                    line.least.setdefault(way.name, []).append(case.least(way.least, directory))
    shutil.rmtree(place / "peer", ignore_errors=True)
    return line


def beside(line, peer):
    """A run of the peer; without it the others go on."""
    try:
        line.replays.setdefault(peer.name, []).append(peer.seconds())
        return peer
    except Unable as why:
        line.notes.add(f"fio left out: {why}")
        line.ways = tuple(way for way in line.ways if way.name != peer.name)
        line.peer = None
        return None
