#!/usr/bin/env python3
"""Programs whose effects do not come by ordinary calls, recorded and replayed.

The cases of cases/ (fio with io_uring, Linux AIO and mapped files; LMDB) go through the workload matrix: recorded once,
replayed on each file system, the trees compared, and the program's own check of the replayed tree. What a backend is known
not to capture yet stands in INCOMPLETE: there the trace must say itself that it lacks something, and the line is SKIP;
when the backend does capture it, the line fails until it is taken away there. One line `PASS|FAIL|SKIP case fs detail` for
each, and `capture: N passed, N failed, N skipped` at the end.
"""

import os
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "workloads"))
sys.dont_write_bytecode = True
import run  # noqa: E402
from run import Failure, Skip  # noqa: E402

#: backend: cases that it does not capture completely yet
INCOMPLETE = {
    "ptrace": {"fio-libaio", "fio-mmap", "fio-uring", "fio-uring-fixed", "fio-uring-sqpoll", "lmdb", "lmdb-writemap"},
    "ebpf": {"fio-libaio", "fio-mmap", "fio-uring", "fio-uring-fixed", "fio-uring-sqpoll", "lmdb", "lmdb-writemap"},
}
LOSSES = ("dropped", "truncated", "unsupported")


class CaptureCase(run.Case):
    scripts = os.path.join(HERE, "cases")

    def losses(self):
        """What the trace says that it lacks."""
        losses = self.info["ledger"]["losses"]
        return [f"{entry['count']} {word}: {cause}" for word in LOSSES for cause, entry in losses.get(word, {}).items()]

    def matrix_line(self, place, fs):
        if self.options.dry:
            return super().matrix_line(place, fs)
        lacks, backend = self.losses(), self.info["facts"]["backend"]
        if self.name not in INCOMPLETE.get(backend, ()):
            if lacks:
                raise Failure("the trace lacks something", lacks)
            return super().matrix_line(place, fs)
        try:
            detail = super().matrix_line(place, fs)
        except Failure as failure:
            if not lacks:
                raise Failure(f"lacks something and does not say so: {failure}", failure.more) from None
            raise Skip(f"known to be incomplete: {lacks[0]}") from None
        if not lacks:
            raise Failure(f"complete now, take it out of INCOMPLETE: {detail}")
        raise Skip(f"known to be incomplete, though these replays came out right: {lacks[0]}")


def main():
    options = run.arguments(CaptureCase.scripts, __doc__)
    lines = run.Lines()
    with run.workspace(options.keep) as (work, file_systems):
        for name in options.cases:
            case = CaptureCase(name, options, work)
            fault = case.recorded()
            for fs in options.fs:
                lines.line(f"{name} {fs}", fault or (lambda fs=fs: case.matrix_line(file_systems.place(fs), fs)))
            case.drop_trees()
    print(lines.total("capture"), flush=True)
    return 1 if lines.counts["FAIL"] else 0


if __name__ == "__main__":
    sys.exit(main())
