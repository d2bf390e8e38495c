# For the cases of LMDB. Set before: `way`, the words for fill-lmdb.py.
script=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/fill-lmdb.py
python=/usr/bin/python3 # the one that Debian's packages are for

prepare() {
    wants mdb_stat
    "$python" -c "import lmdb" || skip "Python's lmdb is not installed (Debian: python3-lmdb)"
}

run() { "$python" "$script" "$W/environment" "${way[@]}"; }

finish() { # LMDB walks all pages of a replayed environment
    mdb_dump -a environment >/dev/null
    [ "$(mdb_stat -s table environment | sed -n 's/ *Entries: //p')" -gt 100 ]
}
