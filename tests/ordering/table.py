#!/usr/bin/env python3
"""Real programs, replayed in every order: a table like ROOT's Table 3.

For each case of cases/: record it once on its own directory; then on each file
system and in each order replay it as fast as possible, five times into one
directory. Each replay restores the initial tree by difference, and by that the
cache is warm. Counted are the actions that went differently; the table shows
the greatest count of the five. Without any order (`none`) a case must diverge,
or it proves nothing; under the others each divergence is a fault of Reprise, is
listed, and fails the line. After the last replay in such an order the tree must
be the program's own, judged by compare.py, which shares no code with Reprise.

One line `PASS|FAIL|SKIP case fs order detail` for each, and
`ordering: N passed, N failed, N skipped` at the end.
"""

import collections
import itertools
import json
import os
import re
import shutil
import statistics
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "workloads"))
sys.dont_write_bytecode = True
import compare  # noqa: E402
import run  # noqa: E402
from run import Failure, Skip, number  # noqa: E402

FILE_SYSTEMS = ("ext4", "xfs", "btrfs")
ORDERS = ("none", "temporal", "root", "root:file=range")
# Orders that promise nothing: what diverges is counted and not explained.
LOOSE = ("none",)
# Orders that leave overlapping actions free: what diverges must have overlapped an action of another thread.
FREE_IF_OVERLAPPING = ("temporal",)
LINE = re.compile(r"\s*([0-9.]+) \[T([0-9]+)\] .*<([0-9.]+)>")
USAGE = 2
SHOWN = 110
# Lines of a description in the document.
DESCRIBED = 12


class Row:
    """What became of a case on one file system in one order."""

    def __init__(self):
        self.diverged, self.seconds, self.actions, self.threads = [], [], 0, 0
        self.found = collections.Counter()  # (action, what was different): in how many replays
        self.tree = []  # differences of the tree after the last replay

    def add(self, said):
        self.diverged.append(number(said.get("diverged")))
        self.seconds.append(number(said.get("replay_ns")) / 1e9)
        self.actions, self.threads = number(said.get("actions")), number(said.get("threads"))
        for divergence in said.get("divergences", ()):
            self.found[divergence["origin"], divergence["text"]] += 1

    def worst(self):
        return max(self.diverged)

    def median(self):
        return statistics.median(self.seconds)


class OrderingCase(run.Case):
    scripts = os.path.join(HERE, "cases")

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.plans = {}

    def plan(self, order):
        """The trace compiled in this order, once for all file systems."""
        if order not in self.plans:
            path = os.path.join(self.top, f"plan{len(self.plans)}")
            compiled = self.reprise("compile", self.trace, "--order", order, "-o", path)
            if compiled.code == USAGE:
                raise Skip(f"not yet: {(compiled.err.splitlines() or [''])[0]}")
            if compiled.code != 0:
                raise Failure(f"compile: {compiled.verdict()}", compiled.tail())
            self.plans[order] = path
        return self.plans[order]

    def drop_trees(self):
        super().drop_trees()
        if not self.options.keep:
            for plan in self.plans.values():
                os.unlink(plan)

    def replays(self, place, fs, order):
        """All replays on one file system in one order: the detail of the line that passes."""
        row, target, plan = Row(), os.path.join(place, self.name), self.plan(order)
        os.makedirs(target, exist_ok=True)
        for number_of_run in range(1, self.options.runs + 1):
            row.add(self.one(plan, target, f"replay {number_of_run} of {self.options.runs}"))
        self.rows[fs, order] = row
        detail = f"{row.worst()} diverged at most, {row.actions} actions, {row.threads} threads, {row.median():.2f} s"
        if order in LOOSE:
            if not row.worst():
                raise Failure(detail, ["without any order it must go differently, or the case proves nothing"])
            return detail
        row.tree = compare.compare(self.final, target + self.w)
        if row.worst() and order in FREE_IF_OVERLAPPING and not row.tree:
            if ordered := self.that_overlap_nothing(row):
                raise Failure(f"{detail}; actions {ordered} overlap no other", self.explained(row))
            return detail + ", which overlapped others"
        if row.worst():
            raise Failure(detail, self.explained(row))
        if row.tree:
            raise Failure(f"{len(row.tree)} differences in the tree", row.tree[:25])
        return detail

    def one(self, plan, target, which):
        result = self.reprise("replay", plan, "--target", target, "--json")
        if result.timed_out or result.code not in (0, 1):
            raise Failure(f"{which}: {result.verdict()}", result.tail())
        said = run.json_of(result)
        if said.get("end") != "complete":
            raise Failure(f"{which}: ended {said.get('end')}", result.tail())
        return said

    def explained(self, row):
        """Each action that diverged: how often, what was different, what the program did."""
        lines = self.lines_of({action for action, _ in row.found})
        out = []
        for (action, text), times in sorted(row.found.items()):
            out.append(f"action {action}, {times} of {len(row.diverged)} replays: {text}")
            out.append(f"  {lines.get(action, '')[:SHOWN]}")
        if row.worst() > len(row.found):
            out.append("a replay describes its first divergences only; there are more")
        return out

    def that_overlap_nothing(self, row):
        """The actions that diverged although no action of another thread was under way meanwhile."""
        if row.worst() > len(row.found):
            raise Failure("more diverged than a replay describes", self.explained(row))
        found = [LINE.match(line) for line in self.lines()]
        # Beginnings are shown in microseconds.
        spans = [(float(m[1]) - 2e-6, float(m[1]) + float(m[3]) + 2e-6, m[2]) if m else None for m in found]

        def alone(action):
            begin, end, thread = spans[action]
            return not any(s and s[2] != thread and s[0] < end and begin < s[1] for s in spans)

        return sorted({action for action, _ in row.found if spans[action] is None or alone(action)})

    def backend(self):
        return json.loads(self.reprise("info", self.trace, "--json").out)["facts"]["backend"]

    def lost(self):
        """What the recorder says that it could not see, in words."""
        said = json.loads(self.reprise("info", self.trace, "--json").out)
        return [f"{entry['count']} x {cause}" for cause, entry in said["ledger"]["losses"].get("dropped", {}).items()]

    def lines(self):
        """The trace's lines, one for each action."""
        return self.reprise("cat", self.trace).out.splitlines()

    def lines_of(self, actions):
        """The trace's lines of these actions: line n of `cat` is action n - 1."""
        return {n: line.strip() for n, line in enumerate(self.lines()) if n in actions}


# ------------------------------------------------------------------------- table


def recorder(cases):
    """By which recorder, in words."""
    words = {"ebpf": "in the kernel", "ptrace": "by ptrace"}
    return " or ".join(sorted({words[case.backend()] for case in cases if case.rows}))


def table(path, cases, options, work):
    orders = options.orders
    lines = [
        "# Real programs, replayed in every order",
        "",
        "Written by `make table-programs` (tests/ordering/table.py --table); not edited by hand.",
        "",
        run.machine_line(work),
        "",
        f"Each program was recorded once ({recorder(cases)}) and replayed {options.runs} times in each order on each file",
        "system (on loop devices), as fast as possible, with a warm cache. Under each order stands the greatest number of",
        "actions that went differently in one replay; the time is the median of the replays in the default",
        "order. A dash: not run, or it did not end.",
        "",
        "| program | actions | threads | recorded in | file system | " + " | ".join(orders) + " | replayed in |",
        "|---|---:|---:|---:|---|" + "---:|" * (len(orders) + 1),
    ]
    for case, fs in itertools.product(cases, options.fs):
        rows = [case.rows.get((fs, order)) for order in orders]
        first = next((row for row in rows if row), None)
        if first is None:
            continue
        root = case.rows.get((fs, "root"), first)
        cells = [case.name, str(first.actions), str(first.threads), f"{case.record_seconds:.1f} s"]
        if fs != options.fs[0]:
            cells = [""] * len(cells)
        cells += [fs, *(str(row.worst()) if row else "–" for row in rows), f"{root.median():.2f} s"]
        lines.append("| " + " | ".join(cells) + " |")
    explained = []
    for case in cases:
        for (fs, order), row in case.rows.items():
            if order not in LOOSE and row.worst():
                explained += ["", f"{case.name}, {fs}, `{order}`:", ""]
                explained += [f"    {line}" for line in case.explained(row)[:DESCRIBED]]
    trees = []
    for case in cases:
        differing = [(fs, order, row.tree) for (fs, order), row in case.rows.items() if row.tree and not row.worst()]
        if differing:
            places = ", ".join(f"{fs} `{order}`" for fs, order, _ in differing)
            most = max((tree for _, _, tree in differing), key=len)
            trees += ["", f"{case.name} ({places}):", ""] + [f"    {line}" for line in most[:DESCRIBED]] + [""]
            trees += [f"Not in its trace: {loss}." for loss in case.lost()]
    if trees:
        lines += ["", "## Trees that differ"] + trees
    if explained:
        temporal = "Under `temporal` overlapping actions are free, even if one made the other possible (ORDERING.md, \"temporal and single\")."
        lines += ["", "## What diverged", "", f"The first {DESCRIBED} lines of each. {temporal}"] + explained
    with open(path, "w") as out:
        out.write("\n".join(lines) + "\n")


# -------------------------------------------------------------------------- main


def arguments():
    replays = "replays on each file system in each order"
    parser, known = run.parser_of(OrderingCase.scripts, __doc__, FILE_SYSTEMS, 5, replays)
    parser.add_argument("--order", action="append", metavar="ORDER", dest="orders",
                        help="only this order; may be repeated (default: " + " ".join(ORDERS) + ")")
    options = run.options_of(parser, known, (*FILE_SYSTEMS, "same"))
    options.orders = options.orders or list(ORDERS)
    run.check_program(parser, options)
    options.dry = options.damage = False
    return options


def main():
    options = arguments()
    lines = run.Lines()
    with run.workspace(options.keep) as (work, file_systems):
        cases = []
        for name in options.cases:
            case = OrderingCase(name, options, work)
            cases.append(case)
            fault = case.recorded()
            for fs in options.fs:
                for order in options.orders:
                    def make(fs=fs, order=order):
                        return case.replays(file_systems.place(fs), fs, order)

                    lines.line(f"{name} {fs} {order}", fault or make)
                if fs not in file_systems.why_not and not options.keep:
                    case.clear(os.path.join(file_systems.place(fs), name))
            case.drop_trees()
        if options.table:
            table(options.table, cases, options, work)
    print(lines.total("ordering"), flush=True)
    return 1 if lines.counts["FAIL"] else 0


if __name__ == "__main__":
    sys.exit(main())
