/* What the test programs share. Every program takes the name of a check and exits with 0 if it holds. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "%s:%d: %s (errno %d, %s)\n", __FILE__, __LINE__, #what, errno, strerror(errno)); \
            exit(1); \
        } \
    } while (0)

#define NODES "/sys/devices/virtual/kfd/kfd/topology/nodes"
#define KFD_GET_VERSION 0x80084b01u

static inline int kfd_version_ok(int fd) {
    uint32_t version[2] = {0, 0};
    return ioctl(fd, KFD_GET_VERSION, version) == 0 && version[0] == 1 && version[1] >= 12;
}

struct check {
    const char *name;
    void (*run)(void);
};

static inline int run_check(const struct check *checks, int count, const char *name) {
    for (int i = 0; i < count; i++)
        if (strcmp(checks[i].name, name) == 0) {
            checks[i].run();
            return 0;
        }
    fprintf(stderr, "no check %s\n", name);
    return 2;
}
