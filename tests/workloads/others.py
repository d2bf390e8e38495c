#!/usr/bin/env python3
"""Programs that others wrote, recorded in the kernel, replayed, compared.

    others.py [--reprise FILE] [NAME…]      stress-ng/* for all of its tests, python/* for those of Python
    others.py --each PROGRAM…               these programs, each alone: the test suite of liburing, libaio, or strace
    others.py --strace …                    the same, by an imported log of strace; trees are not compared

Databases, backup programs, packers and load generators do something small in
an empty directory; of stress-ng each test of file systems, input and output,
and descriptors; of Python's own tests those that do more than compute. A replay must report no divergence and leave the tree that
the program left (compare.py). What is not installed is skipped with a word.

Not part of `make test`: it takes half an hour, and what stress-ng does changes
from run to run. Some of it no replay can do, see KNOWN.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True
import compare  # noqa: E402

FILEIO = "sysbench fileio --file-num=8 --file-total-size=32M"
DOCUMENTS = "cp -r /usr/share/doc/b* ."

# Name, the program that it needs, what a shell does in an empty directory.
PROGRAMS = {
    "dbench": ("dbench", "dbench -t 5 4"),
    "bonnie": ("bonnie++", "bonnie++ -u root -d . -s 64M -r 32M -n 2:10000:10:4 -q"),
    "sysbench": ("sysbench", f"{FILEIO} prepare && {FILEIO} --file-test-mode=rndrw --threads=4 --time=3 run"),
    "sysbench-aio": ("sysbench", f"{FILEIO} prepare && {FILEIO} --file-test-mode=rndrw --file-io-mode=async --threads=2 --time=3 run"),
    "sysbench-mmap": ("sysbench", f"{FILEIO} prepare && {FILEIO} --file-test-mode=rndrw --file-io-mode=mmap --threads=2 --time=3 run"),
    "fs_mark": ("fs_mark", "fs_mark -d d1 -d d2 -s 4096 -n 300 -t 2 -S 1"),
    "redis": (
        "redis-server",
        "redis-server --port 0 --unixsocket $PWD/s --appendonly yes --save '1 1' & sleep 1;"
        " redis-benchmark -s $PWD/s -n 5000 -c 5 -t set,get,lpush -q; redis-cli -s $PWD/s bgsave; sleep 2;"
        " redis-cli -s $PWD/s shutdown; wait",
    ),
    "mariadb": (
        "mariadbd",
        "mariadb-install-db --no-defaults --datadir=$PWD/d --user=root --skip-test-db;"
        " mariadbd --no-defaults --datadir=$PWD/d --user=root --socket=$PWD/s --skip-networking & sleep 4;"
        " mariadb -S s -e 'create database t; use t; create table a(i int primary key auto_increment, s varchar(200))"
        " engine=innodb; insert into a(s) values(repeat(1,100)),(repeat(2,100)); insert into a(s) select s from a;"
        " insert into a(s) select s from a; create table b engine=aria select * from a; delete from a where i%3=0';"
        " mariadb-admin -S s shutdown; wait",
    ),
    "borg": (
        "borg",
        f"export BORG_BASE_DIR=$PWD/b BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK=yes; mkdir s; cd s; {DOCUMENTS}; cd ..;"
        " borg init -e none r && borg create r::a s && borg create r::b s && borg delete r::a && borg check r;"
        " mkdir o; cd o; borg extract ../r::b",
    ),
    "restic": (
        "restic",
        f"export RESTIC_PASSWORD=x RESTIC_CACHE_DIR=$PWD/c; mkdir s; cd s; {DOCUMENTS}; cd ..; restic init -r r -q;"
        " restic backup -q -r r s; restic check -q -r r --read-data; restic restore -q -r r latest --target o",
    ),
    "7z": ("7z", f"{DOCUMENTS}; 7z a -mmt2 x.7z *; mkdir o; 7z x -oo x.7z"),
    "zstd": ("zstd", "head -c 20000000 /dev/urandom > f; zstd -q -T2 f; zstd -q -d f.zst -o g; zstd -q --rm g"),
    "unison": (
        "unison",
        "export UNISON=$PWD/u; mkdir a b; cp -r /usr/share/doc/c* a/; unison a b -batch -silent -auto; echo x > a/new;"
        " rm -rf b/coreutils; unison a b -batch -silent",
    ),
    "lmdb": (
        "mdb_load",
        "mkdir e c; for i in $(seq 50); do printf 'VERSION=3\\nformat=print\\ntype=btree\\nmapsize=1048576\\nHEADER=END\\n"
        " k'$i'\\n v\\nDATA=END\\n' | mdb_load e; done; mdb_dump e > d; mdb_copy e c",
    ),
    "berkeley-db": ("db5.3_load", "for i in 1 2 3; do printf 'k\\nv\\n' | db5.3_load -T -t btree x.db; done; db5.3_dump x.db > o"),
    "gdbm": ("gdbmtool", "for i in $(seq 20); do echo store k$i v$i; done | gdbmtool x.db; echo reorganize | gdbmtool x.db"),
    "git": (
        "git",
        f"git init -q r; cd r; {DOCUMENTS}; git add -A; git -c user.email=a -c user.name=b commit -qm x; git gc -q;"
        " git checkout -q -b y; git rm -rq base-files; git -c user.email=a -c user.name=b commit -qm y;"
        " git worktree add -q ../w HEAD~1",
    ),
}

STRESSORS = (
    "access aio aiol chattr chdir chmod chown chroot clone close copy-file daemon dentry dev-shm dir dirdeep dirmany dnotify dup"
    " epoll eventfd exec fallocate fanotify fault fcntl fd-fork fiemap fifo file-ioctl filename flock fork fpunch fsize"
    " fstat get getdent handle hdd inode-flags inotify io io-uring iomix landlock lease link locka lockf lockofd memfd metamix"
    " mincore mknod mmap mmapaddr mmapfiles mmapfixed mmapfork mmapmany mq mremap msync msyncmany null open pidfd pipe pthread pty"
    " quota readahead rename revio ring-pipe rmap seal seek sendfile sigfd sock sockfd sockpair spawn splice symlink sync-file tee"
    " tmpfs touch unlink utime vm-splice xattr zero"
).split()

# Of Python's tests (Debian: libpython3.11-testsuite).
PYTHON_TESTS = (
    "asyncio bufio bz2 cmd_line_script compileall cprofile ctypes dbm dbm_dumb dbm_gnu dbm_ndbm distutils epoll exceptions faulthandler"
    " fcntl file file_eintr filecmp fileinput fileio fork1 genericpath glob gzip httpservers import importlib io ioctl largefile"
    " linecache logging lzma mailbox marshal mmap multiprocessing_fork multiprocessing_spawn openpty os pathlib pickle pkgutil poll"
    " popen posix posixpath pty py_compile regrtest runpy select selectors shelve shutil signal site socket sqlite3 stat subprocess sys"
    " tarfile tempfile threadedtempfile threading trace tracemalloc unicode_file_functions univnewlines venv wait3 zipfile zipimport"
).split()

# What differs by nature, and why.
KNOWN = {
    "chattr": "flags that forbid writing are not set by a replay",
    "handle": "files are not opened by handles",
    "iomix": "flags that forbid writing are not set by a replay",
    "landlock": "rules of Landlock are not set by a replay",
    "shutil": "a replay has no right to set `trusted` attributes",
    "msyncmany": "the mappings of two processes are too many for one",
    "accept.t": "completions of a request that has several name no request, so that descriptors are not known",
    "personality.t": "a request is performed with the rights of the replay, not with those that its thread had got meanwhile",
}


def cases():
    found = dict(PROGRAMS)
    for name in STRESSORS:
        line = f"stress-ng --{name} 2 --{name}-ops 60 --temp-path . -q --no-rand-seed -t 5"
        found["stress-ng/" + name] = ("stress-ng", line)
    for name in PYTHON_TESTS:
        line = f"mkdir t; TMPDIR=$PWD/t timeout -k 2 60 python3 -m test --tempdir $PWD/t -q test_{name}"
        found["python/" + name] = ("python3", line)
    return found


def run(args, seconds, **more):
    return subprocess.run(["timeout", "-k", "5", str(seconds), *args], capture_output=True, text=True, errors="replace",
                          stdin=subprocess.DEVNULL, check=False, **more)


def by_strace(reprise, line, work, trace):
    """A trace of what a shell does, made from a log of strace that loses little."""
    log = trace + ".log"
    run(["strace", "-f", "-ttt", "-T", "-yy", "-v", "-s", "1048576", "-o", log, "sh", "-c", line], 240, cwd=work)
    return run([reprise, "import", log, "-o", trace], 120)


def judge(reprise, line, place, strace=False):
    """What went wrong, in words, and how many calls a replay issued."""
    work, target, trace = (os.path.join(place, name) for name in ("work", "target", "trace"))
    os.mkdir(work)
    os.mkdir(target)
    if strace:
        recorded = by_strace(reprise, line, work, trace)
    else:
        recorded = run([reprise, "record", "--backend", "ebpf", "-o", trace, "--tree", work, "--", "sh", "-c", line], 120, cwd=work)
    if not os.path.exists(trace) or os.path.exists(os.path.join(trace, "spool")):
        return f"not recorded: {recorded.stderr.strip()[-200:]}", 0
    replayed = run([reprise, "replay", trace, "--target", target, "--json"], 120)
    try:
        outcome = json.loads(replayed.stdout)
    except ValueError:
        return f"not replayed: {replayed.stderr.strip()[-200:]}", 0
    wrong = [f"{outcome[word]} {word}" for word in ("diverged", "unsupported") if outcome[word]]
    wrong += [f"{d['call']} {d['origin']} {d['text']}" for d in outcome["divergences"][:2]]
    wrong += [] if strace else compare.compare(work, target + work)[:2]
    return "; ".join(wrong), outcome["issued"]


def chosen(names):
    found = cases()
    if not names:
        return found
    wanted = lambda case: any(case == name or name.endswith("*") and case.startswith(name[:-1]) for name in names)  # noqa: E731
    return {case: how for case, how in found.items() if wanted(case)}


def of_programs(paths):
    """Each in an empty directory, for half a minute at most."""
    return {os.path.basename(path): (path, f"mkdir testdir; timeout -k 2 30 {os.path.realpath(path)}") for path in paths}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reprise", default=os.path.join(ROOT, "target/release/reprise"))
    parser.add_argument("--each", nargs="+", metavar="PROGRAM", default=[])
    parser.add_argument("--strace", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    counts = {"PASS": 0, "KNOWN": 0, "FAIL": 0, "SKIP": 0}
    for case, (program, line) in (of_programs(options.each) or chosen(options.names)).items():
        if not shutil.which(program):
            word, detail = "SKIP", f"{program} is not installed"
        else:
            with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="reprise-others-") as place:
                wrong, issued = judge(os.path.realpath(options.reprise), line, place, options.strace)
            why = KNOWN.get(case.rpartition("/")[2])
            word = "PASS" if not wrong else "KNOWN" if why else "FAIL"
            detail = f"{issued} calls issued" if not wrong else f"{why}: {wrong}" if why else wrong
        counts[word] += 1
        print(word, case, detail, flush=True)
    print("others:", ", ".join(f"{count} {word.lower()}" for word, count in counts.items()))
    return 1 if counts["FAIL"] else 0


if __name__ == "__main__":
    sys.exit(main())
