"""What other replayers make of the same calls: fio, by a log of the reads, writes and syncs of each thread (`read_iolog`).

Goals: the same calls on files of the same size, as fast as they go. Non-goals: what fio cannot do: names, opens and their flags
(`O_SYNC`), attributes, the order of threads. Its files are there already and have all their blocks, which favours it.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "capture"))

from machine import MIB, Unable  # noqa: E402

QUERY = """SELECT thread, category, file, file_id, offset, moved_bytes FROM actions
WHERE category IN ('read', 'write', 'sync') AND result >= 0 AND file LIKE '/%' ORDER BY seq"""
#: Files that would be larger are left out.
MOST_BYTES = 4 << 30


class Fio:
    """The calls of a trace, as fio makes them."""

    name = "fio read_iolog: reads, writes and syncs alone"

    def __init__(self, binary, trace, place):
        if not shutil.which("fio"):
            raise Unable("no fio")
        self.place = place
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        said = subprocess.run([str(binary), "sql", "--json", str(trace), QUERY], capture_output=True, text=True, check=True)
        logs, sizes, named = {}, {}, {}
        for row in map(json.loads, said.stdout.splitlines()):
            log = logs.setdefault(row["thread"], [])
            # A sync moves no content, and so says no number: it is about the file that had its name last.
            number = row["file_id"] if row["file_id"] is not None else named.get(row["file"])
            if number is None:
                continue
            if row["category"] == "sync":
                log.append((number, "sync", 0, 0))
            elif row["moved_bytes"] and row["offset"] is not None:
                named[row["file"]] = number
                log.append((number, row["category"], row["offset"], row["moved_bytes"]))
                sizes[number] = max(sizes.get(number, 0), row["offset"] + row["moved_bytes"])
        self.calls = sum(len(log) for log in logs.values())
        self.logs = [path for thread, log in sorted(logs.items()) if (path := self._written(thread, log, sizes))]
        if not self.logs or sum(sizes.values()) > MOST_BYTES:
            raise Unable("no reads and writes that fio could make")
        for number, size in sizes.items():
            with open(self._file(number), "wb") as out:
                for begin in range(0, size, MIB):
                    out.write(os.urandom(min(MIB, size - begin)))

    def _file(self, number):
        return self.place / f"file-{number}"

    def _written(self, thread, log, sizes):
        log = [entry for entry in log if entry[0] in sizes]
        if not log:
            return None
        numbers = sorted({entry[0] for entry in log})
        path = self.place / f"thread-{thread}.log"
        with open(path, "w") as out:
            out.write("fio version 2 iolog\n")
            out.writelines(f"{self._file(number)} add\n" for number in numbers)
            last = {number: at for at, (number, *_) in enumerate(log)}
            opened = set()
            for at, (number, kind, offset, length) in enumerate(log):
                if number not in opened:
                    opened.add(number)
                    out.write(f"{self._file(number)} open\n")
                out.write(f"{self._file(number)} {kind} {offset} {length}\n")
                if last[number] == at:
                    out.write(f"{self._file(number)} close\n")
        return path

    def seconds(self):
        """Of the slowest of its jobs, one for each thread."""
        jobs = [word for i, log in enumerate(self.logs) for word in (f"--name=thread{i}", f"--read_iolog={log}", "--ioengine=psync",
                "--thread", "--invalidate=0", "--fadvise_hint=0", "--bs=4k", "--allow_file_create=0")]
        done = subprocess.run(["fio", "--output-format=json", *jobs], capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unable(f"fio ended with {done.returncode}: {done.stderr[-500:]}")
        report = json.loads(done.stdout[done.stdout.index("{"):])
        made = sum(job[kind]["total_ios"] for job in report["jobs"] for kind in ("read", "write", "sync"))
        if made != self.calls:
            raise Unable(f"fio made {made} of {self.calls} calls")
        return max(max(job["job_runtime"], 1) for job in report["jobs"]) / 1000
