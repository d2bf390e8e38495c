#!/bin/bash
# PostgreSQL from nothing: initdb, the server started, pgbench's tables made,
# 4 clients with 50 transactions each, a vacuum, and a shutdown.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../postgres.sh"

run() {
    init
    cat >>data/postgresql.conf <<CONFIG
listen_addresses = ''
unix_socket_directories = '$W'
fsync = on
shared_buffers = 16MB
max_wal_size = 128MB
CONFIG
    as_pg "$bin/pg_ctl" start -w -t 120 -D "$W/data" -l "$W/server.log"
    trap 'as_pg "$bin/pg_ctl" stop -w -t 120 -m immediate -D "$W/data"' EXIT
    as_pg "$bin/pgbench" -h "$W" -U postgres -i -s 1 -q postgres
    as_pg "$bin/pgbench" -h "$W" -U postgres -c 4 -j 2 -t 50 postgres
    as_pg "$bin/psql" -h "$W" -U postgres -c "select sum(abalance), count(*) from pgbench_accounts" postgres
    trap - EXIT
    as_pg "$bin/pg_ctl" stop -w -t 120 -m fast -D "$W/data"
}

dispatch "$@"
