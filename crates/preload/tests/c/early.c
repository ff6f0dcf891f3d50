/* What a library opened before the preloaded one had run its constructor stays good. */
#include "check.h"

extern int opened_early;

int main(void) {
    CHECK(opened_early >= 0 && kfd_version_ok(opened_early));
    struct stat st;
    CHECK(fstat(opened_early, &st) == 0 && S_ISCHR(st.st_mode));
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(!kfd_version_ok(opened_early) && errno == EBADF);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(kfd_version_ok(opened_early) && close(opened_early) == 0);
    return 0;
}
