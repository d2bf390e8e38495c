#!/usr/bin/env python3
"""compare.py A B: are the trees A and B the same?

Shares no code with Reprise: the matrix judges replays by it. Compared are
names, types, permission modes, owners (as root, or with --owners), contents
and sizes of regular files, symlink targets, device numbers, extended
attributes (ACLs among them) and hard links: which names share one inode.
Not compared: times, holes, and the size of directories, which is the file
system's own affair.

Exit status: 0 the same, 1 different (each difference on a line), 2 trouble.
`compare.py --self-test` shows that each kind of difference is found.
"""

import os
import shutil
import stat
import sys
import tempfile

# Set by the system, not by the recorded program.
IGNORED_XATTRS = {"security.selinux"}
CHUNK = 1 << 20


def kind(mode):
    for test, name in (
        (stat.S_ISREG, "file"),
        (stat.S_ISDIR, "directory"),
        (stat.S_ISLNK, "symlink"),
        (stat.S_ISFIFO, "fifo"),
        (stat.S_ISSOCK, "socket"),
        (stat.S_ISCHR, "character device"),
        (stat.S_ISBLK, "block device"),
    ):
        if test(mode):
            return name
    return "unknown"


def show(name):
    return os.fsdecode(name).encode("utf-8", "backslashreplace").decode() or "."


def walk(root):
    """Every name below root (root itself as b"") with its lstat."""
    found = {b"": os.lstat(root)}
    todo = [b""]
    while todo:
        directory = todo.pop()
        with os.scandir(os.path.join(root, directory)) as entries:
            for entry in entries:
                name = os.path.join(directory, entry.name)
                info = entry.stat(follow_symlinks=False)
                found[name] = info
                if stat.S_ISDIR(info.st_mode):
                    todo.append(name)
    return found


def xattrs(path):
    try:
        names = os.listxattr(path, follow_symlinks=False)
    except OSError:
        return {}
    values = {}
    for name in names:
        if name in IGNORED_XATTRS:
            continue
        try:
            values[name] = os.getxattr(path, name, follow_symlinks=False)
        except OSError:
            values[name] = None
    return values


def first_difference(path_a, path_b):
    """The offset where two files begin to differ, or None."""
    offset = 0
    with open(path_a, "rb") as a, open(path_b, "rb") as b:
        while True:
            chunk_a, chunk_b = a.read(CHUNK), b.read(CHUNK)
            if chunk_a != chunk_b:
                for i, (x, y) in enumerate(zip(chunk_a, chunk_b)):
                    if x != y:
                        return offset + i
                return offset + min(len(chunk_a), len(chunk_b))
            if not chunk_a:
                return None
            offset += len(chunk_a)


def link_groups(tree, names):
    """For each name the set of names sharing its inode (directories apart)."""
    inodes = {}
    for name in names:
        info = tree[name]
        if not stat.S_ISDIR(info.st_mode):
            inodes.setdefault((info.st_dev, info.st_ino), set()).add(name)
    return {name: frozenset(group) for group in inodes.values() for name in group}


def compare(root_a, root_b, owners=None):
    """The differences between two trees, a list of lines."""
    owners = os.geteuid() == 0 if owners is None else owners
    root_a, root_b = os.fsencode(root_a), os.fsencode(root_b)
    a, b = walk(root_a), walk(root_b)
    out = []
    for name in sorted(a.keys() - b.keys()):
        out.append(f"only in A: {show(name)} ({kind(a[name].st_mode)})")
    for name in sorted(b.keys() - a.keys()):
        out.append(f"only in B: {show(name)} ({kind(b[name].st_mode)})")
    common = sorted(a.keys() & b.keys())
    for name in common:
        here, there, label = a[name], b[name], show(name)
        path_a = os.path.join(root_a, name) if name else root_a
        path_b = os.path.join(root_b, name) if name else root_b
        if kind(here.st_mode) != kind(there.st_mode):
            out.append(f"type: {label}: {kind(here.st_mode)} | {kind(there.st_mode)}")
            continue
        if stat.S_IMODE(here.st_mode) != stat.S_IMODE(there.st_mode):
            out.append(
                f"mode: {label}: {stat.S_IMODE(here.st_mode):04o} | {stat.S_IMODE(there.st_mode):04o}"
            )
        if owners and (here.st_uid, here.st_gid) != (there.st_uid, there.st_gid):
            out.append(f"owner: {label}: {here.st_uid}:{here.st_gid} | {there.st_uid}:{there.st_gid}")
        if stat.S_ISREG(here.st_mode):
            if here.st_size != there.st_size:
                out.append(f"size: {label}: {here.st_size} | {there.st_size}")
            else:
                at = first_difference(path_a, path_b)
                if at is not None:
                    out.append(f"content: {label}: from byte {at} of {here.st_size}")
        elif stat.S_ISLNK(here.st_mode):
            target_a, target_b = os.readlink(path_a), os.readlink(path_b)
            if target_a != target_b:
                out.append(f"target: {label}: {show(target_a)} | {show(target_b)}")
        elif stat.S_ISCHR(here.st_mode) or stat.S_ISBLK(here.st_mode):
            if here.st_rdev != there.st_rdev:
                out.append(f"device: {label}: {here.st_rdev:#x} | {there.st_rdev:#x}")
        xattrs_a, xattrs_b = xattrs(path_a), xattrs(path_b)
        for key in sorted(xattrs_a.keys() | xattrs_b.keys()):
            if key not in xattrs_a or key not in xattrs_b:
                side = "A" if key in xattrs_a else "B"
                out.append(f"xattr: {label}: {key} only in {side}")
            elif xattrs_a[key] != xattrs_b[key]:
                out.append(f"xattr: {label}: {key}: {xattrs_a[key]!r} | {xattrs_b[key]!r}")
    links_a, links_b = link_groups(a, common), link_groups(b, common)
    for name in common:
        group_a, group_b = links_a.get(name), links_b.get(name)
        if group_a != group_b and group_a is not None and group_b is not None:
            def names(group):
                return " ".join(sorted(show(n) for n in group))

            out.append(f"links: {show(name)}: {{{names(group_a)}}} | {{{names(group_b)}}}")
    return out


# ---------------------------------------------------------------- self test


def build(root):
    os.makedirs(f"{root}/d/sub")
    for name in ("f", "g", "d/h", "d/sub/i"):
        with open(f"{root}/{name}", "wb") as out:
            out.write(name.encode() * 3000)
    os.link(f"{root}/f", f"{root}/d/f-again")
    shutil.copyfile(f"{root}/f", f"{root}/f-copy")
    os.symlink("f", f"{root}/s")
    os.mkfifo(f"{root}/p")
    for name in ("f", "f-copy", "g", "d/h", "d/sub/i"):
        os.chmod(f"{root}/{name}", 0o644)
    for name in ("", "d", "d/sub"):
        os.chmod(f"{root}/{name}", 0o755)


def self_test():
    def rewrite(path, data, offset=0, truncate=False):
        with open(path, "r+b") as out:
            out.seek(offset)
            out.write(data)
            if truncate:
                out.truncate()

    def unlink_again(root):
        """The same names and bytes, but no longer one inode."""
        shutil.copyfile(f"{root}/f", f"{root}/t")
        os.chmod(f"{root}/t", 0o644)
        os.rename(f"{root}/t", f"{root}/d/f-again")

    def link_otherwise(root):
        """As many inodes with as many links, but of other names."""
        os.rename(f"{root}/f-copy", f"{root}/t")
        os.rename(f"{root}/d/f-again", f"{root}/f-copy")
        os.rename(f"{root}/t", f"{root}/d/f-again")

    def replace(root, name, make):
        os.unlink(f"{root}/{name}")
        make(f"{root}/{name}")

    def retarget(path):
        os.unlink(path)
        os.symlink("g", path)

    cases = [
        ("nothing", None, lambda r: None),
        ("times", None, lambda r: os.utime(f"{r}/f", (1, 1))),
        ("hole", None, None),
        ("missing name", "only in A", lambda r: os.unlink(f"{r}/d/h")),
        ("extra name", "only in B", lambda r: os.mkdir(f"{r}/new")),
        ("file to directory", "type", lambda r: replace(r, "g", os.mkdir)),
        ("fifo to file", "type", lambda r: replace(r, "p", lambda p: open(p, "w").close())),
        ("file mode", "mode", lambda r: os.chmod(f"{r}/f", 0o600)),
        ("sticky bit", "mode", lambda r: os.chmod(f"{r}/d", 0o1755)),
        ("mode of the top", "mode", lambda r: os.chmod(r, 0o700)),
        ("longer", "size", lambda r: rewrite(f"{r}/g", b"x" * 3001)),
        ("shorter", "size", lambda r: rewrite(f"{r}/g", b"g", truncate=True)),
        ("first byte", "content", lambda r: rewrite(f"{r}/g", b"x")),
        ("last byte", "content", lambda r: rewrite(f"{r}/d/sub/i", b"x", offset=20999)),
        ("symlink target", "target", lambda r: retarget(f"{r}/s")),
        ("hard link undone", "links", unlink_again),
        ("hard link elsewhere", "links", link_otherwise),
        ("xattr added", "xattr", lambda r: os.setxattr(f"{r}/f", "user.b", b"1")),
        ("xattr gone", "xattr", lambda r: os.removexattr(f"{r}/g", "user.a")),
        ("xattr value", "xattr", lambda r: os.setxattr(f"{r}/g", "user.a", b"2")),
        ("owner", "owner", lambda r: os.chown(f"{r}/f", 12345, -1)),
        ("group of a symlink", "owner", lambda r: os.lchown(f"{r}/s", -1, 12345)),
    ]
    counts = {"PASS": 0, "FAIL": 0, "SKIP": 0}

    def report(verdict, name, detail=""):
        counts[verdict] += 1
        print(f"{verdict} compare {name} {detail}".rstrip(), flush=True)

    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as top:
        for number, (name, wanted, change) in enumerate(cases):
            a, b = f"{top}/{number}a", f"{top}/{number}b"
            with_xattr = name.startswith("xattr")
            try:
                for root in (a, b):
                    build(root)
                    if with_xattr:
                        os.setxattr(f"{root}/g", "user.a", b"1")
                if name == "hole":
                    for root, write in ((a, True), (b, False)):
                        with open(f"{root}/big", "wb") as out:
                            out.write(bytes(1 << 20)) if write else out.truncate(1 << 20)
                else:
                    change(b)
            except OSError as error:
                if with_xattr or wanted == "owner":
                    report("SKIP", name, f"cannot be made here: {error}")
                    continue
                raise
            found = {line.split(":")[0] for line in compare(a, b)}
            if found == ({wanted} if wanted else set()):
                report("PASS", name, f"-> {wanted or 'same'}")
            else:
                report("FAIL", name, f"wanted {wanted or 'no difference'}, found {sorted(found)}")
    print(f"compare: {counts['PASS']} passed, {counts['FAIL']} failed, {counts['SKIP']} skipped")
    return 1 if counts["FAIL"] else 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    owners = None
    if arguments and arguments[0] == "--owners":
        owners, arguments = True, arguments[1:]
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    for root in arguments:
        if not os.path.lexists(root):
            print(f"compare.py: {root} is not there", file=sys.stderr)
            return 2
    differences = compare(*arguments, owners=owners)
    for line in differences:
        print(line)
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
