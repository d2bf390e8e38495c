#!/usr/bin/env python3
"""Programs whose effects do not come by ordinary calls, recorded and replayed.

The cases of cases/ (fio with io_uring, Linux AIO and mapped files; LMDB) go through the workload matrix: recorded once,
replayed on each file system, the trees compared, and the program's own check of the replayed tree. What is known not to go
well with a backend stands in KNOWN, and its line is SKIP if it goes wrong in just that way; when it goes well after all, the
line fails until it is taken away there. One line `PASS|FAIL|SKIP case fs detail` for each, and
`capture: N passed, N failed, N skipped` at the end.
"""

import os
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "workloads"))
sys.dont_write_bytecode = True
import run  # noqa: E402
from run import Failure, Skip  # noqa: E402

#: The trace is not complete, and must say so itself.
LACKS = "lacks"
#: Complete or not, as it happens: the program sees completions in memory and may go on before its recorder does.
CHANCE = "chance"
#: The trace is complete, but a replay does something else.
DIVERGES = "diverges"
CASES = ("fio-libaio", "fio-mmap", "fio-uring", "fio-uring-fixed", "fio-uring-sqpoll", "lmdb", "lmdb-writemap")
#: What is known, by backend and case.
KNOWN = {
    "ptrace": {
        "fio-uring": CHANCE,
        "fio-uring-fixed": CHANCE,
        "fio-uring-sqpoll": LACKS,
    },
    "ebpf": dict.fromkeys(("fio-mmap", "lmdb", "lmdb-writemap"), CHANCE),
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
        lacks = self.losses()
        known = KNOWN.get(self.info["facts"]["backend"], {}).get(self.name)
        try:
            detail = super().matrix_line(place, fs)
        except Failure as failure:
            if known in (LACKS, CHANCE) and lacks:
                raise Skip(f"known to be incomplete: {'; '.join(lacks)}") from None
            if known == DIVERGES and not lacks and "diverged" in str(failure):
                raise Skip(f"known to diverge: {failure}") from None
            raise
        if lacks and known not in (LACKS, CHANCE):
            raise Failure("the trace lacks something", lacks)
        if lacks:
            raise Skip(f"known to be incomplete, though these replays came out right: {'; '.join(lacks)}")
        if known in (LACKS, DIVERGES):
            raise Failure(f"goes well now, take it out of KNOWN: {detail}")
        return detail


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
