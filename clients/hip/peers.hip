// Two GPUs: peer access from a kernel, hipMemcpyPeer both ways, events of one device awaited by the other.
#include "common.h"

__global__ void add(const int* from, int* to, int n, int k) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] = from[i] + k;
}

int main() {
  int count = 0;
  CHECK(hipGetDeviceCount(&count));
  if (count < 2) { std::fprintf(stderr, "%d device: this program needs two (--num-gpus 2)\n", count); return 1; }
  const int n = 6000, blocks = (n + 255) / 256;
  int* p[2];
  hipStream_t s[2];
  for (int d = 0; d < 2; d++) {
    CHECK(hipSetDevice(d));
    int can = 0;
    CHECK(hipDeviceCanAccessPeer(&can, d, 1 - d));
    expect("peer access", d, can, 1);
    CHECK(hipDeviceEnablePeerAccess(1 - d, 0));
    CHECK(hipMalloc(&p[d], n * sizeof(int)));
    CHECK(hipStreamCreate(&s[d]));
  }
  std::vector<int> in(n), out(n);
  for (int i = 0; i < n; i++) in[i] = i * 3;
  CHECK(hipMemcpy(p[0], in.data(), n * sizeof(int), hipMemcpyHostToDevice));
  CHECK(hipSetDevice(1));
  add<<<blocks, 256, 0, s[1]>>>(p[0], p[1], n, 1);
  hipEvent_t done;
  CHECK(hipEventCreate(&done));
  CHECK(hipEventRecord(done, s[1]));
  CHECK(hipSetDevice(0));
  CHECK(hipStreamWaitEvent(s[0], done, 0));
  add<<<blocks, 256, 0, s[0]>>>(p[1], p[0], n, 10);
  CHECK(hipStreamSynchronize(s[0]));
  CHECK(hipMemcpy(out.data(), p[0], n * sizeof(int), hipMemcpyDeviceToHost));
  for (int i = 0; i < n; i++) expect("kernel", i, out[i], in[i] + 11);
  CHECK(hipMemcpyPeer(p[1], 1, p[0], 0, n * sizeof(int)));
  CHECK(hipMemset(p[0], 0, n * sizeof(int)));
  CHECK(hipMemcpyPeerAsync(p[0], 0, p[1], 1, n * sizeof(int), s[0]));
  CHECK(hipStreamSynchronize(s[0]));
  CHECK(hipMemcpy(out.data(), p[0], n * sizeof(int), hipMemcpyDeviceToHost));
  for (int i = 0; i < n; i++) expect("copy", i, out[i], in[i] + 11);
  return verdict();
}
