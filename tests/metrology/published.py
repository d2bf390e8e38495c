"""What Pereira, Brasileiro and Sampaio published: "File System Trace Replay Methods Through the Lens of Metrology", tables III to VII.

Expanded uncertainties for k = 2 in per cent, by workload, instrument and level (1 to 4). Table II is left out: in its rows of the
compiled replayer it repeats the uncertainties of table V.
"""

WORKLOADS = ("random-read", "random-write", "sequential-read", "sequential-write")

#: Table III: coefficients of variation, no pause, in per cent.
VARIATION = {
    "random-read": {"event root": (0.2, 0.7, 0.3, 0.4), "event temporal": (0.3, 0.6, 0.6, 0.4), "ARTC root": (0.1, 0.2, 0.2, 0.4), "ARTC temporal": (0.1, 0.2, 0.3, 0.5)},
    "random-write": {"event root": (0.2, 1.3, 0.5, 1.4), "event temporal": (0.5, 1.3, 0.5, 1.5), "ARTC root": (0.1, 1.5, 0.4, 0.6), "ARTC temporal": (0.1, 0.8, 0.4, 0.7)},
    "sequential-read": {"event root": (0.9, 9.6, 3.1, 6.7), "event temporal": (0.9, 4.5, 5.1, 1.6), "ARTC root": (0.3, 0.4, 0.4, 0.2), "ARTC temporal": (0.6, 0.2, 0.2, 0.3)},
    "sequential-write": {"event root": (0.2, 0.8, 0.4, 0.5), "event temporal": (0.2, 0.4, 0.4, 0.4), "ARTC root": (0.1, 0.1, 0.1, 0.1), "ARTC temporal": (0.1, 0.6, 0.1, 0.1)},
}  # fmt: skip

#: Table IV: relative bias, no pause, in per cent, without its sign.
BIAS = {
    "random-read": {"event root": (1.1, 1.6, 2.2, 2.3), "event temporal": (1.1, 1.8, 2.1, 2.5), "ARTC root": (0.1, 0.0, 0.3, 0.6), "ARTC temporal": (0.1, 0.0, 0.3, 0.6)},
    "random-write": {"event root": (1.0, 17.9, 14.9, 9.2), "event temporal": (1.3, 17.4, 14.7, 9.0), "ARTC root": (0.1, 0.0, 0.3, 0.6), "ARTC temporal": (0.6, 1.8, 1.8, 1.2)},
    "sequential-read": {"event root": (108.1, 115.8, 107.2, 126.1), "event temporal": (109.0, 117.4, 125.1, 114.7), "ARTC root": (1.8, 3.9, 0.9, 7.5), "ARTC temporal": (2.7, 5.2, 2.0, 8.8)},
    "sequential-write": {"event root": (3.6, 1.7, 1.4, 2.0), "event temporal": (3.5, 1.5, 1.5, 1.5), "ARTC root": (0.2, 0.1, 0.2, 0.2), "ARTC temporal": (0.2, 0.5, 0.1, 0.0)},
}  # fmt: skip

#: Table V: no pause. The event-based replayer after its improvements.
NO_PAUSE = {
    "random-read": {"event root": (2.0, 1.9, 2.2, 2.4), "event temporal": (1.8, 1.7, 2.9, 2.7), "ARTC root": (1.2, 1.5, 1.6, 1.8), "ARTC temporal": (1.2, 2.6, 2.0, 3.3)},
    "random-write": {"event root": (0.9, 10.9, 9.4, 3.2), "event temporal": (3.4, 8.6, 5.4, 4.3), "ARTC root": (1.4, 6.0, 3.8, 4.1), "ARTC temporal": (1.4, 9.1, 4.7, 4.0)},
    "sequential-read": {"event root": (24.9, 23.2, 17.5, 32.9), "event temporal": (24.7, 22.8, 17.4, 32.4), "ARTC root": (7.5, 12.7, 11.0, 18.6), "ARTC temporal": (8.2, 14.4, 11.5, 20.7)},
    "sequential-write": {"event root": (1.6, 0.6, 1.2, 1.3), "event temporal": (1.4, 1.6, 0.6, 0.6), "ARTC root": (0.9, 0.7, 0.5, 0.6), "ARTC temporal": (0.9, 1.3, 0.3, 0.7)},
}  # fmt: skip

#: Table VI: pauses of 10 and 50 microseconds, the event-based replayer keeping time stamps.
PAUSES = {
    10: {
        "random-read": {"event root": (1.4, 2.3, 4.5, 4.2), "event temporal": (1.5, 2.4, 4.4, 4.0)},
        "random-write": {"event root": (5.2, 10.4, 14.1, 11.1), "event temporal": (7.8, 14.8, 15.6, 14.2)},
        "sequential-read": {"event root": (10.4, 18.7, 19.2, 20.6), "event temporal": (10.4, 19.0, 18.3, 20.8)},
        "sequential-write": {"event root": (2.3, 1.8, 1.7, 1.3), "event temporal": (2.2, 2.3, 1.6, 1.1)},
    },
    50: {
        "random-read": {"event root": (1.3, 4.9, 4.8, 7.2), "event temporal": (1.4, 4.6, 5.1, 7.7)},
        "random-write": {"event root": (10.5, 9.9, 16.9, 21.5), "event temporal": (10.0, 12.8, 22.5, 21.8)},
        "sequential-read": {"event root": (28.3, 7.9, 13.7, 25.9), "event temporal": (28.3, 7.9, 15.3, 27.5)},
        "sequential-write": {"event root": (2.0, 1.8, 1.2, 1.1), "event temporal": (1.7, 2.6, 1.5, 1.6)},
    },
}

#: Table VII: the file server, root.
FILESERVER = {"read": {"event root": 118.27, "ARTC root": 92.72}, "write": {"event root": 79.81, "ARTC root": 33.79}}

#: What Reprise is to stay below, k = 2, in per cent.
GOALS = {
    ("random-read", 0): 2.0,
    ("random-write", 0): 4.0,
    ("sequential-read", 0): 8.0,
    ("sequential-write", 0): 1.5,
    ("fileserver", "read"): 20.0,
    ("fileserver", "write"): 15.0,
}
GOAL_WITH_PAUSE = 10.0


def uncertainties(workload, pause_us):
    """Of the published instruments: name, and per cent by level (of the file server: by call)."""
    table = NO_PAUSE if pause_us == 0 else PAUSES.get(pause_us, {})
    return table.get(workload, {})


def goal(workload, pause_us, call):
    if workload == "fileserver":
        return GOALS.get((workload, call))
    return GOAL_WITH_PAUSE if pause_us else GOALS.get((workload, 0))
