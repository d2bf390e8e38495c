# The two SQLite cases: two sqlite3 processes at work on one database at the
# same time, each with several hundred transactions, and reads in between.
# `journal_mode` is the case's.
transactions=${CASE_TRANSACTIONS:-300}

script() { # script NAME SEED: one process's statements
    local name=$1 i seed=$2
    echo ".timeout 60000"
    echo "PRAGMA synchronous=FULL;"
    for ((i = 1; i <= transactions; i++)); do
        seed=$(((seed * 1103515245 + 12345) % 2147483648))
        echo "BEGIN IMMEDIATE;"
        echo "INSERT INTO item(writer,n,body) VALUES('$name',$i,printf('%.*c',$((seed % 700 + 20)),'$name'));"
        echo "UPDATE account SET balance=balance-1 WHERE id=$((seed % 50 + 1));"
        echo "UPDATE account SET balance=balance+1 WHERE id=$((seed / 64 % 50 + 1));"
        case $((i % 10)) in
            3) echo "DELETE FROM item WHERE writer='$name' AND n=$((i - 2));" ;;
            7) echo "UPDATE item SET body=body||'more' WHERE n=$((i - 1));" ;;
        esac
        if [ $((i % 25)) = 0 ]; then echo "ROLLBACK;"; else echo "COMMIT;"; fi
        [ $((i % 4)) != 0 ] || echo "SELECT count(*),sum(length(body)) FROM item; SELECT sum(balance) FROM account;"
        # Some milliseconds outside any transaction, or the other would be
        # asleep in its busy handler until this one is through.
        [ $((i % 2)) != 0 ] || echo "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM c WHERE i<20000) SELECT 'pause' FROM c WHERE i<0;"
    done
}

prepare() {
    wants sqlite3
    script a 1 >a.sql
    script b 2 >b.sql
}

run() {
    sqlite3 data.db >setup.out <<SQL
PRAGMA page_size=4096;
PRAGMA journal_mode=$journal_mode;
CREATE TABLE item(id INTEGER PRIMARY KEY, writer TEXT, n INTEGER, body TEXT);
CREATE INDEX item_n ON item(n, writer);
CREATE TABLE account(id INTEGER PRIMARY KEY, balance INTEGER);
WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM c WHERE i<50)
  INSERT INTO account SELECT i, 1000 FROM c;
SQL
    sqlite3 -bail data.db <a.sql >a.out &
    local first=$!
    sqlite3 -bail data.db <b.sql >b.out &
    local second=$!
    wait $first
    wait $second
    sqlite3 data.db 'PRAGMA integrity_check; SELECT writer,count(*) FROM item GROUP BY writer; SELECT sum(balance) FROM account;' >end.out
}

finish() {
    # On a copy: opening a database may leave files beside it.
    # Not local: the trap reads it.
    copy=$(mktemp -d)
    trap 'rm -rf "$copy"' EXIT
    cp data.db* "$copy/"
    sqlite3 "$copy/data.db" 'PRAGMA integrity_check; SELECT writer,count(*) FROM item GROUP BY writer; SELECT sum(balance) FROM account;' >"$copy/out"
    head -n 1 "$copy/out" | grep -qx ok
    cmp "$copy/out" end.out
}
