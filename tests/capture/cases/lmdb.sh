#!/bin/bash
# LMDB writes by calls and reads through its mapping.
. "$(dirname "$0")/../../workloads/lib.sh"
way=()
. "$(dirname "$0")/../lmdb.sh"
dispatch "$@"
