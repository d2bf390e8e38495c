#!/usr/bin/env python3
"""Opens a trace with pandas, polars and DuckDB as docs/SQL.md says, and checks that all that are there agree.

Usage: open_trace.py TRACE. Exit code 77: none of them is installed.
"""
import sys

trace = sys.argv[1]
found = {}

try:
    # docs/SQL.md: pandas
    import pandas
    actions = pandas.read_parquet(f"{trace}/actions")
    slow = actions.sort_values("duration_ns", ascending=False)
    found["pandas"] = (len(actions), int(actions.duration_ns.sum()), slow.call.iloc[0])
except ImportError:
    pass

try:
    # docs/SQL.md: polars
    import polars
    actions = polars.read_parquet(f"{trace}/actions/*.parquet")
    slow = actions.sort("duration_ns", descending=True)
    found["polars"] = (len(actions), int(actions["duration_ns"].sum()), slow["call"][0])
except ImportError:
    pass

try:
    # docs/SQL.md: DuckDB
    import duckdb
    actions = duckdb.sql(f"SELECT * FROM '{trace}/actions/*.parquet'")
    found["duckdb"] = duckdb.sql(
        "SELECT count(*), sum(duration_ns)::BIGINT, arg_max(call, duration_ns) FROM actions").fetchall()[0]
except ImportError:
    pass

if not found:
    print("none of pandas, polars and duckdb is installed")
    sys.exit(77)
for name, answer in found.items():
    print(name, *answer)
# By hand: 21 actions, 12.401 ms in all, of which the second fsync took 9 ms.
expected = (21, 12_401_000, "fsync")
sys.exit(0 if all(tuple(answer) == expected for answer in found.values()) else 1)
