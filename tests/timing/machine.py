"""The machine of the experiment: a simulated disk with a file system on it, and groups that limit cache and requests.

Goals: the same cold state before every run; nothing outside its own mount and groups is changed; all is undone at the
end. Non-goals: what runs there (`workloads`), what is compared (`experiment`).
"""

import contextlib
import os
import pathlib
import subprocess
import time
from dataclasses import dataclass

PROGRAMS = pathlib.Path(__file__).resolve().parent.parent / "programs"
DISK_BYTES = 2 << 30
GROUPS = pathlib.Path("/sys/fs/cgroup")


class Unable(Exception):
    """This machine lacks something that the experiment needs."""


@dataclass(frozen=True)
class Environment:
    """A storage system: file system, disk, and what is allowed of them."""

    name: str
    file_system: str
    disk: str
    cache_mib: int = 0
    iops: int = 0
    slice_ms: int = 0
    mount_options: str = "defaults"


def sh(*command, **options):
    options.setdefault("check", True)
    options.setdefault("stdout", subprocess.DEVNULL)
    try:
        return subprocess.run(command, **options)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Unable(f"{' '.join(command)}: {error}") from None


class Group:
    """A control group for memory and block requests: version 1, or 2 where that has the controllers."""

    def __init__(self, name, device):
        controllers = GROUPS / "cgroup.controllers"
        self.unified = controllers.exists() and {"memory", "io"} <= set(controllers.read_text().split())
        roots = [GROUPS] if self.unified else [GROUPS / "memory", GROUPS / "blkio"]
        self.places = [root / name for root in roots]
        self.device = device
        try:
            if self.unified:
                (GROUPS / "cgroup.subtree_control").write_text("+memory +io")
            for place in self.places:
                place.mkdir(exist_ok=True)
        except OSError as error:
            raise Unable(f"control groups: {error}") from None

    @property
    def entrances(self):
        return [str(place / "cgroup.procs") for place in self.places]

    def limits(self, environment):
        """Files and what to write into them so that the environment's limits hold."""
        memory = environment.cache_mib << 20
        iops = environment.iops
        if self.unified:
            limit = iops or "max"
            return [(self.places[0] / "memory.max", str(memory or "max")),
                    (self.places[0] / "io.max", f"{self.device} riops={limit} wiops={limit}")]
        return [(self.places[0] / "memory.limit_in_bytes", str(memory or -1)),
                (self.places[1] / "blkio.throttle.read_iops_device", f"{self.device} {iops}"),
                (self.places[1] / "blkio.throttle.write_iops_device", f"{self.device} {iops}")]

    def remove(self):
        for place in self.places:
            for _ in range(50):
                try:
                    place.rmdir()
                    break
                except OSError:
                    time.sleep(0.1)


class Machine:
    """A disk, formatted for one environment at a time."""

    def __init__(self, work, disk_bytes=DISK_BYTES):
        self.work, self.programs, self.disk_bytes = work, build(work / "programs"), disk_bytes
        self.mount = work / "mount"
        self.control = work / "disk"
        self.environment = None
        self.loop = None
        self.daemon = None
        self.group = None

    def __enter__(self):
        if os.geteuid() != 0:
            raise Unable("needs root: for mounts and control groups")
        for place in (self.mount, self.control):
            place.mkdir()
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self):
        command = [str(self.programs / "disk"), str(self.control), str(self.disk_bytes)]
        self.daemon = subprocess.Popen(command, start_new_session=True)
        for _ in range(100):
            if (self.control / "image").exists():
                break
            if self.daemon.poll() is not None:
                raise Unable("the simulated disk did not start (is there FUSE in the kernel?)")
            time.sleep(0.05)
        # Its delays are to be the model's, however busy the processors are.
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{self.daemon.pid}/task"):
                os.sched_setscheduler(int(task), os.SCHED_FIFO, os.sched_param(10))
        image = str(self.control / "image")
        made = sh("losetup", "--find", "--show", "--direct-io=on", image, stdout=subprocess.PIPE, text=True)
        self.loop = made.stdout.strip()
        self.queue = pathlib.Path("/sys/block") / pathlib.Path(self.loop).name / "queue"
        device = (self.queue.parent / "dev").read_text().strip()
        self._set("read_ahead_kb", "128")
        self._set("rotational", "1")
        self.group = Group("reprise-ordering", device)

    def _set(self, name, value):
        (self.queue / name).write_text(value)

    def __exit__(self, *_):
        self._umount()
        if self.group:
            self.group.remove()
        if self.loop:
            subprocess.run(["losetup", "-d", self.loop], check=False)
        for _ in range(50):
            if subprocess.run(["umount", str(self.control)], stderr=subprocess.DEVNULL, check=False).returncode == 0:
                break
            if self.daemon is None or self.daemon.poll() is not None:
                break
            time.sleep(0.1)
        if self.daemon:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.daemon.wait(5)

    def _umount(self):
        if os.path.ismount(self.mount):
            sh("umount", str(self.mount))

    def format(self, environment):
        """An empty file system for this environment, mounted, without limits."""
        self.ease()
        self._umount()
        force = "-F" if environment.file_system == "ext4" else "-f"
        sh(f"mkfs.{environment.file_system}", "-q", force, self.loop)
        sh("mount", "-o", environment.mount_options, self.loop, str(self.mount))
        self._set("scheduler", "bfq" if environment.slice_ms else "none")
        if environment.slice_ms:
            # A thread keeps the disk for a slice, and the scheduler waits for its next request even on a busy machine.
            chosen = {"low_latency": 0, "strict_guarantees": 1, "max_budget": 16384,
                      "timeout_sync": environment.slice_ms, "slice_idle": 20}
            for name, value in chosen.items():
                self._set(f"iosched/{name}", str(value))
        self.environment = environment

    def start_script(self, data, replayed=None):
        """A command after which nothing of the disk is cached but the way to the data, and the limits hold.

        In a replay's tree, `replayed`, files that are not of the data stand for what the original has on other devices,
        cached; and the replay, the shell's parent, becomes one of the group: its plan was made outside.
        """
        lines = ["set -e", "cd /", f"umount '{self.mount}'", f"mount '{self.loop}' '{self.mount}'"]
        if replayed:
            lines.append(f"find '{replayed}' -path '{data}' -prune -o -type f -print0 | xargs -0r cat >/dev/null")
            lines += [f"echo $PPID >'{entrance}'" for entrance in self.group.entrances]
        lines.append(f"ls -d '{data}/.' >/dev/null")
        lines += [f"echo '{value}' >'{file}'" for file, value in self.group.limits(self.environment)]
        lines.append(f"echo {self.environment.disk} >'{self.control}/model'")
        lines.append(f"cat '{self.queue.parent}/stat' >'{self.work}/stat'")
        script = self.work / "start.sh"
        script.write_text("\n".join(lines) + "\n")
        return f". '{script}'"

    def delay(self):
        """From now on requests take what they take on the environment's disk."""
        (self.control / "model").write_text(self.environment.disk)

    def requests(self):
        """Reads and writes that the disk got since the last start script, as the kernel counts them."""
        then, now = ([int(field) for field in place.read_text().split()] for place in (self.work / "stat", self.queue.parent / "stat"))
        return now[0] - then[0], now[4] - then[4]

    def ease(self):
        """No delays, no limits: for preparations."""
        (self.control / "model").write_text("off")
        for file, value in self.group.limits(Environment("", "", "off")):
            with contextlib.suppress(OSError):
                file.write_text(value)

    def inside(self, *command, time=None):
        """The command, to be run in the group; its time in nanoseconds goes into the file `time`."""
        timed = ["-t", str(time)] if time else []
        return [str(self.programs / "enter"), *timed, *self.group.entrances, "--", *command]


def build(directory):
    """Compiles the programs."""
    directory.mkdir()
    for name, options in (("disk", ["-lm"]), ("readers", ["-static"]), ("enter", ["-static"])):
        sh(os.environ.get("CC", "cc"), "-O2", "-pthread", str(PROGRAMS / f"{name}.c"), "-o", str(directory / name), *options)
    return directory
