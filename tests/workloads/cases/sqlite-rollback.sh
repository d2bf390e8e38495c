#!/bin/bash
# Two sqlite3 processes writing one database at a time, with a rollback journal.
. "$(dirname "$0")/../lib.sh"
journal_mode=delete
. "$(dirname "$0")/../sqlite.sh"
dispatch "$@"
