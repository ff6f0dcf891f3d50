// Pinned and mapped host memory, registered host memory, managed memory, stream-ordered allocation, hipMemGetInfo.
#include "common.h"

__global__ void twice(int* p, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] *= 2;
}

int main() {
  const int n = 5000, blocks = (n + 255) / 256;
  size_t free0, total, free1;
  CHECK(hipMemGetInfo(&free0, &total));
  if (free0 == 0 || free0 > total) { std::fprintf(stderr, "free %zu of %zu\n", free0, total); failures++; }
  void* big;
  CHECK(hipMalloc(&big, 256 << 20));
  CHECK(hipMemGetInfo(&free1, &total));
  if (free1 > free0 - (256 << 20)) { std::fprintf(stderr, "free %zu, then %zu\n", free0, free1); failures++; }
  CHECK(hipFree(big));

  int *mapped, *view;
  CHECK(hipHostMalloc(&mapped, n * sizeof(int), hipHostMallocMapped));
  CHECK(hipHostGetDevicePointer((void**)&view, mapped, 0));
  for (int i = 0; i < n; i++) mapped[i] = i;
  twice<<<blocks, 256>>>(view, n);
  CHECK(hipDeviceSynchronize());
  for (int i = 0; i < n; i++) expect("mapped", i, mapped[i], 2 * i);
  CHECK(hipHostFree(mapped));

  std::vector<int> own(n + 3);
  for (int i = 0; i < n; i++) own[3 + i] = i + 1;
  CHECK(hipHostRegister(own.data() + 3, n * sizeof(int), hipHostRegisterDefault));
  CHECK(hipHostGetDevicePointer((void**)&view, own.data() + 3, 0));
  twice<<<blocks, 256>>>(view, n);
  CHECK(hipDeviceSynchronize());
  for (int i = 0; i < n; i++) expect("registered", i, own[3 + i], 2 * (i + 1));
  CHECK(hipHostUnregister(own.data() + 3));

  int* managed;
  CHECK(hipMallocManaged(&managed, n * sizeof(int)));
  for (int i = 0; i < n; i++) managed[i] = 5 * i;
  twice<<<blocks, 256>>>(managed, n);
  CHECK(hipDeviceSynchronize());
  for (int i = 0; i < n; i++) managed[i]++;
  twice<<<blocks, 256>>>(managed, n);
  CHECK(hipDeviceSynchronize());
  for (int i = 0; i < n; i++) expect("managed", i, managed[i], 2 * (10 * i + 1));
  CHECK(hipFree(managed));

  hipStream_t stream;
  CHECK(hipStreamCreate(&stream));
  std::vector<int> out(n);
  for (int round = 0; round < 3; round++) {
    int* p;
    CHECK(hipMallocAsync((void**)&p, n * sizeof(int), stream));
    CHECK(hipMemsetAsync(p, 1, n * sizeof(int), stream));
    twice<<<blocks, 256, 0, stream>>>(p, n);
    CHECK(hipMemcpyAsync(out.data(), p, n * sizeof(int), hipMemcpyDeviceToHost, stream));
    CHECK(hipFreeAsync(p, stream));
    CHECK(hipStreamSynchronize(stream));
    for (int i = 0; i < n; i++) expect("async", i, out[i], 0x02020202);
  }
  return verdict();
}
