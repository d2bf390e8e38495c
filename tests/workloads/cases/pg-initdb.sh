#!/bin/bash
# PostgreSQL: initdb makes a database cluster.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../postgres.sh"

run() { init; }

dispatch "$@"
