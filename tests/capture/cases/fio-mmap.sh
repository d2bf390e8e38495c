#!/bin/bash
# fio that reads and writes through a mapping.
. "$(dirname "$0")/../../workloads/lib.sh"
engine=(--ioengine=mmap)
. "$(dirname "$0")/../fio.sh"
dispatch "$@"
