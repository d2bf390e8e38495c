#!/bin/bash
# fio with io_uring: files and buffers registered, requests submitted in batches.
. "$(dirname "$0")/../../workloads/lib.sh"
engine=(--ioengine=io_uring --iodepth=16 --iodepth_batch=8 --registerfiles --fixedbufs)
. "$(dirname "$0")/../fio.sh"
dispatch "$@"
