/* A directory is opened, names come, then it is listed. Recorded where the listing sees them: Btrfs alone lists what was
 * there at the opening, unless the directory is rewound. */
#include "case.h"

int main(void) {
    char room[4096];
    must(mkdir("dir", 0755));
    int dir = must(open("dir", O_RDONLY | O_DIRECTORY));
    put("dir/one", "1");
    put("dir/two", "2");
    while (must(syscall(SYS_getdents64, dir, room, sizeof room)) > 0) {
    }
    must(close(dir));
    return 0;
}
