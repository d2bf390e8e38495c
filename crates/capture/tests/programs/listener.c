// A filter asks a thread of the same program what becomes of rename; that lets it go on.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
static int listener;
static void *answer(void *unused) {
    struct seccomp_notif asked = {0};
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked)) return 0;
    struct seccomp_notif_resp said = {.id = asked.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &said);
    return 0;
}
int main(void) {
    struct sock_filter lines[] = {
        {0x20, 0, 0, 0}, {0x15, 0, 1, SYS_rename}, {6, 0, 0, SECCOMP_RET_USER_NOTIF}, {6, 0, 0, SECCOMP_RET_ALLOW}};
    struct sock_fprog program = {4, lines};
    unsigned long flags = SECCOMP_FILTER_FLAG_NEW_LISTENER;
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    // Whether the kernel knows it: no filter comes of this.
    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, 0);
    listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
    if (listener < 0) return 1;
    pthread_t thread;
    pthread_create(&thread, 0, answer, 0);
    return syscall(SYS_rename, "a", "b") ? 2 : 0;
}
