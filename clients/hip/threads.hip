// Several host threads, each with a stream and buffers of its own, launch and copy at the same time.
#include "common.h"

#include <atomic>
#include <thread>

__global__ void mix(unsigned* p, int n, unsigned key) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] = (p[i] ^ key) * 2654435761u;
}

int main() {
  const int n = 4096, rounds = 20;
  std::atomic<long> bad{0};
  auto work = [&](unsigned id) {
    CHECK(hipSetDevice(0));
    hipStream_t stream;
    CHECK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    unsigned* p;
    CHECK(hipMalloc(&p, n * sizeof(unsigned)));
    std::vector<unsigned> host(n), want(n);
    for (int i = 0; i < n; i++) host[i] = want[i] = i * id;
    CHECK(hipMemcpyAsync(p, host.data(), n * sizeof(unsigned), hipMemcpyHostToDevice, stream));
    for (int r = 0; r < rounds; r++) {
      mix<<<n / 256, 256, 0, stream>>>(p, n, r + id);
      for (auto& w : want) w = (w ^ (r + id)) * 2654435761u;
      if (r % 5 == 4) {
        CHECK(hipMemcpyAsync(host.data(), p, n * sizeof(unsigned), hipMemcpyDeviceToHost, stream));
        CHECK(hipStreamSynchronize(stream));
        if (host != want) bad++;
      }
    }
    CHECK(hipFree(p));
    CHECK(hipStreamDestroy(stream));
  };
  std::vector<std::thread> threads;
  for (unsigned id = 1; id <= 6; id++) threads.emplace_back(work, id);
  for (auto& thread : threads) thread.join();
  failures += bad;
  return verdict();
}
