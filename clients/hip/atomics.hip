// Atomics of all widths on global memory, across workgroups and with the host, ballots and shuffles.
#include "common.h"

__global__ void count(unsigned* u32, unsigned long long* u64, float* f32, double* f64, int* low, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  atomicAdd(u32, 1u);
  atomicAdd(u64, (unsigned long long)i << 20);
  atomicAdd(f32, 0.5f);
  atomicAdd(f64, 0.25);
  atomicMin(low, -i);
  atomicMax(u32 + 1, (unsigned)i);
  atomicXor(u32 + 2, (unsigned)i);
  unsigned seen = 0, old = u32[3];
  do { seen = old; old = atomicCAS(u32 + 3, seen, seen + 2); } while (old != seen);
}
__global__ void lanes(unsigned long long* ballots, int* shuffled) {
  int i = threadIdx.x;
  unsigned long long b = __ballot(i % 3 == 0);
  if (i % warpSize == 0) ballots[i / warpSize] = b;
  shuffled[i] = __shfl_xor(i, 5) + __shfl_down(i, 1) * 1000;
}

int main() {
  const int n = 3000;
  unsigned* u32;
  unsigned long long* u64;
  float* f32;
  double* f64;
  int* low;
  CHECK(hipMallocManaged(&u32, 16));
  CHECK(hipMallocManaged(&u64, 8));
  CHECK(hipMallocManaged(&f32, 4));
  CHECK(hipMallocManaged(&f64, 8));
  CHECK(hipMallocManaged(&low, 4));
  std::memset(u32, 0, 16);
  *u64 = 0; *f32 = 0; *f64 = 0; *low = 0;
  count<<<(n + 127) / 128, 128>>>(u32, u64, f32, f64, low, n);
  CHECK(hipDeviceSynchronize());
  unsigned x = 0;
  for (int i = 0; i < n; i++) x ^= i;
  expect("add", 0, u32[0], n);
  expect("max", 0, u32[1], n - 1);
  expect("xor", 0, u32[2], x);
  expect("cas", 0, u32[3], 2 * n);
  expect("add64", 0, *u64, ((unsigned long long)n * (n - 1) / 2) << 20);
  expect("f32", 0, *f32 == n * 0.5f, true);
  expect("f64", 0, *f64 == n * 0.25, true);
  expect("min", 0, *low, -(n - 1));
  hipDeviceProp_t p;
  CHECK(hipGetDeviceProperties(&p, 0));
  unsigned long long* ballots;
  int* shuffled;
  CHECK(hipMallocManaged(&ballots, 64));
  CHECK(hipMallocManaged(&shuffled, 128 * sizeof(int)));
  lanes<<<1, 128>>>(ballots, shuffled);
  CHECK(hipDeviceSynchronize());
  for (int w = 0; w < 128 / p.warpSize; w++) {
    unsigned long long want = 0;
    for (int l = 0; l < p.warpSize; l++) want |= (unsigned long long)((w * p.warpSize + l) % 3 == 0) << l;
    expect("ballot", w, ballots[w], want);
  }
  for (int i = 0; i < 128; i++) {
    int down = i % p.warpSize == p.warpSize - 1 ? i : i + 1;
    expect("shuffle", i, shuffled[i], (i ^ 5) + down * 1000);
  }
  return verdict();
}
