#!/bin/bash
# fio with io_uring whose requests a thread of the kernel takes.
. "$(dirname "$0")/../../workloads/lib.sh"
engine=(--ioengine=io_uring --iodepth=16 --sqthread_poll --registerfiles)
. "$(dirname "$0")/../fio.sh"
dispatch "$@"
