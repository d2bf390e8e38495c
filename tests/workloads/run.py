#!/usr/bin/env python3
"""The workload matrix: real programs, recorded once, replayed on file systems.

For each case of cases/: prepare its inputs; record it; copy the tree it left;
then on each file system (the one the program ran on, XFS, Btrfs) replay it
three times or more: into a fresh directory, into that directory again (which
restores it by difference), and at last into a fresh one. Each replay must
exit with 0, report no divergence, and leave a tree that compare.py finds the
same as the program's. One line `PASS|FAIL|SKIP case fs detail` for each, and
`workloads: N passed, N failed, N skipped` at the end.

XFS and Btrfs are made in sparse files and mounted by loop device, which takes
root; where it cannot be done the lines say SKIP and why.
"""

import argparse
import contextlib
import ctypes
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True
import compare  # noqa: E402

FILE_SYSTEMS = ("same", "xfs", "btrfs")
# How each file system's mkfs is told to be quiet and to take a plain file.
MKFS = {"ext4": ("-q", "-F"), "xfs": ("-q", "-f"), "btrfs": ("-q", "-f")}
IMAGE_SIZE = 3 << 30  # sparse
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SKIPPED = 77


class Failure(Exception):
    """A test line that fails: a short word, and lines that say more."""

    def __init__(self, word, more=()):
        super().__init__(word)
        self.more = list(more)


class Skip(Exception):
    pass


# ------------------------------------------------------------- running commands


def descendants():
    """Living processes below this one. With PR_SET_CHILD_SUBREAPER an orphan
    of a command is this one's child, too: a server left behind is seen."""
    children = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as stat:
                    fields = stat.read().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] not in "ZX":
                children.setdefault(int(fields[1]), []).append(int(entry))
    found, todo = [], [os.getpid()]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def end_descendants():
    """Ends what a command left behind; the names of what had to be ended."""
    names = []
    for patience in (2.0, 2.0):
        deadline = time.monotonic() + patience
        while descendants() and time.monotonic() < deadline:
            reap()
            time.sleep(0.02)
        for pid in descendants():
            try:
                with open(f"/proc/{pid}/comm") as comm:
                    names.append(f"{comm.read().strip()} ({pid})")
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
    reap()
    return names


class Result:
    def __init__(self, args, code, out, err, seconds, timed_out):
        self.args, self.code, self.out, self.err = args, code, out, err
        self.seconds, self.timed_out = seconds, timed_out

    def tail(self, lines=25):
        text = [line for part in (self.out, self.err) for line in part.splitlines()]
        return ["$ " + " ".join(self.args)] + text[-lines:]

    def verdict(self):
        return f"over {self.seconds:.0f} s" if self.timed_out else f"exit status {self.code}"


def call(args, timeout, cwd="/", env=None):
    """Runs a command, output to files: a daemon holding them makes no one wait."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        begin = time.monotonic()
        process = subprocess.Popen(
            args, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
            start_new_session=True,
        )
        timed_out = False
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            timed_out = True
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        seconds = time.monotonic() - begin
        if timed_out:
            end_descendants()

        def text(file):
            file.seek(0)
            return file.read().decode("utf-8", "backslashreplace")

        return Result(args, process.returncode, text(out), text(err), seconds, timed_out)


# ------------------------------------------------------------------ file systems


class FileSystems:
    def __init__(self, work):
        self.work, self.mounted, self.why_not = work, [], {}
        self.places = {}

    def place(self, name):
        """A directory on the file system; Skip when there cannot be one."""
        if name in self.why_not:
            raise Skip(self.why_not[name])
        if name not in self.places:
            try:
                self.places[name] = self.make(name)
            except Skip as why:
                self.why_not[name] = str(why)
                raise
        return self.places[name]

    def make(self, name):
        place = os.path.join(self.work, "fs-" + name)
        if name == "same":
            os.mkdir(place)
            return place
        if os.geteuid() != 0:
            raise Skip("mounting a loop device takes root")
        if not shutil.which("mkfs." + name):
            raise Skip(f"mkfs.{name} is not installed")
        image = os.path.join(self.work, name + ".image")
        with open(image, "wb") as out:
            out.truncate(IMAGE_SIZE)
        made = call(["mkfs." + name, *MKFS[name], image], 120)
        if made.code != 0:
            os.unlink(image)
            raise Skip(f"mkfs.{name} failed: {last_line(made)}")
        os.mkdir(place)
        mounted = call(["mount", "-t", name, "-o", "loop", image, place], 60)
        if mounted.code != 0:
            os.unlink(image)
            os.rmdir(place)
            raise Skip(f"cannot be mounted here: {last_line(mounted)}")
        self.mounted.append((place, image))
        return place

    def close(self):
        while self.mounted:
            place, image = self.mounted.pop()
            for attempt in range(20):
                if call(["umount", place], 60).code == 0:
                    break
                time.sleep(0.1)
            else:
                call(["umount", "-l", place], 60)
            if os.path.exists(image):
                os.unlink(image)


def last_line(result):
    lines = (result.err or result.out).strip().splitlines()
    return lines[-1] if lines else result.verdict()


def type_of(path):
    best, kind = "", "unknown"
    with open("/proc/self/mounts") as mounts:
        for line in mounts:
            fields = line.split()
            point = fields[1].rstrip("/") + "/"
            if (path + "/").startswith(point) and len(point) >= len(best):
                best, kind = point, fields[2]
    return kind


# ------------------------------------------------------------------------- cases


def number(value):
    """A count out of JSON, which may be a number, a list or an object."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, list):
        return len(value)
    if isinstance(value, dict):
        return sum(number(v) for v in value.values())
    return 0


def json_of(result):
    text = result.out.strip()
    try:
        return json.loads(text)
    except ValueError:
        pass
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            try:
                return json.loads(line)
            except ValueError:
                break
    raise Failure("no JSON object on its output", result.tail())


def size_of(path):
    if not os.path.isdir(path):
        return os.path.getsize(path) if os.path.exists(path) else 0
    return sum(
        os.path.getsize(os.path.join(top, name)) for top, _, names in os.walk(path) for name in names
    )


class Case:
    scripts = os.path.join(HERE, "cases")

    def __init__(self, name, options, work):
        self.name, self.options = name, options
        self.script = os.path.join(self.scripts, name + ".sh")
        self.top = os.path.join(work, name)
        self.w = os.path.join(self.top, "w")
        self.final = os.path.join(self.top, "final")
        self.trace = os.path.join(self.top, "trace.reprise")
        self.info, self.record_seconds = {}, None
        self.rows = {}

    def environment(self):
        return {
            "PATH": PATH, "HOME": self.w, "TMPDIR": os.path.join(self.w, "tmp"),
            "LANG": "C", "LC_ALL": "C", "TZ": "UTC", "USER": "user", "SHELL": "/bin/bash",
            "CASE_PYTHON": sys.executable,
        }

    def step(self, step, w, env=None):
        env = dict(self.environment(), **(env or {}))
        return call(["/bin/bash", self.script, step, w], self.options.timeout, cwd=w, env=env)

    def reprise(self, *args, cwd="/"):
        env = dict(self.environment(), RUST_BACKTRACE="1", TMPDIR=self.top)
        return call([self.options.reprise, *args], self.options.timeout, cwd=cwd, env=env)

    def record(self):
        os.makedirs(os.path.join(self.w, "tmp"))
        prepared = self.step("prepare", self.w)
        if prepared.code == SKIPPED:
            raise Skip(last_line(prepared))
        if prepared.code != 0:
            raise Failure(f"prepare: {prepared.verdict()}", prepared.tail())
        command = ["/bin/bash", self.script, "run", self.w]
        if not self.options.dry:
            backend = ["--backend", self.options.backend] if self.options.backend else []
            command = [
                self.options.reprise, "record", *backend, "-o", self.trace, "--tree", self.w, "--", *command,
            ]
        recorded = call(command, self.options.timeout, cwd=self.w, env=self.environment())
        left = end_descendants()
        if recorded.timed_out or recorded.code != 0:
            raise Failure(f"record: {recorded.verdict()}", recorded.tail())
        if left:
            raise Failure("record left processes behind: " + ", ".join(left), recorded.tail())
        self.record_seconds = recorded.seconds
        copied = call(["cp", "-a", self.w, self.final], self.options.timeout)
        if copied.code != 0:
            raise Failure("cp -a of the finished tree failed", copied.tail())
        if not self.options.dry:
            told = self.reprise("info", self.trace, "--json")
            if told.code != 0:
                raise Failure(f"info: {told.verdict()}", told.tail())
            self.info = json_of(told)
        self.finish(self.final, "the program's own tree")

    def recorded(self):
        """Records; what went wrong as a function that raises it, or None."""
        os.mkdir(self.top)
        try:
            self.record()
            return None
        except (Failure, Skip) as exception:
            outcome = exception
        except OSError as error:
            outcome = Failure(f"the matrix itself: {error}")

        def raising():
            raise outcome

        return raising

    def drop_trees(self):
        if not self.options.keep:
            for tree in (self.w, self.final):
                shutil.rmtree(tree, ignore_errors=True)

    def finish(self, w, which):
        # The scratch directory of the check itself is not below W.
        scratch = os.path.join(self.top, "scratch")
        os.makedirs(scratch, exist_ok=True)
        checked = self.step("finish", w, {"TMPDIR": scratch})
        if checked.code != 0:
            raise Failure(f"finish on {which}: {checked.verdict()}", checked.tail())

    def replay(self, target, *extra):
        if not self.options.dry:
            return self.reprise("replay", self.trace, "--target", target, "--json", *extra)
        copy = target + self.w
        shutil.rmtree(copy, ignore_errors=True)
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        result = call(["cp", "-a", self.final, copy], self.options.timeout)
        if self.options.damage:
            for top, directories, names in os.walk(copy):
                directories.sort()
                if names:
                    with open(os.path.join(top, sorted(names)[0]), "ab") as out:
                        out.write(b"!")
                    break
        result.out = '{"diverged": 0, "actions": 0, "threads": 0}'
        return result

    def replay_well(self, target, which, *extra):
        """One replay that must be faithful; what it said of itself."""
        result = self.replay(target, *extra)
        if result.timed_out or result.code not in (0, 1):
            raise Failure(f"{which}: {result.verdict()}", result.tail())
        said = json_of(result)
        said["wall"] = result.seconds
        diverged = number(said.get("diverged"))
        if result.code != 0 or diverged:
            raise Failure(
                f"{which}: {result.verdict()}, {diverged} diverged",
                self.about(said) if diverged else result.tail(40),
            )
        copy = target + self.w
        if not os.path.isdir(copy):
            raise Failure(f"{which}: {copy} is not there", result.tail())
        differences = compare.compare(self.final, copy)
        if differences:
            more = [f"  A {self.final}", f"  B {copy}"] + ["  " + d for d in differences[:25]]
            if len(differences) > 25:
                more.append(f"  and {len(differences) - 25} more")
            raise Failure(f"{which}: {len(differences)} differences in the tree", more)
        return said

    def about(self, said):
        """What diverged, what was going on around the first of it, and what the recorder said of its own work."""
        found = said.get("divergences", [])
        texts = [f"  action {d['origin']}, {d['call']} of thread {d['thread']}: {d['text']}" for d in found[:25]]
        texts.append(f"  the recording's ledger: {json.dumps(self.info.get('ledger'))}")
        lines = self.reprise("cat", self.trace).out.splitlines()
        for first in found[:1]:
            at, thread = number(first["origin"]), f"[T{first['thread']}]"
            own = [i for i in range(min(at, len(lines))) if thread in lines[i][:40]][-12:]
            shown = sorted({*own, *range(max(0, at - 12), min(at + 4, len(lines)))})
            texts += [f"  {i}: {lines[i][:180]}" for i in shown]
        return texts

    def clear(self, target):
        if not self.options.keep:
            shutil.rmtree(target, ignore_errors=True)

    def matrix_line(self, place, fs):
        """The replays on one file system: the detail of the line that passes."""
        said, target = [], os.path.join(place, self.name)
        runs = self.options.runs
        for repetition in range(1, runs + 1):
            fresh = repetition == 1 or (repetition == runs and runs > 1)
            if fresh:
                if repetition > 1:
                    self.clear(target)
                target = os.path.join(place, f"{self.name}.{repetition}")
                os.mkdir(target)
            which = f"replay {repetition} of {runs} ({'fresh' if fresh else 'restored'})"
            said.append(self.replay_well(target, which))
        self.finish(target + self.w, "the replayed tree")
        self.clear(target)
        row = self.rows[fs] = {
            "actions": number(said[0].get("actions", self.info.get("actions"))),
            "threads": number(said[0].get("threads", self.info.get("threads"))),
            "diverged": sum(number(s.get("diverged")) for s in said),
            "compile": statistics.median(number(s.get("compile_ns")) / 1e9 for s in said),
            "replay": statistics.median(
                number(s.get("replay_ns")) / 1e9 or s["wall"] for s in said
            ),
        }
        detail = f"{runs} replays, {row['actions']} actions, {row['threads']} threads, {row['replay']:.2f} s"
        for word in ("unavoidable", "unsupported", "skipped"):
            if number(said[0].get(word)):
                detail += f", {number(said[0][word])} {word}"
        return detail

    def order_line(self, place, order):
        """The case whose order matters, replayed in another order or none."""
        targets = []
        try:
            if order != "none":
                targets.append(os.path.join(place, f"{self.name}.{order}"))
                os.mkdir(targets[-1])
                said = self.replay_well(targets[-1], f"--order {order}", "--order", order)
                return f"{number(said.get('actions'))} actions, none diverged"
            if self.options.dry:
                raise Skip("a dry run has no order")
            tries = 5
            for attempt in range(1, tries + 1):
                targets.append(os.path.join(place, f"{self.name}.none.{attempt}"))
                os.mkdir(targets[-1])
                result = self.replay(targets[-1], "--order", "none")
                if result.timed_out or result.code not in (0, 1):
                    raise Failure(f"--order none: {result.verdict()}", result.tail())
                said = json_of(result)
                diverged = number(said.get("diverged"))
                if (result.code == 1) != (diverged > 0):
                    raise Failure(
                        f"--order none: {result.verdict()} with {diverged} diverged", result.tail()
                    )
                if diverged:
                    return f"diverges as it must: {diverged} of {number(said.get('actions'))} actions, try {attempt}"
            raise Failure(f"--order none did not diverge in {tries} tries")
        finally:
            for target in targets:
                self.clear(target)


# ------------------------------------------------------------------------- table


def bytes_shown(count):
    if not count:
        return "–"
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1000


def bytes_moved(info):
    for key in ("bytes_moved", "bytes", "data_bytes"):
        if number(info.get(key)):
            return number(info[key])
    return sum(number(info.get(key)) for key in ("bytes_read", "bytes_written", "read_bytes", "written_bytes"))


def machine_line(work):
    model, memory = os.uname().machine, ""
    try:
        with open("/proc/cpuinfo") as cpuinfo:
            model = next(line.split(":", 1)[1].strip() for line in cpuinfo if line.startswith("model name"))
        with open("/proc/meminfo") as meminfo:
            memory = f", {int(meminfo.readline().split()[1]) / 2**20:.0f} GiB of memory"
    except (OSError, StopIteration):
        pass
    return (
        f"{model}, {len(os.sched_getaffinity(0))} processors{memory}; "
        f"Linux {os.uname().release}; {time.strftime('%Y-%m-%d')}. "
        f"The programs ran on {type_of(work)}."
    )


def table(path, cases, runs, work):
    def cell(case, word, form):
        values = [form.format(case.rows[fs][word]) if fs in case.rows else "–" for fs in FILE_SYSTEMS]
        return " / ".join(values)

    lines = [
        "# Workloads, replayed",
        "",
        "Written by `make docs-table` (tests/workloads/run.py --table); not edited by hand.",
        "",
        machine_line(work),
        "",
        f"Each program was recorded once and replayed {runs} times on each file system: the one it",
        "ran on, XFS and Btrfs (the last two on loop devices). Replay times are medians; a",
        "dash says that it was not run or did not pass there. After every replay the tree was",
        "compared with the program's own by `tests/workloads/compare.py`.",
        "",
        "| case | actions | threads | bytes moved | trace | recorded in | compiled in | replayed in (same / XFS / Btrfs) | diverged (same / XFS / Btrfs) |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for case in cases:
        if case.record_seconds is None:
            lines.append(f"| {case.name} | – | – | – | – | – | – | – | – |")
            continue
        row = next(iter(case.rows.values()), {})
        lines.append(
            f"| {case.name} "
            f"| {row.get('actions') or number(case.info.get('actions'))} "
            f"| {row.get('threads') or number(case.info.get('threads'))} "
            f"| {bytes_shown(bytes_moved(case.info))} "
            f"| {bytes_shown(size_of(case.trace))} "
            f"| {case.record_seconds:.2f} s "
            f"| {row.get('compile', 0):.3f} s "
            f"| {cell(case, 'replay', '{:.2f} s')} "
            f"| {cell(case, 'diverged', '{}')} |"
        )
    with open(path, "w") as out:
        out.write("\n".join(lines) + "\n")


# -------------------------------------------------------------------------- main


def parser_of(scripts, description, file_systems, runs, replays):
    """The arguments of every matrix of cases, and the cases that there are."""
    known = sorted(name[:-3] for name in os.listdir(scripts) if name.endswith(".sh"))
    target = os.environ.get("CARGO_TARGET_DIR") or os.path.join(ROOT, "target")
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--case", action="append", metavar="NAME", choices=known,
                        help="only this case; may be repeated (there are: %(choices)s)")
    parser.add_argument("--fs", default=",".join(file_systems), metavar="LIST",
                        help="file systems, separated by commas (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=runs, metavar="N",
                        help=f"{replays} (default: %(default)s)")
    parser.add_argument("--timeout", type=float, default=300, metavar="SECONDS",
                        help="for each command (default: %(default)s)")
    parser.add_argument("--keep", action="store_true",
                        help="keep traces and trees, but for those on loop devices")
    parser.add_argument("--reprise", default=os.path.join(target, "release", "reprise"), metavar="PATH",
                        help="the program (default: %(default)s)")
    parser.add_argument("--backend", default=os.environ.get("REPRISE_BACKEND"), metavar="NAME",
                        help="given to `reprise record` (default: REPRISE_BACKEND, or what it chooses itself)")
    parser.add_argument("--table", metavar="FILE", help="write the results as a Markdown table")
    return parser, known


def options_of(parser, known, file_systems):
    """The arguments, checked but for whether the program is there."""
    options = parser.parse_args()
    options.fs = [name for name in options.fs.split(",") if name]
    for name in options.fs:
        if name not in file_systems:
            parser.error(f"no such file system: {name} (there are: {', '.join(file_systems)})")
    if options.runs < 1:
        parser.error("--runs takes 1 or more")
    options.cases = options.case or known
    options.reprise = os.path.abspath(options.reprise)
    return options


def check_program(parser, options):
    if not os.access(options.reprise, os.X_OK):
        parser.error(f"{options.reprise} is not there; cargo build --release makes it")


def arguments(scripts=Case.scripts, description=__doc__):
    parser, known = parser_of(scripts, description, FILE_SYSTEMS, 3, "replays on each file system")
    parser.add_argument("--dry", action="store_true",
                        help="test the matrix itself: run the programs unrecorded, copy for replays")
    parser.add_argument("--damage", action="store_true",
                        help="with --dry: change a byte in each copy; every line must fail")
    options = options_of(parser, known, FILE_SYSTEMS)
    if not options.dry:
        check_program(parser, options)
    return options


class Lines:
    """The lines of the result, and their number by verdict."""

    def __init__(self):
        self.counts = {"PASS": 0, "FAIL": 0, "SKIP": 0}

    def line(self, name, make):
        """Prints what `make` amounts to: it returns the detail, or raises Skip or Failure."""
        try:
            verdict, detail, more = "PASS", make(), []
        except Skip as why:
            verdict, detail, more = "SKIP", str(why), []
        except Failure as failure:
            verdict, detail, more = "FAIL", str(failure), failure.more
            failure.more = []  # said once
        except (OSError, shutil.Error) as error:
            verdict, detail, more = "FAIL", f"the matrix itself: {error}", []
        self.counts[verdict] += 1
        print(f"{verdict} {name} {detail}", flush=True)
        for text in more:
            print(f"    {text}", flush=True)

    def total(self, word):
        return f"{word}: {self.counts['PASS']} passed, {self.counts['FAIL']} failed, {self.counts['SKIP']} skipped"


@contextlib.contextmanager
def workspace(keep):
    """A directory for everything, with its file systems; nothing is left of it but what is kept."""
    os.umask(0o022)
    os.environ["PATH"] = os.environ.get("PATH", "") + ":" + PATH
    ctypes.CDLL(None, use_errno=True).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    work = os.path.realpath(
        tempfile.mkdtemp(prefix="reprise-", dir=os.environ.get("TMPDIR") or "/var/tmp")
    )
    os.chmod(work, 0o755)  # PostgreSQL's user passes through
    file_systems = FileSystems(work)

    def terminated(signum, frame):
        sys.exit(128 + signum)

    for signum in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, terminated)
    try:
        yield work, file_systems
    finally:
        end_descendants()
        file_systems.close()
        if keep:
            print(f"kept: {work}", flush=True)
        else:
            shutil.rmtree(work, ignore_errors=True)


def main():
    options = arguments()
    with workspace(options.keep) as (work, file_systems):
        return matrix(options, work, file_systems)


def matrix(options, work, file_systems):
    lines, cases = Lines(), []
    for name in options.cases:
        case = Case(name, options, work)
        cases.append(case)
        fault = case.recorded()
        todo = [(fs, lambda fs=fs: case.matrix_line(file_systems.place(fs), fs)) for fs in options.fs]
        if name == "threads" and "same" in options.fs:
            for order in ("none", "single", "temporal"):
                todo.append(
                    (f"order-{order}", lambda order=order: case.order_line(file_systems.place("same"), order))
                )
        for fs, make in todo:
            lines.line(f"{name} {fs}", fault or make)
        case.drop_trees()
    if options.table:
        table(options.table, cases, options.runs, work)
    print(lines.total("workloads"), flush=True)
    return 1 if lines.counts["FAIL"] else 0


if __name__ == "__main__":
    sys.exit(main())
