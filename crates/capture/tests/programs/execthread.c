// A thread that is not the first runs another program while others sleep.
#include <pthread.h>
#include <unistd.h>
static void *sleeper(void *arg) { for (;;) pause(); }
static void *runner(void *arg) {
    usleep(20000);
    execl("/bin/sh", "sh", "-c", "echo from the new program; exit 9", (char *)0);
    return 0;
}
int main(void) {
    pthread_t a, b;
    pthread_create(&a, 0, sleeper, 0);
    pthread_create(&b, 0, runner, 0);
    pthread_join(a, 0);
}
