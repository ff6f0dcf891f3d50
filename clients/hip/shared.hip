// Dynamic shared memory of several sizes beside static one, with barriers, and atomics on it.
#include "common.h"

__global__ void reverse(const int* in, int* out, int n) {
  extern __shared__ int tile[];
  __shared__ int fixed[4];
  if (threadIdx.x < 4) fixed[threadIdx.x] = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) tile[i] = in[blockIdx.x * n + i];
  __syncthreads();
  atomicAdd(&fixed[threadIdx.x % 4], tile[threadIdx.x % n]);
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[blockIdx.x * n + i] = tile[n - 1 - i] + fixed[i % 4];
}

int main() {
  for (int n : {64, 500, 4096, 12000}) {
    const int groups = 5, threads = 256;
    std::vector<int> in(groups * n), out(groups * n);
    for (int i = 0; i < groups * n; i++) in[i] = i * 7 % 1001;
    int *a, *b;
    CHECK(hipMalloc(&a, in.size() * sizeof(int)));
    CHECK(hipMalloc(&b, in.size() * sizeof(int)));
    CHECK(hipMemcpy(a, in.data(), in.size() * sizeof(int), hipMemcpyHostToDevice));
    reverse<<<groups, threads, n * sizeof(int)>>>(a, b, n);
    CHECK(hipGetLastError());
    CHECK(hipMemcpy(out.data(), b, in.size() * sizeof(int), hipMemcpyDeviceToHost));
    for (int g = 0; g < groups; g++) {
      int fixed[4] = {};
      for (int t = 0; t < threads; t++) fixed[t % 4] += in[g * n + t % n];
      for (int i = 0; i < n; i++) expect("out", g * n + i, out[g * n + i], in[g * n + n - 1 - i] + fixed[i % 4]);
    }
    CHECK(hipFree(a));
    CHECK(hipFree(b));
  }
  return verdict();
}
