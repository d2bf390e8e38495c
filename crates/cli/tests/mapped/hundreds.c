/* Hundreds of files, all mapped at once, as a broker of messages maps its indexes.
 *
 *     hundreds COUNT [apart SECONDS]
 *
 * COUNT files of three pages in the present directory are mapped shared and stored to, by a child, too. Of every third mapping the middle
 * page ends, every fifth is moved, every seventh ends and is made anew; then all are stored to again. What they hold is compared
 * at the end with what was stored. With `apart` they are mapped one after the other, and after half of them is a pause.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096
#define PAGES 3
#define BYTES (PAGE * PAGES)

static uint8_t **memory, *expected;
static int count;

static void need(int well, const char *what)
{
    if (well)
        return;
    perror(what);
    exit(1);
}

static int file_of(int number)
{
    char name[32];
    int file;

    snprintf(name, sizeof name, "index-%05d", number);
    file = open(name, O_RDWR | O_CREAT, 0644);
    need(file >= 0, name);
    return file;
}

static void map(int number)
{
    int file = file_of(number);

    need(!ftruncate(file, BYTES), "ftruncate");
    memory[number] = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    need(memory[number] != MAP_FAILED, "mmap");
    close(file);
}

/* Stores a byte in the first and the last page: the middle one may be no more. */
static void store(int number, int at, uint8_t value)
{
    memory[number][at] = expected[number * BYTES + at] = value;
    at += 2 * PAGE;
    memory[number][at] = expected[number * BYTES + at] = value + 1;
}

static void store_all(int round)
{
    for (int number = 0; number < count; number++)
        store(number, (number * 37 + round * 101) % PAGE, number + round);
}

/* Takes a mapping elsewhere. */
static void move(int number)
{
    void *elsewhere = mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    memory[number] = mremap(memory[number], BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere);
    need(memory[number] != MAP_FAILED, "mremap");
}

static void change(int number)
{
    if (number % 3 == 0)
        need(!munmap(memory[number] + PAGE, PAGE), "munmap");
    else if (number % 5 == 0)
        move(number);
    else if (number % 7 == 0 && !munmap(memory[number], BYTES))
        map(number);
}

static int map_apart(unsigned pause)
{
    for (int number = 0; number < count; number++) {
        map(number);
        memory[number][number % BYTES] = 1;
        need(!munmap(memory[number], BYTES), "munmap");
        if (number == count / 2)
            sleep(pause);
    }
    return 0;
}

int main(int argc, char **argv)
{
    static uint8_t held[BYTES];

    count = argc > 1 ? atoi(argv[1]) : 0;
    memory = calloc(count, sizeof *memory);
    if (argc > 3)
        return map_apart(atoi(argv[3]));
    expected = mmap(NULL, (size_t)count * BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    need(count > 0 && memory && expected != MAP_FAILED, "hundreds COUNT");
    for (int number = 0; number < count; number++)
        map(number);
    store_all(1);
    if (!fork()) {
        store_all(2);
        _exit(0);
    }
    wait(NULL);
    for (int number = 0; number < count; number++)
        change(number);
    store_all(3);
    for (int number = 0; number < count; number++) {
        int file = file_of(number);

        need(pread(file, held, BYTES, 0) == BYTES && !memcmp(held, expected + (size_t)number * BYTES, BYTES), "what a file holds");
        close(file);
    }
    return 0;
}
