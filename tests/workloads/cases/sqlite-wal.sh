#!/bin/bash
# Two sqlite3 processes writing one database at a time, with a write-ahead log.
. "$(dirname "$0")/../lib.sh"
journal_mode=wal
. "$(dirname "$0")/../sqlite.sh"
dispatch "$@"
