// A kernel that writes where nothing is mapped: the runtime names the fault and its address. Older ones then stop the
// program; HIP 7 returns hipErrorIllegalAddress, and whatever the program asks of the device from then on fails.
// The parent of a fork that never touched the GPU looks at how its child ended.
#include "common.h"

#include <string>
#include <sys/wait.h>
#include <unistd.h>

__global__ void poke(int* p) { p[threadIdx.x] = 1; }

int main() {
  int pipes[2];
  if (pipe(pipes)) return 2;
  pid_t child = fork();
  if (child == 0) {
    dup2(pipes[1], 2);
    close(pipes[0]);
    int* p;
    CHECK(hipMalloc(&p, 4096));
    poke<<<1, 64>>>(p);
    CHECK(hipDeviceSynchronize());
    poke<<<1, 64>>>((int*)0x7654321000);
    hipError_t status = hipDeviceSynchronize();
    if (status == hipSuccess) _exit(0);
    std::fprintf(stderr, "synchronize: %s\n", hipGetErrorName(status));
    _exit(status == hipErrorIllegalAddress ? 3 : 4);
  }
  close(pipes[1]);
  std::string text;
  char part[4096];
  for (ssize_t n; (n = read(pipes[0], part, sizeof part)) > 0;) text.append(part, n);
  int status = 0;
  waitpid(child, &status, 0);
  bool stopped = (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) || (WIFEXITED(status) && WEXITSTATUS(status) == 3);
  if (!stopped) {
    std::fprintf(stderr, "the child ended with status %#x\n", status);
    failures++;
  }
  bool named = WIFEXITED(status) || text.find("Memory access fault by GPU node") != std::string::npos;
  if (!named || text.find("7654321000") == std::string::npos) {
    std::fprintf(stderr, "the child said: %s\n", text.c_str());
    failures++;
  }
  return verdict();
}
