#!/bin/bash
# RocksDB's db_bench: 8 threads fill a database, then 8 threads read it, at
# random; small buffers, so that flushes and compactions run beside them.
. "$(dirname "$0")/../../workloads/lib.sh"

prepare() { wants db_bench; }

run() {
    db_bench --db="$W/db" --wal_dir="$W/db" --benchmarks=fillrandom,readrandom --threads=8 --num=8000 --reads=6000 \
        --value_size=400 --compression_type=none --write_buffer_size=1048576 --target_file_size_base=1048576 \
        --cache_size=65536 --max_background_jobs=4 --open_files=100 --stats_interval=0 --histogram=0 >report.out 2>&1
}

finish() { [ -s report.out ] && [ -s db/CURRENT ]; }

dispatch "$@"
