/* A library that the program needs: its constructor runs before the one of the preloaded library. */
#include "check.h"

int opened_early = -1;

__attribute__((constructor)) static void early(void) {
    struct stat st;
    CHECK(stat(NODES "/1/gpu_id", &st) == 0 && S_ISREG(st.st_mode));
    DIR *dir = opendir(NODES);
    CHECK(dir && readdir(dir) && closedir(dir) == 0);
    opened_early = open("/dev/kfd", O_RDWR);
    CHECK(opened_early >= 0 && kfd_version_ok(opened_early));
}
