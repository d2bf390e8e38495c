#!/bin/bash
# A program whose threads hand the same files on to each other in an order
# that only their mutex knows: see src/threads.c.
. "$(dirname "$0")/../lib.sh"

prepare() {
    wants gcc
    gcc -O1 -Wall -pthread -o threads "$here/src/threads.c"
    mkdir shared
}

run() { ./threads shared 6 600; }

dispatch "$@"
