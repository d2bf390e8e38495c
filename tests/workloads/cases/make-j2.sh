#!/bin/bash
# make -j2: a C program of 12 files and a static library, built, a part
# touched and built again, then installed.
. "$(dirname "$0")/../lib.sh"

prepare() {
    wants make gcc ar
    mkdir project
    cd project
    local i
    for ((i = 0; i < 12; i++)); do
        cat >"part$i.c" <<C
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "parts.h"
int part$i(int n) {
    char text[64];
    snprintf(text, sizeof text, "%d:%d", n, $i);
    return (int)strlen(text) * $((i + 3)) + n % $((i + 2));
}
C
    done
    { for ((i = 0; i < 12; i++)); do echo "int part$i(int);"; done; } >parts.h
    { echo '#include <stdio.h>'; echo '#include "parts.h"'; echo 'int main(void) { int sum = 0;'
      for ((i = 0; i < 12; i++)); do echo "    sum += part$i(sum);"; done
      echo '    printf("%d\n", sum); return 0; }'; } >main.c
    cat >Makefile <<'MAKE'
CFLAGS = -O1 -g -Wall -MMD
LIBRARY = part0.o part1.o part2.o part3.o part4.o part5.o
OWN = part6.o part7.o part8.o part9.o part10.o part11.o main.o
program: $(OWN) libparts.a
	$(CC) -o $@ $(OWN) -L. -lparts
libparts.a: $(LIBRARY)
	$(AR) rcs $@ $(LIBRARY)
install: program
	install -D -m 755 program $(DESTDIR)/bin/program
	install -D -m 644 libparts.a $(DESTDIR)/lib/libparts.a
-include *.d
MAKE
}

run() {
    cd project
    make -j2 CC=gcc
    ./program >../first.out
    sleep 0.05
    echo 'int more(void) { return 5; }' >>part3.c
    touch part8.c
    make -j2 CC=gcc
    make install DESTDIR="$PWD/../installed" CC=gcc
    ../installed/bin/program >../second.out
}

finish() {
    ./installed/bin/program | cmp - first.out
    cmp first.out second.out
}

dispatch "$@"
