/* Threads and processes that share descriptor tables or directories, each in its way, act in turns.
 *
 *     kin DIR threads ROUNDS
 *     kin DIR processes
 *
 * `main` shares its directories with `places` (a thread that left its table) and `walker` (CLONE_FS), and its table with
 * `numbers` (a thread that left its directories) and `holder` (CLONE_FILES); `guest` shares the walker's table. What one
 * enters, opens, closes or masks is so for those that share it and for no other: else a call fails, or a file stands
 * elsewhere. Turns pass through memory, which no call shows. With `processes` the threads are left out, and the program
 * goes on until SIGTERM; it says `ready` when all are there.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

enum member { MAIN, PLACES, NUMBERS, HOLDER, WALKER, GUEST, MEMBERS };
enum deed { ENTER, LEAVE, MAKE, MASK, OPEN, WRITE, CLOSE, END };

static const char *const names[MEMBERS] = {"main", "places", "numbers", "holder", "walker", "guest"};

static struct {
    sem_t turn[MEMBERS], done;
    enum deed deed;
    int fd;
    unsigned count;
} *shared;

static volatile sig_atomic_t over;

static void end(int signal)
{
    (void)signal;
    over = 1;
}

static void await(sem_t *what)
{
    while (sem_wait(what))
        if (errno != EINTR)
            die("sem_wait: %m");
}

static void perform(enum member me)
{
    char name[64];
    snprintf(name, sizeof name, "%s-%u", names[me], shared->count);
    int fd;
    switch (shared->deed) {
    case ENTER:
        if (mkdir(name, 0777) || chdir(name))
            die("%s: %m", name);
        break;
    case LEAVE:
        if (chdir(".."))
            die("chdir: %m");
        break;
    case MAKE:
        fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0666);
        if (fd < 0 || write(fd, name, strlen(name)) < 0 || close(fd))
            die("%s: %m", name);
        break;
    case MASK:
        umask(shared->count & 1 ? 022 : 077);
        break;
    case OPEN:
        shared->fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0666);
        if (shared->fd < 0)
            die("%s: %m", name);
        break;
    case WRITE:
        if (write(shared->fd, name, strlen(name)) < 0)
            die("%s: write: %m", name);
        break;
    case CLOSE:
        if (close(shared->fd))
            die("%s: close: %m", name);
        break;
    case END:
        break;
    }
}

static void let(enum member who, enum deed deed)
{
    shared->deed = deed;
    shared->count++;
    if (who == MAIN)
        return perform(MAIN);
    sem_post(&shared->turn[who]);
    await(&shared->done);
}

/* Takes its turns until the end. */
static void play(enum member me)
{
    do {
        await(&shared->turn[me]);
        perform(me);
        if (shared->deed == END)
            return;
        sem_post(&shared->done);
    } while (1);
}

static void *thread(void *argument)
{
    enum member me = (enum member)(intptr_t)argument;
    if (unshare(me == PLACES ? CLONE_FILES : CLONE_FS))
        die("unshare: %m");
    sem_post(&shared->done);
    play(me);
    sem_post(&shared->done);
    return NULL;
}

static pid_t start(enum member who, int flags)
{
    pid_t pid = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
    if (pid < 0)
        die("clone: %m");
    if (pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pid_t guest = who == WALKER ? start(GUEST, CLONE_FILES) : 0;
    sem_post(&shared->done);
    play(who);
    if (guest) {
        shared->deed = END;
        sem_post(&shared->turn[GUEST]);
        waitpid(guest, NULL, 0);
    }
    _exit(0);
}

/* Opened by one, written to and closed by others. */
static void pass(enum member opens, enum member writes, enum member closes)
{
    let(opens, OPEN);
    let(writes, WRITE);
    let(opens, WRITE);
    let(closes, CLOSE);
}

static void stray(enum member who)
{
    let(who, ENTER);
    let(who, MAKE);
    let(MAIN, MAKE);
    let(who, LEAVE);
}

static void round_of(int threads)
{
    let(MAIN, ENTER);
    let(WALKER, MAKE);
    let(WALKER, MASK);
    let(MAIN, MAKE);
    pass(MAIN, HOLDER, HOLDER);
    pass(HOLDER, MAIN, MAIN);
    pass(WALKER, GUEST, GUEST);
    stray(HOLDER);
    stray(GUEST);
    if (threads) {
        let(PLACES, MAKE);
        let(PLACES, MASK);
        let(WALKER, MAKE);
        pass(MAIN, NUMBERS, HOLDER);
        pass(HOLDER, MAIN, NUMBERS);
        pass(PLACES, PLACES, PLACES);
        stray(NUMBERS);
        let(PLACES, ENTER);
        let(MAIN, MAKE);
        let(WALKER, LEAVE);
    }
    let(WALKER, LEAVE);
}

int main(int count, char **words)
{
    if (count < 3 || chdir(words[1]))
        die("usage: kin DIR threads ROUNDS | kin DIR processes");
    int threads = !strcmp(words[2], "threads");
    unsigned rounds = threads && count > 3 ? strtoul(words[3], NULL, 10) : 0;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        die("mmap: %m");
    for (int i = 0; i < MEMBERS; i++)
        sem_init(&shared->turn[i], 1, 0);
    sem_init(&shared->done, 1, 0);
    signal(SIGTERM, end);
    pid_t holder = start(HOLDER, CLONE_FILES), walker = start(WALKER, CLONE_FS);
    /* The guest says so, too. */
    for (int i = 0; i < 3; i++)
        await(&shared->done);
    pthread_t ids[2];
    for (int i = 0; threads && i < 2; i++) {
        pthread_create(&ids[i], NULL, thread, (void *)(intptr_t)(PLACES + i));
        await(&shared->done);
    }
    printf("ready %d\n", getpid());
    fflush(stdout);
    for (unsigned i = 0; threads ? i < rounds : !over; i++) {
        round_of(threads);
        if (!threads)
            usleep(3000);
    }
    shared->deed = END;
    for (int i = 0; threads && i < 2; i++) {
        sem_post(&shared->turn[PLACES + i]);
        await(&shared->done);
        pthread_join(ids[i], NULL);
    }
    sem_post(&shared->turn[HOLDER]);
    sem_post(&shared->turn[WALKER]);
    int status;
    if (waitpid(holder, &status, 0) < 0 || status || waitpid(walker, &status, 0) < 0 || status)
        die("a child did not end well");
    return 0;
}
