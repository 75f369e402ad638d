/* A slower disk: each flush takes a millisecond longer. Loaded before the C library (LD_PRELOAD) by programs that are
 * measured with it. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int slowly(int result) {
    struct timespec millisecond = {0, 1000000};
    if (result == 0) nanosleep(&millisecond, 0);
    return result;
}

int fsync(int fd) { return slowly((int)syscall(SYS_fsync, fd)); }
int fdatasync(int fd) { return slowly((int)syscall(SYS_fdatasync, fd)); }
