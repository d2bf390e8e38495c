#!/bin/bash
# rsync: a tree of 300 files with symlinks, hard links, modes and extended
# attributes copied, changed, and copied again with --delete.
. "$(dirname "$0")/../lib.sh"

prepare() {
    wants rsync
    "$python" - <<'PYTHON'
import os
for i in range(300):
    directory = f"from/d{i % 17}/e{i % 3}"
    os.makedirs(directory, exist_ok=True)
    path = f"{directory}/f{i}"
    with open(path, "wb") as out:
        out.write(b"%06d" % i * (i * 37 % 1500))
    os.chmod(path, (0o644, 0o600, 0o755, 0o640)[i % 4])
    if i % 20 == 0:
        os.link(path, f"from/hard{i}")
    if i % 15 == 0:
        os.symlink(f"f{i}", f"{directory}/link{i}")
    if i % 25 == 0:
        try:
            os.setxattr(path, "user.number", b"%d" % i)
        except OSError:
            pass
    if i % 30 == 0 and os.geteuid() == 0:
        os.chown(path, 1000 + i, 2000 + i)
with open("from/large", "wb") as out:
    for i in range(40000):
        out.write(b"%015d\n" % i)
os.makedirs("from/empty/er")
os.chmod("from/d3", 0o2750)
PYTHON
}

run() {
    rsync -aHX from/ to/
    local f
    for f in from/d[0-4]/e1/f*; do echo changed >>"$f"; done
    rm -r from/d5 from/hard40
    mv from/d6 from/d6-moved
    chmod 700 from/d7
    ln from/d8/e1/* from/empty/er/
    ln -sf large from/d2/e0/link
    printf 'XXXX' | dd of=from/large bs=1 seek=300001 conv=notrunc status=none
    rsync -aHX --delete --no-whole-file from/ to/
    truncate -s 400000 from/large
    rsync -aHX --delete --inplace --no-whole-file from/ to/
}

finish() {
    # Owners aside: an ordinary user's rsync does not set them either.
    "$python" "$here/compare.py" from to
}

dispatch "$@"
