#!/bin/bash
# git gc with 4 threads over a repository of 150 commits, some already packed;
# a commit-graph, a multi-pack index, and a check with threads after it.
. "$(dirname "$0")/../../workloads/lib.sh"

prepare() {
    wants git
    git init -q repo
    cd repo
    git config user.name "A Writer"
    git config user.email writer@example.invalid
    git config gc.autoDetach false
    git config pack.threads 4
    git config pack.windowMemory 1m
    git config index.threads 4
    local i j
    for ((i = 0; i < 150; i++)); do
        mkdir -p "d$((i % 7))"
        for ((j = 0; j < 10; j++)); do
            seq "$((i + j))" "$((i * 3 + j * 40 + 100))" >"d$((i % 7))/f$j"
        done
        git add .
        git commit -q -m "commit $i"
        [ $((i % 20)) != 19 ] || git repack -q -d
    done
}

run() {
    cd repo
    git gc -q --aggressive --prune=now
    git multi-pack-index write
    git commit-graph write --reachable
    git checkout -q HEAD~30
    git checkout -q -
    git fsck --full
}

finish() {
    git -c safe.directory='*' --no-optional-locks -C repo fsck --full --strict
}

dispatch "$@"
