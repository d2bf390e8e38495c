/* Descriptors that are passed through a UNIX socket: the receiver has the sender's description under a number of its
 * own. */
#include "case.h"

static void send_fds(int socket, const int *fds, int count, const char *text) {
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(8 * sizeof(int))];
    } control = {0};
    struct iovec piece = {(char *)text, strlen(text)};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    message.msg_control = &control;
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    control.header = (struct cmsghdr){CMSG_LEN(count * sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.header), fds, count * sizeof(int));
    must(sendmsg(socket, &message, 0));
}

/* Receives a message; how many descriptors came with it, for which there is this much room. */
static int receive_fds(int socket, int *fds, int room, int flags) {
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(8 * sizeof(int))];
    } control = {0};
    char text[64];
    struct iovec piece = {text, sizeof text};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    message.msg_control = &control;
    message.msg_controllen = CMSG_SPACE(room * sizeof(int));
    must(recvmsg(socket, &message, flags));
    if (message.msg_controllen < sizeof(struct cmsghdr))
        return 0;
    int count = (control.header.cmsg_len - CMSG_LEN(0)) / sizeof(int);
    memcpy(fds, CMSG_DATA(&control.header), count * sizeof(int));
    return count;
}

static void child(int socket) {
    int fds[8];
    holds(receive_fds(socket, fds, 8, MSG_CMSG_CLOEXEC) == 1);
    holds(fcntl(fds[0], F_GETFD) == FD_CLOEXEC);
    /* The offset is the sender's, and moves for both. */
    gives(fds[0], "second ");
    give_turn(1);
    /* One that has no name, and one whose sender closed it before it was received. */
    holds(receive_fds(socket, fds + 1, 7, 0) == 3);
    must(write(fds[1], "written by the child", 20));
    must(linkat(fds[1], "", AT_FDCWD, "nameless", AT_EMPTY_PATH));
    gives(fds[2], "unlinked");
    has("dir/in", "in");
    must(fchdir(fds[3]));
    has("in", "in");
    must(close(fds[2]));
    /* A look at a message gives the descriptor too, and leaves it there. */
    holds(receive_fds(socket, fds + 4, 1, MSG_PEEK) >= 1);
    holds(lseek(fds[4], 0, SEEK_CUR) == 18);
    must(close(fds[4]));
    /* One of two is received: there is no room for the other. */
    holds(receive_fds(socket, fds + 4, 1, 0) >= 1);
    /* What comes with bytes that are merely read is lost. */
    gives(socket, "lost");
    /* What comes last is passed back. */
    must(pwrite(fds[0], "child", 5, 0));
    int made = must(openat(fds[3], "made", O_RDWR | O_CREAT | O_EXCL, 0644));
    must(write(made, "by the child", 12));
    send_fds(socket, &made, 1, "back");
    must(close(made));
    _exit(0);
}

int main(void) {
    share_turns();
    put("file", "first second third");
    put("gone", "unlinked");
    must(mkdir("dir", 0755));
    put("dir/in", "in");
    int ends[2], fds[4];
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    pid_t pid = must(fork());
    if (pid == 0) {
        must(close(ends[0]));
        child(ends[1]);
    }
    must(close(ends[1]));
    int file = must(open("file", O_RDWR));
    gives(file, "first ");
    send_fds(ends[0], &file, 1, "one");
    await_turn(1);
    gives(file, "third");
    fds[0] = must(open(".", O_TMPFILE | O_RDWR, 0600));
    fds[1] = must(open("gone", O_RDONLY));
    fds[2] = must(open("dir", O_RDONLY | O_DIRECTORY));
    must(unlink("gone"));
    send_fds(ends[0], fds, 3, "three");
    for (int i = 0; i < 3; i++)
        must(close(fds[i]));
    fds[0] = must(dup(file));
    fds[1] = file;
    send_fds(ends[0], fds, 2, "two");
    send_fds(ends[0], fds, 1, "lost");
    holds(receive_fds(ends[0], fds, 4, 0) == 1);
    must(lseek(fds[0], 0, SEEK_SET));
    gives(fds[0], "by the child");
    wait_for(pid);
    has("nameless", "written by the child");
    has("file", "child second");
    return 0;
}
