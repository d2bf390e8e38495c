"""What is traced: real programs in phases, with their state made before and their work checked afterwards.

A workload lives in one directory that is made anew for every run, on the file system that the bench was given; what is
dear to make is kept beside it and copied. Before a run all is written back; the page cache holds what the workload
reads (each says so), so that it is the calls that count and not the device. Non-goals: how long it took (`trial`).
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
from dataclasses import dataclass

import trees
from machine import Unable

BLOCK = 4096


@dataclass(frozen=True)
class Phase:
    """A command. What is not `timed` has to be done under the tool too, but does not count."""

    name: str
    command: tuple
    timed: bool = True


class Workload:
    """`scale` is the share of the full work that is done."""

    name = ""
    about = ""
    #: (program, Debian package)
    needs = ()
    #: What share of the work is enough for tools that slow it down tenfold and more.
    slow_scale = 1.0
    #: How often the untraced time it may take with metadata only, and with full data.
    bars = (None, None)
    #: Whether its data comes faster than a disk takes it: the bar is for a sink that keeps up.
    outruns_disks = False

    def lack(self):
        """What this machine lacks for it, or nothing."""
        for program, package in self.needs:
            if not shutil.which(program):
                return f"{program} (Debian: {package})"
        return None

    def prepare(self, directory, pristine, scale):
        """The state before the run, in a directory that is there and empty."""

    def phases(self, directory, scale):
        raise NotImplementedError

    def seconds(self, directory, phase, said, clock):
        """How long a phase took, by its own report or by the clock around it."""
        return clock

    def done(self, directory, said, scale):
        """What was done, as a text that must be the same after every run of the same scale."""
        raise NotImplementedError

    def calls(self, scale):
        """Calls that a trace must contain at least: name to number."""
        return {}


def sh(*command, **options):
    """A command of a preparation; what it says is only shown when it fails."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, **options)
    if done.returncode:
        raise Unable(f"{' '.join(map(str, command))} ended with {done.returncode}: {(done.stderr or done.stdout)[-1000:]}")
    return done.stdout


def once(place, make):
    """Makes a directory or a file if it is not there yet; not half."""
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        part = place.with_name(place.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        make(part)
        part.rename(place)
    return place


def warm(*paths):
    """Reads files, or all files below directories, so that they are in the page cache."""
    for path in paths:
        for file in [path] if path.is_file() else sorted(path.rglob("*")):
            if file.is_file():
                with open(file, "rb", buffering=0) as source:
                    while source.read(1 << 20):
                        pass


class Fio(Workload):
    """fio with one of its engines on one file; its own clock, since fio takes its time to begin and to end."""

    needs = (("fio", "fio"),)
    file_bytes = 256 << 20

    def __init__(self, name, about, number, *flags, threads=1, fsync=0, slow_scale=0.1, bars=(None, None), outruns_disks=False):
        self.outruns_disks = outruns_disks
        self.name, self.about, self.number, self.flags = name, about, number, flags
        self.threads, self.fsync, self.slow_scale, self.bars = threads, fsync, slow_scale, bars

    def prepare(self, directory, pristine, scale):
        source = once(pristine / "fio", lambda part: part.write_bytes(os.urandom(self.file_bytes)))
        shutil.copyfile(source, directory / "file")
        warm(directory / "file")

    def _each(self, scale):
        return max(1000, int(self.number * scale))

    def phases(self, directory, scale):
        number = self._each(scale)
        command = ["fio", "--name=job", f"--filename={directory / 'file'}", f"--size={self.file_bytes}", "--bs=4k", "--ioengine=psync",
                   "--thread", f"--numjobs={self.threads}", f"--io_size={number * BLOCK}", "--invalidate=0", "--fadvise_hint=0",
                   "--randrepeat=1", "--output-format=json", f"--output={directory / 'report.json'}",
                   *self.flags, *([f"--fsync={self.fsync}"] if self.fsync else [])]
        return [Phase("fio", tuple(command))]

    def _report(self, directory):
        return json.loads((directory / "report.json").read_text())["jobs"]

    def seconds(self, directory, phase, said, clock):
        return max(job["job_runtime"] for job in self._report(directory)) / 1000

    def done(self, directory, said, scale):
        jobs = self._report(directory)
        reads, writes = (sum(job[kind]["total_ios"] for job in jobs) for kind in ("read", "write"))
        return f"{reads} reads, {writes} writes, {sum(job['error'] for job in jobs)} errors"

    def calls(self, scale):
        number = self._each(scale) * self.threads
        if not self.fsync:
            return {"pread64": number}
        return {"pwrite64": number, "fsync": number // self.fsync - 1}


class Tar(Workload):
    name, about = "tar", "extract and remove 25,000 files, the archive cached"
    needs = (("tar", "tar"),)
    files = 25000
    bars = (1.08, 1.15)

    def _archive(self, part, scale):
        tree = part.with_name("tar-tree")
        trees.make(tree, int(self.files * scale), seed=4)
        sh("tar", "cf", part, "-C", tree, ".")
        shutil.rmtree(tree)

    def prepare(self, directory, pristine, scale):
        archive = once(pristine / f"tree-{scale:g}.tar", lambda part: self._archive(part, scale))
        shutil.copyfile(archive, directory / "tree.tar")
        for place in ("out", "old"):
            (directory / place).mkdir()
        sh("tar", "xf", archive, "-C", directory / "old")
        warm(directory / "tree.tar")

    def phases(self, directory, scale):
        return [Phase("extract", ("tar", "xf", str(directory / "tree.tar"), "-C", str(directory / "out"))),
                Phase("remove", ("rm", "-r", str(directory / "old")))]

    def done(self, directory, said, scale):
        return f"{trees.digest(directory / 'out')}, {'not ' if (directory / 'old').exists() else ''}removed"


class Git(Workload):
    name, about = "git", "checkout of 20,000 files, then of another branch that differs in a fifth of them; objects cached"
    needs = (("git", "git"),)
    files = 20000
    bars = (1.08, 1.15)
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null",
                   **{f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER")
                      for what, value in (("NAME", "bench"), ("EMAIL", "bench@localhost"), ("DATE", "2026-01-01T00:00:00Z"))}}

    def _git(self, directory, *words):
        # Without what git cleans up in the background.
        return sh("git", "-c", "gc.auto=0", "-c", "maintenance.auto=false", "-C", directory, *words, env=self.environment)

    def _repository(self, part, scale):
        trees.make(part, int(self.files * scale), seed=5)
        self._git(part, "init", "-q", "-b", "first")
        for branch, seed in (("first", None), ("second", 6)):
            if seed is not None:
                self._git(part, "checkout", "-q", "-b", branch)
                trees.change(part, 0.05, seed)
            self._git(part, "add", "-A")
            self._git(part, "commit", "-q", "-m", branch)
        self._git(part, "checkout", "-q", "--orphan", "none")
        self._git(part, "rm", "-rfq", ".")
        self._git(part, "gc", "-q")

    def prepare(self, directory, pristine, scale):
        source = once(pristine / f"repository-{scale:g}", lambda part: self._repository(part, scale))
        sh("cp", "-a", source / ".git", directory / ".git")
        warm(directory / ".git")

    def phases(self, directory, scale):
        git = ("git", "-c", "safe.directory=*", "-c", "advice.detachedHead=false", "-C", str(directory))
        return [Phase("checkout", (*git, "checkout", "-q", "first")), Phase("switch", (*git, "checkout", "-q", "second"))]

    def done(self, directory, said, scale):
        head = self._git(directory, "rev-parse", "HEAD").strip()[:16]
        changed = len(self._git(directory, "status", "--porcelain").splitlines())
        return f"{head}, {changed} changed, {trees.digest(directory, without=['.git'])}"


class Sqlite(Workload):
    """`step` between the keys of two rows: with 1 they come in order."""

    needs = (("sqlite3", "sqlite3"),)
    rows, rows_of_commit = 100_000, 100
    #: name of the phase, of the database, and `journal_mode`
    modes = (("rollback", "rollback.db", "DELETE"), ("wal", "wal.db", "WAL"))

    def __init__(self, name, about, step=1, bars=(None, None)):
        self.name, self.about, self.step, self.bars = name, about, step, bars

    def prepare(self, directory, pristine, scale):
        rows = max(self.rows_of_commit, int(self.rows * scale))
        for name, _, mode in self.modes:
            with open(directory / f"{name}.sql", "w") as out:
                out.write(f"PRAGMA journal_mode={mode};\nPRAGMA synchronous=FULL;\nCREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c INTEGER);\n")
                for row in range(rows):
                    if row % self.rows_of_commit == 0:
                        out.write("BEGIN;\n")
                    out.write(f"INSERT INTO t VALUES({row * self.step % 1000003}, 'row {row} {'x' * (row % 90)}', {row});\n")
                    if row % self.rows_of_commit == self.rows_of_commit - 1 or row == rows - 1:
                        out.write("COMMIT;\n")

    def phases(self, directory, scale):
        return [Phase(name, ("sqlite3", "-bail", str(directory / database), f".read {directory / name}.sql")) for name, database, _ in self.modes]

    def done(self, directory, said, scale):
        query = "SELECT count(*), sum(a), sum(c), sum(length(b)) FROM t; PRAGMA integrity_check;"
        return "; ".join(" ".join(sh("sqlite3", directory / database, query).split()) for _, database, _ in self.modes)


class DbBench(Workload):
    """RocksDB: a database filled in order, one at random, and the second one read."""

    needs = (("db_bench", "rocksdb-tools"),)
    number = 1_000_000
    bars = (1.05, 1.10)

    def __init__(self, name, about, *flags):
        self.name, self.about, self.flags = name, about, flags

    def phases(self, directory, scale):
        def bench(name, database, *flags):
            where = directory / database
            return Phase(name, ("db_bench", f"--db={where}", f"--wal_dir={where}", f"--benchmarks={name}", f"--num={int(self.number * scale)}",
                                "--seed=1", "--threads=1", "--value_size=100", "--compression_type=none", "--histogram=0", *self.flags, *flags))

        return [bench("fillseq", "seq"), bench("fillrandom", "random"), bench("readrandom", "random", "--use_existing_db=1")]

    def done(self, directory, said, scale):
        text = "".join(said.values())
        counts = re.findall(r"^(fillseq|fillrandom) .* (\d+) operations", text, re.MULTILINE)
        found = re.search(r"\((\d+) of (\d+) found\)", text)
        if len(counts) != 2 or not found:
            raise Unable(f"{self.name}: db_bench said something else: {text[-500:]}")
        return f"{counts}, {found.group()}"


class Pgbench(Workload):
    name, about = "pgbench", "PostgreSQL: tables of scale 10 loaded, then 4 clients with 1,000 transactions each, fsync on"
    scale_factor, clients, transactions = 10, 4, 1000
    bars = (1.05, 1.10)

    def __init__(self):
        found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        self.bin = found[-1].parent if found else None
        self.user = "postgres" if os.geteuid() == 0 else None

    def lack(self):
        return None if self.bin else "PostgreSQL (Debian: postgresql)"

    def _as_user(self, program, *words):
        """The server refuses to run as root."""
        prefix = ("setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups", "--") if self.user else ()
        return (*prefix, str(self.bin / program), *map(str, words))

    def _own(self, path):
        if self.user:
            shutil.chown(path, self.user, self.user)

    def _cluster(self, part):
        part.mkdir()
        self._own(part)
        sh(*self._as_user("initdb", "-D", part, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--data-checksums"))
        with open(part / "postgresql.conf", "a") as config:
            config.write("listen_addresses = ''\nfsync = on\nshared_buffers = 16MB\nmax_wal_size = 256MB\nautovacuum = off\n")

    def prepare(self, directory, pristine, scale):
        self._own(directory)
        sh("cp", "-a", once(pristine / "cluster", self._cluster), directory / "data")
        with open(directory / "data/postgresql.conf", "a") as config:
            config.write(f"unix_socket_directories = '{directory}'\n")

    def phases(self, directory, scale):
        server = ("-w", "-t", "120", "-D", directory / "data")
        client = ("-h", directory, "-U", "postgres")
        work = ("-c", self.clients, "-j", 2, "-t", max(1, int(self.transactions * scale)), "--random-seed=1")
        return [Phase("start", self._as_user("pg_ctl", "start", *server, "-l", directory / "data/server.log"), timed=False),
                Phase("load", self._as_user("pgbench", *client, "-i", "-s", max(1, int(self.scale_factor * scale)), "-q", "postgres")),
                Phase("transactions", self._as_user("pgbench", *client, *work, "postgres")),
                Phase("stop", self._as_user("pg_ctl", "stop", *server, "-m", "fast"), timed=False)]

    def done(self, directory, said, scale):
        processed = re.search(r"actually processed: (\d+)/(\d+)", said["transactions"])
        failed = re.search(r"failed transactions: (\d+)", said["transactions"])
        sh(*self._as_user("pg_checksums", "--check", "-D", directory / "data"))
        return f"{processed and processed.group(1)} transactions, {failed and failed.group(1)} failed, checksums right"


def workloads():
    """All of them, by name, in the order of the table."""
    reads = ("--rw=randread",)
    table = [
        DbBench("rocksdb", "db_bench, 1,000,000 entries of 100 bytes, one thread, no compression"),
        DbBench("rocksdb-mmap", "db_bench with its files read and written through mappings", "--mmap_read=1", "--mmap_write=1"),
        Sqlite("sqlite", "200,000 inserts in the order of their keys, synchronous=FULL, a commit for every 100; half with a rollback journal, half with a write-ahead log",
               bars=(1.05, 1.10)),
        Sqlite("sqlite-random", "the same, but keys in no order: five calls for every insert", step=7919),
        Pgbench(),
        Tar(),
        Git(),
        Fio("fio-read", "4 KiB random reads by pread, all cached, 1 thread", 1_000_000, *reads, bars=(1.15, 1.40), outruns_disks=True),
        Fio("fio-read-bare", "the same, and fio takes no times of its own: as often as calls can be made", 1_000_000, *reads, "--gtod_reduce=1", "--norandommap"),
        Fio("fio-read-2", "4 KiB random reads by pread, all cached, 2 threads", 1_000_000, *reads, threads=2, slow_scale=0.05, bars=(1.15, 1.45),
            outruns_disks=True),
        Fio("fio-write", "4 KiB random buffered writes, an fsync after every 32", 200_000, "--rw=randwrite", fsync=32, bars=(1.06, 1.20)),
    ]
    return {workload.name: workload for workload in table}
