"""The device of the part `device`: a file system whose reads and writes wait for a device, as those of the published study did.

Its random programs had files of 10 GB and 2 GB of memory: each request waited for the disk, and an error of a microsecond was
nothing beside it. Here a simulated device (`tests/programs/disk.c`) answers after 1 ms, always: what scatters is not the device.
The mount is synchronous, so that each write waits for the device, too. Left to write-back, writes would wait for what the kernel
thinks of the device's speed, in pauses of many milliseconds.
"""

import contextlib
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "timing"))

from machine import Environment, Machine, Unable  # noqa: E402, F401

DISK_BYTES = 4 << 30
STORAGE = Environment("device", "ext4", "steady", mount_options="sync")
#: Where traces and logs go: they must not wait for anything.
SCRATCH = pathlib.Path("/dev/shm")


@contextlib.contextmanager
def directory():
    """A directory on such a file system; `Unable` where this machine cannot have one."""
    if not os.path.ismount(SCRATCH):
        raise Unable(f"{SCRATCH} is not in memory")
    with tempfile.TemporaryDirectory(prefix="reprise-device.") as work, Machine(pathlib.Path(work), DISK_BYTES) as machine:
        machine.format(STORAGE)
        machine.delay()
        yield machine.mount
