// Several streams with dependent kernels, ordered across streams by events; elapsed times make sense.
#include "common.h"

__global__ void fill(int* p, int n, int value) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] = value + i;
}
__global__ void scale(int* p, int n, int factor) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] *= factor;
}
__global__ void add(const int* a, const int* b, int* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

int main() {
  const int n = 10000, blocks = (n + 127) / 128;
  int *a, *b, *c;
  CHECK(hipMalloc(&a, n * sizeof(int)));
  CHECK(hipMalloc(&b, n * sizeof(int)));
  CHECK(hipMalloc(&c, n * sizeof(int)));
  hipStream_t s[3];
  for (auto& stream : s) CHECK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  hipEvent_t start, ready, end;
  CHECK(hipEventCreate(&start));
  CHECK(hipEventCreate(&ready));
  CHECK(hipEventCreate(&end));
  std::vector<int> out(n);
  for (int round = 0; round < 5; round++) {
    CHECK(hipEventRecord(start, s[0]));
    fill<<<blocks, 128, 0, s[0]>>>(a, n, round);
    scale<<<blocks, 128, 0, s[0]>>>(a, n, 3);
    fill<<<blocks, 128, 0, s[1]>>>(b, n, 7);
    CHECK(hipEventRecord(ready, s[0]));
    CHECK(hipStreamWaitEvent(s[1], ready, 0));
    add<<<blocks, 128, 0, s[1]>>>(a, b, c, n);
    CHECK(hipEventRecord(end, s[1]));
    CHECK(hipStreamWaitEvent(s[2], end, 0));
    CHECK(hipMemcpyAsync(out.data(), c, n * sizeof(int), hipMemcpyDeviceToHost, s[2]));
    CHECK(hipStreamSynchronize(s[2]));
    for (int i = 0; i < n; i++) expect("c", i, out[i], (round + i) * 3 + 7 + i);
    float ms = -1;
    CHECK(hipEventElapsedTime(&ms, start, end));
    if (!(ms > 0 && ms < 60000)) { std::fprintf(stderr, "elapsed %f ms\n", ms); failures++; }
    CHECK(hipEventQuery(end));
  }
  for (auto& stream : s) CHECK(hipStreamDestroy(stream));
  return verdict();
}
