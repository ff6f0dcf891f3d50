/* Stands for a ROCr that knows two targets. */
#include <fcntl.h>

const char targets[] = "amdgcn-amd-amdhsa--gfx90a:xnack+\0amdgcn-amd-amdhsa--gfx942";

int hsa_init(void) {
    return open("/dev/kfd", O_RDWR | O_CLOEXEC);
}
