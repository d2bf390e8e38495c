# For the PostgreSQL cases. The server refuses to run as root: as root its
# programs are run by setpriv as the user postgres (or nobody), the owner of W.
bin=
for candidate in /usr/lib/postgresql/*/bin; do
    [ ! -x "$candidate/initdb" ] || bin=$candidate
done

pg_user=
if [ "$(id -u)" = 0 ]; then
    for candidate in postgres nobody; do
        if id "$candidate" >/dev/null 2>&1; then pg_user=$candidate; break; fi
    done
fi

as_pg() {
    if [ -n "$pg_user" ]; then
        setpriv --reuid="$(id -u "$pg_user")" --regid="$(id -g "$pg_user")" --clear-groups -- "$@"
    else
        "$@"
    fi
}

prepare() {
    [ -n "$bin" ] || skip "PostgreSQL is not installed (Debian: postgresql)"
    if [ "$(id -u)" = 0 ]; then
        wants setpriv
        [ -n "$pg_user" ] || skip "neither a user postgres nor nobody"
        chown -R "$pg_user" .
        as_pg test -w "$W" || skip "$pg_user cannot reach $W (a directory above it is closed)"
    fi
}

init() {
    as_pg "$bin/initdb" -D "$W/data" -U postgres -A trust -E UTF8 --locale=C --data-checksums
}

finish() { # refuses a cluster that was not shut down cleanly
    as_pg "$bin/pg_checksums" --check -D "$W/data"
}
