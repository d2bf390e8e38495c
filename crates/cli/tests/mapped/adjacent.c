// A log that grows: its pieces are mapped one behind the other in room that was kept for them, and stored to; then all are loaded
// from, by a child. Beside it a file whose two halves lie one behind the other because the kernel found room there.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#define P 4096
#define PIECES 4
static char *page(void *at, int protection, int fd, int number) {
    return mmap(at, P, protection, at ? MAP_SHARED | MAP_FIXED : MAP_SHARED, fd, number * P);
}
int main() {
    int log = open("log", O_RDWR | O_CREAT | O_TRUNC, 0644), halves = open("halves", O_RDWR | O_CREAT | O_TRUNC, 0644);
    char *room = mmap(0, PIECES * P, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < PIECES; i++) {
        ftruncate(log, (i + 1) * P);
        page(room + i * P, PROT_READ | PROT_WRITE, log, i);
        for (int k = 0; k < P; k++)
            room[i * P + k] = 'a' + i;
    }
    ftruncate(halves, 2 * P);
    char *second = page(0, PROT_READ | PROT_WRITE, halves, 1), *first = page(0, PROT_READ | PROT_WRITE, halves, 0);
    first[1] = 'f';
    second[1] = 's';
    if (!fork()) {
        volatile char *shown = mmap(0, 2 * PIECES * P, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (int i = 0; i < PIECES; i++)
            page((char *)shown + i * P, PROT_READ, log, i);
        for (int i = 0; i < PIECES; i++)
            (void)shown[i * P];
        _exit(0);
    }
    wait(0);
    return 0;
}
