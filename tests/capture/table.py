"""The figures as tables, and their place in the document."""

import collections
import statistics

from bars import MEMORY_LIMIT_BYTES
from machine import MIB
from tools import DISK, UNTRACED

BEGIN, END = "<!-- bench-capture: begin -->", "<!-- bench-capture: end -->"
#: Tools that the bars are for: with metadata only, and with full data.
BARRED = ("ebpf-metadata", "ebpf-full")
#: With full data to a sink that keeps up, where no disk does.
KEPT_UP = "ebpf-null"
#: What no recorder in the kernel is below.
FLOORS = {"ebpf-metadata": "floor", "ebpf-full": "floor-copy", "ebpf-null": "floor-copy"}
WORST_PHASE = 1.20


class Runs:
    """All runs that did not fail, by workload and tool."""

    def __init__(self, runs):
        self.failed = collections.OrderedDict(((r.workload, r.tool), r.failure) for r in runs if r.failure)
        good = [r for r in runs if not r.failure]
        self.by_tool = collections.defaultdict(list)
        self.untraced = {(r.workload, r.scale, r.round): r for r in good if r.tool == UNTRACED}
        for run in good:
            self.by_tool[run.workload, run.tool].append(run)

    def pairs(self, workload, tool):
        """Runs of a tool with the untraced run of the same round."""
        found = ((run, self.untraced.get((workload, run.scale, run.round))) for run in self.by_tool[workload, tool])
        return [(run, plain) for run, plain in found if plain]

    def ratios(self, workload, tool, phase=None):
        return [of(run, phase) / of(plain, phase) for run, plain in self.pairs(workload, tool)]

    def phases(self, workload):
        return next((list(r.phases) for (name, _), runs in self.by_tool.items() if name == workload for r in runs), [])


def of(run, phase):
    return run.seconds() if phase is None else run.phases[phase]


def spread(values, form="{:.2f}"):
    """Median and range."""
    if not values:
        return "—"
    if len(values) == 1:
        return form.format(values[0])
    low, middle, high = (form.format(v) for v in (min(values), statistics.median(values), max(values)))
    return f"{middle} [{low}–{high}]"


def rows(head, body):
    return ["| " + " | ".join(head) + " |", "|---" * len(head) + "|", *("| " + " | ".join(line) + " |" for line in body)]


def summary(runs, workloads, tools):
    """Ratios by workload and tool."""
    body = []
    for workload in workloads:
        seconds = [r.seconds() for r in runs.by_tool[workload.name, UNTRACED] if r.scale == max_scale(runs, workload)]
        cells = [cell(runs, workload.name, tool.name) for tool in tools if tool.name != UNTRACED]
        body.append([f"{workload.name}: {workload.about}", spread(seconds), *cells])
    return rows(["workload", "untraced, s", *(tool.label for tool in tools if tool.name != UNTRACED)], body)


def max_scale(runs, workload):
    return max((r.scale for r in runs.by_tool[workload.name, UNTRACED]), default=1.0)


def cell(runs, workload, tool):
    if (workload, tool) in runs.failed:
        return "failed"
    return spread(runs.ratios(workload, tool))


def by_phase(runs, workloads, tools):
    body = []
    for workload in workloads:
        names = runs.phases(workload.name)
        for phase in names if len(names) > 1 else []:
            seconds = [r.phases[phase] for r in runs.by_tool[workload.name, UNTRACED] if r.scale == max_scale(runs, workload)]
            cells = [spread(runs.ratios(workload.name, tool.name, phase)) for tool in tools if tool.name != UNTRACED]
            body.append([f"{workload.name}: {phase}", spread(seconds), *cells])
    return rows(["phase", "untraced, s", *(tool.label for tool in tools if tool.name != UNTRACED)], body) if body else []


def verdicts(runs, workloads):
    """The bars of each workload and whether they are met, or can be."""
    body = []
    for workload in workloads:
        barred = list(zip(BARRED, workload.bars))
        if workload.outruns_disks:
            barred.append((KEPT_UP, workload.bars[1]))
        body += [judged(runs, workload.name, tool, bar) for tool, bar in barred if bar is not None and runs.ratios(workload.name, tool)]
    return rows(["workload", "tool", "bar", "ratio", "floor", "worst phase", "lost", ""], body) if body else []


def judged(runs, workload, tool, bar):
    """The line of one bar."""
    phases = {p: statistics.median(runs.ratios(workload, tool, p)) for p in runs.phases(workload)}
    worst = max(phases, key=phases.get)
    ratio = statistics.median(runs.ratios(workload, tool))
    floor, worst_floor = runs.ratios(workload, FLOORS[tool]), runs.ratios(workload, FLOORS[tool], worst)
    lost = sum(sum(r.losses.said.values()) + r.losses.missing for r in runs.by_tool[workload, tool])
    by_phase = [(phases[worst], max(WORST_PHASE, bar), worst_floor)] if len(phases) > 1 else []
    word = verdict([(ratio, bar, floor), *by_phase], lost)
    return [workload, tool, f"{bar:.2f}", f"{ratio:.3f}", spread(floor, "{:.3f}"), f"{phases[worst]:.3f} ({worst})", str(lost), word]


def verdict(measured, lost):
    """Of ratios with their bars and the floor's ratios. Where the floor itself is above a bar, no recorder can meet it here."""
    missed = [(bar, floor) for ratio, bar, floor in measured if ratio > bar]
    if lost or any(not floor or statistics.median(floor) <= bar for bar, floor in missed):
        return "**missed**"
    return f"beyond reach here: the floor is {statistics.median(missed[0][1]):.2f}" if missed else "met"


def costs(runs, workloads, tools):
    """What else a tool did: losses, output, memory, time until its trace was complete."""
    body = []
    for workload in workloads:
        for tool in tools:
            own = runs.by_tool[workload.name, tool.name]
            if tool.name == UNTRACED:
                own = [r for r in own if r.scale == max_scale(runs, workload)]
            if not own:
                continue
            lost = collections.Counter()
            for run in own:
                lost.update(run.losses.said)
                lost["calls missing"] += run.losses.missing
            words = ", ".join(f"{count} {word}" for word, count in lost.items() if count) or "0"
            pairs = runs.pairs(workload.name, tool.name) if tool.name != UNTRACED else []
            peak = max(r.memory_bytes for r in own)
            body.append([workload.name, tool.label, str(len(own)), f"{own[0].scale:g}", words if tool.observes else "—",
                         f"{statistics.median(r.quiet_share for r in own):.0%}",
                         spread([r.cpu_seconds / p.cpu_seconds for r, p in pairs if p.cpu_seconds]),
                         spread([r.whole_seconds / p.whole_seconds for r, p in pairs]),
                         f"{statistics.median(r.output_bytes for r in own) / MIB:.0f} MiB", f"{peak / MIB:.0f} MiB" if peak else "—"])
    head = ["workload", "tool", "runs", "scale", "lost, all runs", "quiet", "processor time / untraced", "until the trace is complete / untraced",
            "trace", "recorder's memory, peak"]
    return rows(head, body)


def reached(bars, results, tools):
    """The bars of rate and size."""
    labels = {tool.name: tool for tool in [*tools, DISK]}
    body = []
    for bar in bars:
        unit = bar.least[1]
        for name in dict.fromkeys(r.tool for r in results if r.bar == bar.name):
            own = [r for r in results if r.bar == bar.name and r.tool == name]
            good = [r for r in own if not r.failure]
            if not good:
                body.append([bar.name, labels[name].label, own[0].failure, *["—"] * 6])
                continue
            lost = sum(sum(r.losses.said.values()) + r.losses.missing for r in good)
            form = "{:,.0f}" if unit == "records/s" else "{:.2f}"
            peak = max(r.memory_bytes for r in good)
            fits = "" if not peak else " (within 256)" if peak <= MEMORY_LIMIT_BYTES else " (**over 256**)"
            body.append([bar.name, labels[name].label, f"{spread([r.rate(unit) for r in good], form)} {unit}", f"{good[0].calls:,}",
                         f"{good[0].bytes / 1e9:.2f} GB", "—" if not labels[name].observes else f"{lost}; {sum(r.missing_bytes for r in good)} bytes",
                         f"{peak / MIB:.0f} MiB{fits}" if peak else "—", spread([r.whole_seconds for r in good], "{:.1f}"),
                         f"{good[0].output_bytes / 1e9:.2f} GB"])
    head = ["bar", "tool", "rate", "calls", "data", "lost; content missing", "recorder's memory, peak", "until the trace is complete, s", "trace"]
    return rows(head, body) if body else []


def document(measurements, trial_runs, workloads, tools, left_out, bars, bar_results):
    """Everything, as it goes into the document."""
    runs = Runs(trial_runs)
    machines = dict.fromkeys(part["machine"] for part in measurements)
    commands = ", ".join(f"`{part['command']}` ({part['seconds'] / 60:.0f} minutes)" for part in measurements)
    text = [f"Machine: {' / '.join(machines)}. {commands}. Ratios are of times of the program's timed phases to those "
            "of the untraced run of the same round: median [smallest–largest].", ""]
    if left_out:
        text += ["Left out:", "", *(f"- {name}: {why}" for name, why in left_out), ""]
    parts = [("", summary(runs, workloads, tools) if workloads else []), ("By phase:", by_phase(runs, workloads, tools)),
             ("The bars of a recorder in the kernel:", verdicts(runs, workloads)),
             ("Losses and costs:", costs(runs, workloads, tools) if workloads else []), ("Rates and size:", reached(bars, bar_results, tools))]
    for title, lines in parts:
        if lines:
            text += [*([title, ""] if title else []), *lines, ""]
    if runs.failed:
        text += ["Failed:", "", *(f"- {workload}, {tool}: {why}" for (workload, tool), why in runs.failed.items()), ""]
    return "\n".join(text).rstrip()


def place(path, text):
    """Between the marks of the document."""
    old = path.read_text()
    before, rest = old.split(BEGIN, 1)
    path.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.split(END, 1)[1]}")
