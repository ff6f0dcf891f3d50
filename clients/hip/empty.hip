// The least that a HIP program does: what starting costs is measured with it (rocjitsu-bench programs).
#include "common.h"

int main() {
  int devices = 0;
  CHECK(hipInit(0));
  CHECK(hipGetDeviceCount(&devices));
  CHECK(hipFree(nullptr));  // makes the context
  if (devices != 1) { std::fprintf(stderr, "%d devices\n", devices); return 1; }
  std::puts("PASS");
}
