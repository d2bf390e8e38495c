"""Runs: a workload under a tool, from a state made for it to a check of what it did; all tools in turn.

Every round runs each tool once, in an order drawn anew, so that what else the machine does falls on all of them; a ratio is
that of a run to the untraced one of the same round. Non-goals: what the figures mean (`table`).
"""

import os
import pathlib
import random
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field

import machine
from tools import UNTRACED, Losses, Reprise
from machine import Unable


@dataclass
class Run:
    """One run. Times in seconds."""

    workload: str
    tool: str
    round: int
    scale: float
    #: timed phases only
    phases: dict = field(default_factory=dict)
    #: until the tool had ended too: its trace is complete
    whole_seconds: float = 0.0
    cpu_seconds: float = 0.0
    quiet_share: float = 1.0
    output_bytes: int = 0
    #: the recorder's, for Reprise only
    memory_bytes: int = 0
    losses: Losses = field(default_factory=Losses)
    failure: str | None = None

    def seconds(self):
        return sum(self.phases.values())


class Trials:
    """Where runs happen, and with what."""

    def __init__(self, work, traces, binary, options):
        self.work, self.traces, self.binary, self.options = work, traces, binary, options
        self.programs = machine.build(work / "programs")
        self.pristine = work / "pristine"
        self.expected = {}

    def run(self, workload, tools):
        """All rounds of a workload; the runs, also those that failed."""
        runs, failed = [], {}
        for number in range(self.options.repeat):
            for tool, scale in self._turns(workload, tools, number, failed):
                run = self._one(workload, tool, scale, number)
                runs.append(run)
                note(self._line(run))
                if run.failure:
                    failed[tool.name, scale] = run.failure
        return runs

    def _turns(self, workload, tools, number, failed):
        """Tools of this round with the scale of their work; each scale has an untraced run of its own."""
        turns = []
        for tool in tools:
            if tool.slow and number >= self.options.slow_repeat:
                continue
            turns.append((tool, self.scale(workload, tool)))
        untraced = next(t for t in tools if t.name == UNTRACED)
        turns += [(untraced, scale) for scale in sorted({s for _, s in turns} - {self.scale(workload, untraced)})]
        turns = [turn for turn in turns if (turn[0].name, turn[1]) not in failed]
        random.shuffle(turns)
        return turns

    def scale(self, workload, tool):
        return self.options.scale * (workload.slow_scale if tool.slow else 1.0)

    def _one(self, workload, tool, scale, number):
        run = Run(workload.name, tool.name, number, scale)
        directory, out, said = self.work / "run", self.traces / "trace", self.work / "said"
        for place in (directory, said):
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
        remove(out)
        try:
            workload.prepare(directory, self.pristine, scale)
            os.sync()
            machine.wait_for_quiet(self.options.quiet, self.options.patience)
            self._execute(run, workload, tool, directory, out, said / "report")
        except Unable as unable:
            run.failure = str(unable)
        finally:
            remove(out)
            shutil.rmtree(directory, ignore_errors=True)
        return run

    def _execute(self, run, workload, tool, directory, out, report):
        phases = workload.phases(directory, run.scale)
        command = [*tool.command(out), str(self.programs / "phases"), str(report)]
        for phase in phases:
            command += [phase.name, *phase.command, ";;"]
        err = self._timed(run, command, directory, isinstance(tool, Reprise))
        texts = {phase.name: pathlib.Path(f"{report}.{phase.name}").read_text(errors="replace") for phase in phases}
        clocks = {line.split()[0]: int(line.split()[1]) / 1e9 for line in report.read_text().splitlines()}
        for phase in phases:
            if phase.timed:
                run.phases[phase.name] = workload.seconds(directory, phase.name, texts[phase.name], clocks[phase.name])
        self._check(run, workload.done(directory, texts, run.scale))
        run.output_bytes = tool.output_bytes(out)
        run.losses = tool.losses(out, err)
        for name, least in workload.calls(run.scale).items() if tool.keeps else ():
            run.losses.missing += max(0, least - tool.calls(out, name))

    def _timed(self, run, command, directory, is_reprise):
        """Runs it to the end; what it said on standard error."""
        with open(self.work / "said/err", "w+", errors="replace") as err, machine.Meter() as meter:
            begin = time.monotonic()
            code, run.memory_bytes = machine.run(command, self.options.limit, self.binary if is_reprise else None, cwd=directory,
                                                 stdout=subprocess.DEVNULL, stderr=err)
            run.whole_seconds = time.monotonic() - begin
            machine.reap_orphans(30)
            err.seek(0)
            said = err.read()
        run.cpu_seconds, run.quiet_share = meter.cpu_seconds, meter.quiet_share
        if code != 0:
            raise Unable(f"ended with {code}: {' '.join(said.split())[-400:]}")
        return said

    def _check(self, run, done):
        """That this run did what the first one of this scale did."""
        expected = self.expected.setdefault((run.workload, run.scale), done)
        if done != expected:
            raise Unable(f"did other work than the first run: {done}, and not {expected}")

    def _line(self, run):
        if run.failure:
            return f"{run.workload:12} {run.tool:16} round {run.round + 1}: failed: {run.failure}"
        times = ", ".join(f"{name} {seconds:.3f}" for name, seconds in run.phases.items())
        return f"{run.workload:12} {run.tool:16} round {run.round + 1}: {times} s; quiet {run.quiet_share:.0%}; lost {run.losses.text()}"


def remove(path):
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def note(text):
    print(text, file=sys.stderr, flush=True)
