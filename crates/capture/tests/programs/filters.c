// A program that filters its own calls and asks to be traced.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <unistd.h>
int main(void) {
    struct sock_filter allow = {6, 0, 0, 0x7fff0000};
    struct sock_fprog program = {1, &allow};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 1;
    ptrace(PTRACE_TRACEME, 0, 0, 0);
    syscall(499);
    syscall(-1);
    write(1, "done\n", 5);
    return 0;
}
