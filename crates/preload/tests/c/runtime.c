/* A program that loads a runtime late, and starts it twice. */
#include "check.h"
#include <dlfcn.h>

int main(int argc, char **argv) {
    CHECK(argc == 2);
    CHECK(open("/dev/kfd", O_RDWR) >= 0);
    void *library = dlopen(argv[1], RTLD_NOW);
    CHECK(library);
    int (*start)(void) = (int (*)(void))dlsym(library, "hsa_init");
    CHECK(start && start() >= 0 && start() >= 0);
    return 0;
}
