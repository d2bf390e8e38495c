#!/bin/bash
# PostgreSQL from initdb to shutdown: pgbench's tables made, 8 clients with 100
# transactions each.
. "$(dirname "$0")/../../workloads/lib.sh"
. "$(dirname "$0")/../../workloads/postgres.sh"

run() {
    init
    cat >>data/postgresql.conf <<CONFIG
listen_addresses = ''
unix_socket_directories = '$W'
fsync = on
shared_buffers = 4MB
max_wal_size = 64MB
CONFIG
    as_pg "$bin/pg_ctl" start -w -t 120 -D "$W/data" -l "$W/server.log"
    trap 'as_pg "$bin/pg_ctl" stop -w -t 120 -m immediate -D "$W/data"' EXIT
    as_pg "$bin/pgbench" -h "$W" -U postgres -i -s 2 -q postgres
    as_pg "$bin/pgbench" -h "$W" -U postgres -c 8 -j 2 -t 100 postgres
    trap - EXIT
    as_pg "$bin/pg_ctl" stop -w -t 120 -m fast -D "$W/data"
}

dispatch "$@"
