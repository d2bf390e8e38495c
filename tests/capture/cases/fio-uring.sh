#!/bin/bash
# fio with io_uring, 16 requests in flight.
. "$(dirname "$0")/../../workloads/lib.sh"
engine=(--ioengine=io_uring --iodepth=16)
. "$(dirname "$0")/../fio.sh"
dispatch "$@"
