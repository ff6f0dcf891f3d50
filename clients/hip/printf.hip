// printf from a kernel: the lines of all work-items arrive, with every kind of argument.
#include "common.h"

#include <unistd.h>

#include <algorithm>
#include <string>

__global__ void talk(int base) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i % 16 == 0) printf("item %d of %s: %5.2f %llx %c\n", i + base, "talk", i * 0.5, 0x123456789abcull + i, 'a' + i / 16);
}

int main() {
  char name[] = "/tmp/rocjitsu-printf-XXXXXX";
  int file = mkstemp(name), saved = dup(1);
  std::fflush(stdout);
  dup2(file, 1);
  talk<<<2, 64>>>(1000);
  CHECK(hipDeviceSynchronize());
  std::fflush(stdout);
  dup2(saved, 1);
  lseek(file, 0, SEEK_SET);
  std::string text(1 << 16, '\0');
  ssize_t length = read(file, text.data(), text.size());
  text.resize(length < 0 ? 0 : length);
  unlink(name);
  for (int i = 0; i < 128; i += 16) {
    char want[100];
    std::snprintf(want, sizeof want, "item %d of talk: %5.2f %llx %c\n", i + 1000, i * 0.5, 0x123456789abcull + i, 'a' + i / 16);
    if (text.find(want) == std::string::npos) { std::fprintf(stderr, "missing: %s", want); failures++; }
  }
  expect("lines", 0, (long)std::count(text.begin(), text.end(), '\n'), 8);
  return verdict();
}
