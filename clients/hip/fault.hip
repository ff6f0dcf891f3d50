// A kernel that writes where nothing is mapped: the runtime reports a memory access fault and stops the program.
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
    (void)hipDeviceSynchronize();
    _exit(0);
  }
  close(pipes[1]);
  std::string text;
  char part[4096];
  for (ssize_t n; (n = read(pipes[0], part, sizeof part)) > 0;) text.append(part, n);
  int status = 0;
  waitpid(child, &status, 0);
  if (!(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT)) {
    std::fprintf(stderr, "the child ended with status %#x\n", status);
    failures++;
  }
  if (text.find("Memory access fault by GPU node") == std::string::npos || text.find("0x7654321000") == std::string::npos) {
    std::fprintf(stderr, "the child said: %s\n", text.c_str());
    failures++;
  }
  return verdict();
}
