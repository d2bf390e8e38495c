#!/bin/bash
# MariaDB from an empty directory to shutdown: a server, sysbench's tables, and
# 4 threads of its read and write transactions. Native asynchronous I/O is off.
. "$(dirname "$0")/../../workloads/lib.sh"

options=(
    --no-defaults --datadir="$PWD/data" --socket="$PWD/s" --pid-file="$PWD/pid" --skip-networking
    --innodb-use-native-aio=0 --innodb-buffer-pool-size=8M --innodb-log-file-size=8M --tmpdir="$PWD/tmp"
)

prepare() {
    wants mariadbd mariadb-install-db sysbench
    [ "$(id -u)" != 0 ] || options+=(--user=root)
    mariadb-install-db "${options[@]}" --auth-root-authentication-method=normal --skip-test-db >/dev/null
}

server() {
    [ "$(id -u)" != 0 ] || options+=(--user=root)
    mariadbd "${options[@]}" >server.log 2>&1 &
    until mariadb-admin --no-defaults --socket="$PWD/s" -u root ping >/dev/null 2>&1; do
        kill -0 $! || return 1
        sleep 0.2
    done
}

bench() {
    sysbench oltp_read_write --mysql-socket="$PWD/s" --mysql-user=root --mysql-db=sbtest --tables=2 --table-size=2000 \
        --threads=4 --time=0 --events=400 "$@"
}

run() {
    server
    mariadb --no-defaults --socket="$PWD/s" -u root -e "create database sbtest"
    bench prepare >sysbench.out
    bench run >>sysbench.out
    mariadb-admin --no-defaults --socket="$PWD/s" -u root shutdown
    wait
}

finish() { grep -q "Shutdown complete" server.log; }

dispatch "$@"
