// Cooperative launch: all workgroups meet at grid barriers; each round reads what others wrote in the round before.
#include "common.h"

#include <hip/hip_cooperative_groups.h>
namespace cg = cooperative_groups;

__global__ void rounds(int* a, int* b, int n, int times) {
  cg::grid_group grid = cg::this_grid();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int t = 0; t < times; t++) {
    if (i < n) b[i] = a[i] + a[(i + 97) % n];
    grid.sync();
    int* other = a;
    a = b;
    b = other;
  }
}

int main() {
  const int n = 2048, threads = 256, times = 6;
  int works = 0;
  CHECK(hipDeviceGetAttribute(&works, hipDeviceAttributeCooperativeLaunch, 0));
  if (!works) { std::fprintf(stderr, "the device has no cooperative launch\n"); return 1; }
  int *a, *b;
  CHECK(hipMalloc(&a, n * sizeof(int)));
  CHECK(hipMalloc(&b, n * sizeof(int)));
  std::vector<unsigned> x(n), y(n), out(n);
  for (int i = 0; i < n; i++) x[i] = i * i + 1;
  CHECK(hipMemcpy(a, x.data(), n * sizeof(int), hipMemcpyHostToDevice));
  int count = n, repeat = times;
  void* args[] = {&a, &b, &count, &repeat};
  CHECK(hipLaunchCooperativeKernel((void*)rounds, dim3(n / threads), dim3(threads), args, 0, 0));
  CHECK(hipDeviceSynchronize());
  CHECK(hipMemcpy(out.data(), a, n * sizeof(int), hipMemcpyDeviceToHost));
  for (int t = 0; t < times; t++) {
    for (int i = 0; i < n; i++) y[i] = x[i] + x[(i + 97) % n];
    x.swap(y);
  }
  for (int i = 0; i < n; i++) expect("a", i, out[i], x[i]);
  return verdict();
}
