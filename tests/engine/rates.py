"""The figures of `bench-replay` as a table."""

import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "capture"))

from table import spread  # noqa: E402

BEGIN, END = "<!-- bench-replay begin -->", "<!-- bench-replay end -->"


def verdict(way, ratio):
    if way.bar is None:
        return ""
    return f" {'met' if ratio >= way.bar else 'missed'} (≥ {way.bar:g})"


def by_peer(line, way):
    """Beside the peer's rate, which ours is to reach."""
    ratios = line.by_peer(way)
    if not ratios:
        return ""
    return f"{spread(ratios)} {'met' if statistics.median(ratios) >= 1 else 'missed'} (≥ 1)"


def table(lines):
    out = ["| original | file system | seconds | replay | rate, original = 1 | the leanest loop in C in its place | thousand calls/s | calls/s, fio's = 1 |",
           "|---|---|---|---|---|---|---|---|"]
    for file_system, line in lines:
        for way in line.ways:
            ratios = line.ratios(way)
            ratio = f"{spread(ratios)}{verdict(way, statistics.median(ratios))}"
            least = spread(line.least_ratios(way)) if way.least else ""
            rate = f"{statistics.median(line.rates(way.name)) / 1000:,.0f}"
            out.append(f"| {line.name} | {file_system} | {spread(line.original)} | {way.name} | {ratio} | {least} | {rate} | {by_peer(line, way)} |")
    notes = sorted({f"- {line.name}, {file_system}: {note}" for file_system, line in lines for note in line.notes})
    return "\n".join(out + ([""] + notes if notes else []))


def of_figures(figures):
    out = ["| figure | median [least–most] | bar |", "|---|---|---|"]
    out += [f"| {figure.name}, {figure.unit} | {spread(figure.values)} | {figure.verdict()} |" for figure in figures]
    return "\n".join(out)


def place(path, text):
    """Between the marks of a document."""
    before, rest = path.read_text().split(BEGIN, 1)
    path.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.split(END, 1)[1]}")
