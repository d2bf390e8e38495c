"""Processors of a virtual machine that stay awake while they have nothing to do.

One that halts is given away by the host, and comes back when the host pleases: a wake-up takes 20 µs or milliseconds. With the
governor `haltpoll` it looks for work for a while before it halts; for the time of a measurement that is longer than any wait of it.
"""

import contextlib
import pathlib

PARAMETERS = pathlib.Path("/sys/module/haltpoll/parameters")
POLL_NS = 5_000_000
#: In this order, so that the first wait is as long already.
WANTED = {"guest_halt_poll_allow_shrink": "N", "guest_halt_poll_grow_start": POLL_NS, "guest_halt_poll_ns": POLL_NS}


@contextlib.contextmanager
def processors():
    """Says whether they are kept awake: where that cannot be asked for, all is as it was."""
    before = {}
    try:
        for name, value in WANTED.items():
            with contextlib.suppress(OSError):
                was = (PARAMETERS / name).read_text()
                (PARAMETERS / name).write_text(str(value))
                before[name] = was
        yield len(before) == len(WANTED)
    finally:
        for name, was in reversed(before.items()):
            (PARAMETERS / name).write_text(was)
