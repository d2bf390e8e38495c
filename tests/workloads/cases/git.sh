#!/bin/bash
# git: a repository from init over 200 files, commits, a branch, merges,
# a rebase and gc to fsck.
. "$(dirname "$0")/../lib.sh"

prepare() {
    wants git
    local i
    mkdir src
    for ((i = 0; i < 200; i++)); do
        mkdir -p "src/d$((i % 14))"
        { echo "file $i"; for ((j = 0; j < i % 40 + 5; j++)); do echo "line $j of $i: $((i * j * 7919 % 10007))"; done; } >"src/d$((i % 14))/f$i.txt"
    done
    cat >.gitconfig <<CONFIG
[user]
    name = A Writer
    email = writer@example.invalid
[init]
    defaultBranch = main
[gc]
    autoDetach = false
[maintenance]
    autoDetach = false
[core]
    pager = cat
    editor = true
CONFIG
}

run() {
    git init -q repo
    cp -r src/. repo/
    cd repo
    chmod +x d0/f0.txt
    ln -s d1/f1.txt link
    git add .
    git commit -q -m "all of it"
    local i
    for i in 1 2 3 4 5; do
        echo "more $i" >>"d$i/f$i.txt"
        echo "new $i" >"d$i/new$i.txt"
        git add -A
        git commit -q -m "change $i"
    done
    git checkout -q -b side HEAD~3
    git mv d6/f6.txt d6/moved.txt
    git rm -q d7/f7.txt
    git commit -q -m "moved and removed"
    echo side >>d8/f8.txt
    git commit -q -a -m "side"
    git checkout -q main
    git merge -q --no-ff -m "merged" side
    git checkout -q -b rebased HEAD~2
    echo rebased >>d9/f9.txt
    git commit -q -a -m "to be rebased"
    git rebase -q main
    git checkout -q main
    git merge -q --ff-only rebased
    git branch -q -D side
    echo stashed >>d10/f10.txt
    git stash -q
    git stash pop -q
    git commit -q -a -m "last"
    git tag -a -m "a tag" v1
    git gc -q --prune=now
    git fsck --full --strict
    git status --porcelain >../status.out
    git log --stat --format=%s >../log.out
    git clone -q . ../clone
}

finish() {
    # --no-optional-locks: git status would refresh the index.
    git -c safe.directory='*' --no-optional-locks -C repo fsck --full --strict
    git -c safe.directory='*' --no-optional-locks -C repo log --stat --format=%s | cmp - log.out
    git -c safe.directory='*' --no-optional-locks -C clone fsck --full --strict
}

dispatch "$@"
