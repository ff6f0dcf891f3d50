// A failing assert in a kernel: the text names file and condition, and the program is stopped by it.
// The parent of a fork that never touched the GPU looks at how its child ended.
#include "common.h"

#include <cassert>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

__global__ void check(int limit) { assert((int)threadIdx.x < limit && "too many"); }

int main() {
  int pipes[2];
  if (pipe(pipes)) return 2;
  pid_t child = fork();
  if (child == 0) {
    dup2(pipes[1], 2);
    dup2(pipes[1], 1);
    close(pipes[0]);
    check<<<1, 64>>>(64);
    CHECK(hipDeviceSynchronize());
    check<<<1, 64>>>(40);
    hipError_t status = hipDeviceSynchronize();
    std::fprintf(stderr, "synchronize: %s\n", hipGetErrorString(status));
    _exit(status == hipSuccess ? 0 : 3);
  }
  close(pipes[1]);
  std::string text;
  char part[4096];
  for (ssize_t n; (n = read(pipes[0], part, sizeof part)) > 0;) text.append(part, n);
  int status = 0;
  waitpid(child, &status, 0);
  bool stopped = (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) || (WIFEXITED(status) && WEXITSTATUS(status) == 3);
  if (!stopped) { std::fprintf(stderr, "the child ended with status %#x\n", status); failures++; }
  if (text.find("too many") == std::string::npos || text.find("assert.hip") == std::string::npos) {
    std::fprintf(stderr, "the child said: %s\n", text.c_str());
    failures++;
  }
  return verdict();
}
