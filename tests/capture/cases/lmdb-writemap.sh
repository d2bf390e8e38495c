#!/bin/bash
# LMDB writes through its mapping, too, and calls msync.
. "$(dirname "$0")/../../workloads/lib.sh"
way=(writemap)
. "$(dirname "$0")/../lmdb.sh"
dispatch "$@"
