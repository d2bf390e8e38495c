#!/bin/bash
# fio with Linux AIO on a file without the page cache, 16 requests in flight.
. "$(dirname "$0")/../../workloads/lib.sh"
engine=(--ioengine=libaio --iodepth=16 --direct=1)
. "$(dirname "$0")/../fio.sh"
dispatch "$@"
