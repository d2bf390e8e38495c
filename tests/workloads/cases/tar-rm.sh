#!/bin/bash
# tar and rm: an archive of some 1500 files, symlinks and hard links unpacked,
# half of it removed again, and all of it unpacked a second time elsewhere.
. "$(dirname "$0")/../lib.sh"

prepare() {
    wants tar gzip
    "$python" - <<'PYTHON'
import io, tarfile
with tarfile.open("archive.tar.gz", "w:gz", compresslevel=1) as archive:
    def entry(name, type=tarfile.REGTYPE, mode=0o644, data=b"", link="", owner=0):
        info = tarfile.TarInfo(name)
        info.type, info.mode, info.linkname, info.size = type, mode, link, len(data)
        info.uid = info.gid = owner
        info.mtime = 1_600_000_000
        archive.addfile(info, io.BytesIO(data))
    for half in ("keep", "drop"):
        for d in range(25):
            top = f"tree/{half}/d{d:02}"
            entry(top, tarfile.DIRTYPE, 0o755)
            entry(f"{top}/sub", tarfile.DIRTYPE, 0o2775 if d % 5 == 0 else 0o750)
            for f in range(26):
                size = (d * 131 + f * 977) % 9000 if f else 0
                data = (b"%d/%d " % (d, f)) * (size // 5)
                entry(f"{top}/{'sub/' if f % 3 == 0 else ''}f{f:02}", data=data,
                      mode=(0o644, 0o600, 0o755, 0o444)[f % 4], owner=1000 if f % 7 == 0 else 0)
            entry(f"{top}/link", tarfile.SYMTYPE, 0o777, link="f01")
            entry(f"{top}/dangling", tarfile.SYMTYPE, 0o777, link="../nowhere")
            entry(f"{top}/hard", tarfile.LNKTYPE, 0o755, link=f"{top}/f02")
            entry(f"{top}/sub/hard", tarfile.LNKTYPE, 0o600, link=f"{top}/f01")
        entry(f"tree/{half}/large", data=bytes(range(256)) * 4096)
    entry("tree/fifo", tarfile.FIFOTYPE, 0o620)
PYTHON
}

run() {
    mkdir one two
    tar -xzf archive.tar.gz -C one
    rm -r one/tree/drop
    tar -xzf archive.tar.gz -C two
    rm -rf two/tree/keep/d0*
    chmod -R u+w two/tree/keep/d10
    tar -xzf archive.tar.gz -C two --overwrite tree/keep/d00 tree/keep/d10
}

finish() { [ "$(find one two -type f | wc -l)" -gt 1500 ]; }

dispatch "$@"
