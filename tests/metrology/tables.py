"""What `reprise validate` found, in tables like those of the published study, its figures beside."""

import published

#: What an origin of uncertainty is called.
ORIGINS = {"clock": "clock", "recorder": "reading the clock", "engine": "engine", "scheduler": "scheduler", "cache_state": "cache state", "device": "device", "rest": "not explained"}
#: What a part's files are on, or like.
WHERE = {**dict.fromkeys(("device", "device-reads", "device-pauses"), ", from a device"), "small": ", small files"}
MARKS = """`!`: a significant bias; `F!`: scatters more than the program (F-test, 5 %). Of U: `✗` beyond the goal with one of these; `°` beyond the
goal with neither: what is beyond it is not told from the scatter of the program's own runs. *floor*: U of the references, each against the next one."""


def tables(parts, statistic):
    """All of them as Markdown. Parts are outputs of `validate --json`."""
    rows = Rows(parts, statistic)
    said = [f"Results of runs: {statistic} response times, in per cent of the reference's. {MARKS}", ""]
    for title, quantity, of_study, is_wanted in TABLES:
        said += rows.table(title, quantity, of_study, is_wanted)
    said += rows.file_server() + rows.trends(parts, statistic) + rows.missed()
    return "\n".join([*said, disturbed(parts), *changed(parts)])


class Rows:
    """Findings by what was run, instrument and level."""

    def __init__(self, parts, statistic):
        self.is_mean = statistic == "mean"
        self.found, self.levels = {}, set()
        for part in parts:
            where = WHERE.get(part.get("part"), "")
            for finding in part["findings"]:
                if finding["statistic"] == statistic and finding["uncertainty"]:
                    setting = finding["setting"]
                    place = (setting["workload"], setting["pause_us"], setting["memory_bytes"], finding["call"], where)
                    self.found.setdefault(place, {}).setdefault(finding["instrument"], {})[setting["level"]] = finding
                    self.levels |= {setting["level"]} if setting["workload"] in published.WORKLOADS else set()

    def table(self, title, quantity, of_study, is_wanted):
        """One row for each instrument, one column for each level."""
        places = sorted((place for place in self.found if place[0] in published.WORKLOADS and is_wanted(place)), key=lambda place: published.WORKLOADS.index(place[0]))
        if not places:
            return []
        levels = sorted(self.levels)
        lines = [f"**{title}**", "", "| program | goal | by | " + " | ".join(f"{n} thread{'s' * (n > 1)}" for n in levels) + " |", "|---" * (3 + len(levels)) + "|"]
        for place in places:
            name = named(place)
            goal = self.goal(place) if quantity is expanded else None
            given = [(instrument, {level: quantity(finding, goal) for level, finding in of.items()}) for instrument, of in self.found[place].items()]
            first = next(iter(self.found[place].values()))
            given[:0] = [(whose, {level: of(finding) for level, finding in first.items()}) for whose, of in BESIDE.get(quantity, {}).items()]
            given += [(f"*published: {whose}*", dict(enumerate(map("{:.1f}".format, values), 1))) for whose, values in of_study(place).items()]
            for whose, cells in given:
                lines.append("| " + " | ".join([name, f"≤ {goal:g}" if goal else "", whose, *(cells.get(level, "–") for level in levels)]) + " |")
                name = goal = ""
        return [*lines, ""]

    def goal(self, place):
        """Goals and published figures are about means."""
        return published.goal(place[0], place[1], place[3]) if self.is_mean else None

    def file_server(self):
        """Table VII, and the same with little memory."""
        places = [place for place in self.found if place[0] not in published.WORKLOADS]
        if not places:
            return []
        lines = ["**VII. The file server**", "", "| program | call | goal | by | reference | measured | bias | U (k = 2) | floor |", "|---" * 9 + "|"]
        for place in places:
            call, name, goal = place[3], named(place), self.goal(place)
            for instrument, of_levels in self.found[place].items():
                for finding in of_levels.values():
                    u = finding["uncertainty"]
                    times = [f"{u[key] / 1e3:.2f} µs" for key in ("reference", "mean")]
                    cells = [name, call, f"≤ {goal:g}" if goal else "–", instrument, *times, bias(finding), expanded(finding, goal), floor(finding)]
                    lines.append("| " + " | ".join(cells) + " |")
            for whose, value in published.FILESERVER.get(call, {}).items():
                lines.append(f"| | {call} | | *published: {whose}* | | | | {value:g} | |")
        return [*lines, ""]

    def trends(self, parts, statistic):
        """Linearity over the levels."""
        told = []
        lines = ((part.get("part"), line) for part in parts for line in part["linearity"] if line["statistic"] == statistic)
        for part, line in lines:
            for what in ("precision", "bias"):
                if line[what] and line[what]["is_significant"]:
                    told.append(f"{line['workload']}, {line['pause_us']} µs{WHERE.get(part, '')}, {line['instrument']}: {what} {100 * line[what]['slope']:+.1f} % for each thread more")
        several = len(self.levels) > 2
        if not several:
            return []
        return ["**Linearity**: trends with the number of threads (5 %): " + ("; ".join(told) or "none") + ".", ""]

    def missed(self):
        """What is beyond its goal and ours, with what it comes from mostly."""
        lines = []
        for place, instruments in self.found.items():
            for instrument, of_levels in instruments.items():
                for level, finding in of_levels.items():
                    goal = self.goal(place)
                    if goal and expanded(finding, goal).endswith("✗"):
                        cells = [named(place), place[3], instrument, level, bias(finding), expanded(finding), floor(finding), origins(finding)]
                        lines.append("| " + " | ".join(map(str, cells)) + " |")
        if not lines:
            return []
        head = ["**Beyond the goal, and ours**", "", "| program | call | by | threads | bias | U (k = 2) | floor | mostly from (shares of u_c²; upper limits) |", "|---" * 8 + "|"]
        return [*head, *lines, ""]


def named(place):
    """What was run, in words."""
    workload, pause_us, memory_bytes, _, where = place
    return workload + (f", {pause_us} µs" if pause_us else "") + (f", {memory_bytes >> 20} MiB of memory" if memory_bytes else "") + where


def number(value):
    return "–" if value is None else f"{100 * value:.1f}"


def scatters(finding):
    ratio = finding["precision"] and finding["precision"]["ratio"]
    return bool(ratio and ratio["is_greater"])


def is_biased(finding):
    return bool(finding["bias"] and finding["bias"]["is_significant"])


def f_ratio(finding, _goal=None):
    ratio = finding["precision"] and finding["precision"]["ratio"]
    return f"{ratio['f']:.1f}{' F!' * ratio['is_greater']}" if ratio else "–"


def variation(finding, _goal=None):
    return number(finding["precision"]["measured"]["cv"])


def bias(finding, _goal=None):
    return number(finding["bias"] and finding["bias"]["relative"]) + (" !" if is_biased(finding) else "")


def expanded(finding, goal=None):
    u = finding["uncertainty"]["expanded"][1]["relative"]
    beyond = goal is not None and 100 * u > goal
    return number(u) + ((" ✗" if is_biased(finding) or scatters(finding) else " °") if beyond else "")


def floor(finding):
    return number(finding["floor"] and finding["floor"]["expanded"][1]["relative"])


def of_reference(finding):
    return number(2 * next(part["u"] for part in finding["uncertainty"]["budget"] if part["component"] == "reference"))


def origins(finding):
    """The two greatest influences that are known."""
    known = [influence for influence in finding["influences"] if influence["u"]]
    return ", ".join(f"{ORIGINS[one['origin']]} {100 * one['share']:.0f} %" for one in known[:2]) or "–"


#: What of the reference stands beside an instrument's.
BESIDE = {
    variation: {"the program": lambda finding: number(finding["precision"]["reference"]["cv"])},
    expanded: {"2 u(Cref)": of_reference, "floor": floor},
}
TABLES = [
    ("II. Precision: variance of the replays by that of the references", f_ratio, lambda place: {}, lambda place: place[1] == 0),
    ("III. Coefficient of variation", variation, lambda place: published.VARIATION.get(place[0], {}), lambda place: place[1] == 0),
    ("IV. Bias (published without its sign)", bias, lambda place: published.BIAS.get(place[0], {}), lambda place: place[1] == 0),
    ("V. Expanded uncertainty, k = 2, no pause", expanded, lambda place: published.uncertainties(place[0], place[1]), lambda place: place[1] == 0),
    ("VI. Expanded uncertainty, k = 2, with pauses", expanded, lambda place: published.uncertainties(place[0], place[1]), lambda place: place[1] != 0),
]


def disturbed(parts):
    runs = [run for found in parts for _, of_setting in found["runs"] for run in of_setting]
    marked = [run for run in runs if run["disturbances"]]
    counts = {}
    for run in marked:
        for disturbance in run["disturbances"]:
            counts.setdefault(disturbance["measure"], []).append(disturbance["limit"])
    why = "; ".join(f"{len(limits)} by {measure.replace('_', ' ')} above {min(limits):.3g}" for measure, limits in sorted(counts.items()))
    return f"{len(runs)} runs, {len(marked)} of them disturbed (marked, and counted in){': ' + why if why else ''}."


def changed(parts):
    """Settings of the machine that were not the same for all runs."""
    runs = [run for found in parts for _, of_setting in found["runs"] for run in of_setting]
    all_of = {change for found in parts for change in found["changed_rules"]} | {change for run in runs for change in run["changed_rules"]}
    return [f"Not the same for all runs: {change}." for change in sorted(all_of)]
