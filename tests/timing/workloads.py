"""What runs: the paper's small workloads, and a real key-value store.

A workload lives in one directory, its working directory; names are relative to it, so that ways to it cost nothing.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass

MIB = 1 << 20
#: One thread opens the tables: with many, how much RocksDB reads in advance depends on which of them is first.
DB = ["db_bench", "--db=db", "--threads=8", "--value_size=1000", "--compression_type=none", "--seed=1", "--num=60000",
      "--file_opening_threads=1"]
SMALL_TABLES = ["--write_buffer_size=4194304", "--target_file_size_base=4194304"]


@dataclass(frozen=True)
class Workload:
    """A program, and the files it needs."""

    name: str
    command: tuple
    files: int = 0
    file_mib: int = 0
    store: bool = False

    def prepare(self, directory, pristine):
        """Makes the state before the run; `pristine` keeps what is dear to make."""
        if self.files and not directory.exists():
            directory.mkdir()
            for number in range(self.files):
                with open(directory / f"f{number}", "wb") as file:
                    for _ in range(self.file_mib):
                        file.write(os.urandom(MIB))
        elif not self.files:
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
            if self.store:
                shutil.copytree(filled_store(pristine), directory / "db")

    def missing(self):
        """What this machine lacks for it, or nothing."""
        return None if self.files or shutil.which("db_bench") else "db_bench (Debian: rocksdb-tools)"


def filled_store(pristine):
    if not (pristine / "db").exists():
        pristine.mkdir(exist_ok=True)
        fill = [a for a in DB if not a.startswith("--threads")]
        subprocess.run([*fill, *SMALL_TABLES, "--threads=1", "--benchmarks=fillrandom,compact"],
                       cwd=pristine, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return pristine / "db"


def readers(name, pattern, threads, reads, file_mib):
    return Workload(name, ("readers", pattern, str(threads), str(reads)), threads, file_mib)


def workloads(reads):
    """All of them; `reads` is how many random reads a thread makes."""
    store = (*DB, "--use_existing_db=1", "--cache_size=1048576", "--benchmarks=readrandom", f"--reads={reads}")
    sync = (*DB, "--benchmarks=fillsync", "--sync=1", f"--writes={reads // 2}", *SMALL_TABLES)
    table = [
        readers("1 reader", "random", 1, reads * 3, 32),
        readers("2 readers", "random", 2, reads * 2, 32),
        readers("8 readers", "random", 8, reads, 32),
        readers("cache", "warm", 2, reads * 2, 128),
        readers("slices", "sequential", 2, reads * 6, 64),
        Workload("readrandom", store, store=True),
        Workload("fillsync", sync),
    ]
    return {w.name: w for w in table}
