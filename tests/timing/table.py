"""The figures as tables, and their place in the document."""

import os
import pathlib
import platform
import time

from experiment import median

BEGIN, END = "<!-- bench-ordering: begin -->", "<!-- bench-ordering: end -->"
#: ROOT (SOSP '13), section 5.2: mean error, mean of the worst tenth, share of the original's concurrency.
PAPER = {"single": (43.5, 113.3, None), "temporal": (21.3, 52.9, 60), "root": (10.6, 28.7, 94)}


def error(cell, mode):
    """Signed, of the medians, in per cent of the original."""
    return 100 * (median(r.seconds for r in cell.replays[mode]) / median(r.seconds for r in cell.original) - 1)


def spread(runs):
    """Half the range, in per cent of the median."""
    seconds = [r.seconds for r in runs]
    return 50 * (max(seconds) - min(seconds)) / median(seconds)


def worst_tenth(errors):
    worst = sorted(errors, reverse=True)[:max(1, round(len(errors) / 10))]
    return sum(worst) / len(worst)


def summary(cells, modes):
    lines = ["| ordering | cells | mean error | worst tenth | largest | concurrency of the original's | diverged | ROOT's paper: mean, worst tenth, concurrency |",
             "|---|---|---|---|---|---|---|---|"]
    for mode in modes:
        errors = [abs(error(c, mode)) for c in cells]
        # Concurrency is a matter of programs with several threads.
        many = [c for c in cells if c.concurrency > 1.2 and all(r.concurrency for r in c.replays[mode])]
        shares = [100 * median(r.concurrency for r in c.replays[mode]) / c.concurrency for c in many]
        diverged = sum(r.diverged for c in cells for r in c.replays[mode])
        paper = PAPER.get(mode)
        theirs = "—" if not paper else f"{paper[0]} %, {paper[1]} %, " + (f"{paper[2]} %" if paper[2] else "—")
        share = f"{sum(shares) / len(shares):.0f} %" if shares else "—"
        lines.append(f"| {mode} | {len(cells)} | {sum(errors) / len(errors):.1f} % | {worst_tenth(errors):.1f} % | "
                     f"{max(errors):.1f} % | {share} | {diverged} | {theirs} |")
    return lines


def details(cells, modes):
    lines = ["| workload | source | target | original, s | " + " | ".join(modes) + " |", "|---" * (4 + len(modes)) + "|"]
    for c in cells:
        original = f"{median(r.seconds for r in c.original):.2f} ± {spread(c.original):.0f} %"
        errors = (f"{error(c, m):+.1f} % (± {spread(c.replays[m]):.0f} %)" for m in modes)
        lines.append(f"| {c.workload} | {c.source} | {c.target} | {original} | " + " | ".join(errors) + " |")
    return lines


def document(cells, modes, options, seconds):
    memory = next(l for l in pathlib.Path("/proc/meminfo").read_text().splitlines() if l.startswith("MemTotal"))
    load = os.getloadavg()[1]
    head = [f"Machine: {platform.machine()}, {os.cpu_count()} processors, {int(memory.split()[1]) >> 20} GiB; Linux {platform.release()}; "
            f"{time.strftime('%Y-%m-%d')}; load over 5 minutes at the end {load:.1f}. `{options.shown}`: {len(cells)} cells, "
            f"{options.repeat} runs each in turn, {seconds / 60:.0f} minutes. Errors are those of medians; ± is half the range of the runs.", ""]
    by_kind = [("All", cells), ("Small workloads", [c for c in cells if c.workload not in STORE]), ("RocksDB", [c for c in cells if c.workload in STORE])]
    for title, part in by_kind:
        if part:
            head += [f"{title}:", "", *summary(part, modes), ""]
    return "\n".join(head + ["Every cell:", "", *details(cells, modes)])


STORE = {"readrandom", "fillsync"}


def place(path, text):
    """Between the marks of the document."""
    old = path.read_text()
    before, rest = old.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    path.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")
