#!/bin/bash
# ninja with 4 jobs: 60 C files compiled, archived into libraries and linked,
# then built again after a header has changed.
. "$(dirname "$0")/../../workloads/lib.sh"

prepare() {
    wants ninja gcc ar
    mkdir src
    local i j
    {
        echo "rule cc"
        echo "  command = gcc -O1 -MMD -MF \$out.d -c \$in -o \$out"
        echo "  depfile = \$out.d"
        echo "  deps = gcc"
        echo "rule ar"
        echo "  command = rm -f \$out && ar rcs \$out \$in"
        echo "rule link"
        echo "  command = gcc -o \$out \$in"
    } >build.ninja
    for ((i = 0; i < 6; i++)); do
        echo "int group_$i(int);" >"src/group$i.h"
        local objects=""
        {
            for ((j = 0; j < 10; j++)); do echo "int part_${i}_$j(int);"; done
            echo "int group_$i(int x) {"
            for ((j = 0; j < 10; j++)); do echo "    x = part_${i}_$j(x);"; done
            echo "    return x;"
            echo "}"
        } >"src/group$i.c"
        for ((j = 0; j < 10; j++)); do
            printf '#include <stdio.h>\n#include "group%d.h"\nint part_%d_%d(int x) { return x * %d + (x > 1000000 ? printf("big") : group_%d(0) * 0); }\n' \
                "$i" "$i" "$j" "$((j + 3))" "$i" >"src/part${i}_$j.c"
            sed -i 's/group_[0-9](0) \* 0/1/' "src/part${i}_$j.c"
            echo "build obj/part${i}_$j.o: cc src/part${i}_$j.c" >>build.ninja
            objects+=" obj/part${i}_$j.o"
        done
        echo "build obj/group$i.o: cc src/group$i.c" >>build.ninja
        echo "build lib/libgroup$i.a: ar obj/group$i.o$objects" >>build.ninja
    done
    {
        echo '#include <stdio.h>'
        for ((i = 0; i < 6; i++)); do echo "#include \"group$i.h\""; done
        echo 'int main(void) { int x = 1;'
        for ((i = 0; i < 6; i++)); do echo "    x = group_$i(x) % 97;"; done
        echo '    printf("%d\n", x); return 0; }'
    } >src/main.c
    {
        echo "build obj/main.o: cc src/main.c"
        echo "build program: link obj/main.o $(printf 'lib/libgroup%d.a ' 0 1 2 3 4 5)"
    } >>build.ninja
}

run() {
    ninja -j4 >build.out
    ./program >first.out
    echo "/* changed */" >>src/group3.h
    ninja -j4 >>build.out
    ./program >second.out
    ninja -t clean >/dev/null
    ninja -j4 >>build.out
}

finish() { ./program | cmp - second.out; }

dispatch "$@"
