// malloc and free inside a kernel, a virtual call, and recursion that needs a stack.
#include "common.h"

struct Shape {
  __device__ virtual int area() const = 0;
  __device__ virtual ~Shape() {}
};
struct Square : Shape {
  int side;
  __device__ Square(int s) : side(s) {}
  __device__ int area() const override { return side * side; }
};
struct Strip : Shape {
  int length;
  __device__ Strip(int l) : length(l) {}
  __device__ int area() const override { return 3 * length; }
};

__device__ __noinline__ int depth(int n) {
  volatile int keep[8];
  for (int i = 0; i < 8; i++) keep[i] = n + i;
  return n == 0 ? keep[3] : depth(n - 1) + keep[n % 8];
}

__global__ void work(int* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int count = i % 7 + 1;
  int* list = (int*)malloc(count * sizeof(int));
  if (!list) { out[i] = -1; return; }
  for (int k = 0; k < count; k++) list[k] = i + k;
  Shape* shape = i % 2 ? (Shape*)new Square(i % 10) : (Shape*)new Strip(i % 10);
  int sum = shape->area();
  for (int k = 0; k < count; k++) sum += list[k];
  delete shape;
  free(list);
  out[i] = sum + depth(i % 5);
}

static int host_depth(int n) { return n == 0 ? 3 : host_depth(n - 1) + n + n % 8; }

int main() {
  const int n = 256;
  int* d;
  CHECK(hipMalloc(&d, n * sizeof(int)));
  work<<<2, n / 2>>>(d);
  CHECK(hipDeviceSynchronize());
  std::vector<int> out(n);
  CHECK(hipMemcpy(out.data(), d, n * sizeof(int), hipMemcpyDeviceToHost));
  for (int i = 0; i < n; i++) {
    int count = i % 7 + 1, sum = i % 2 ? (i % 10) * (i % 10) : 3 * (i % 10);
    for (int k = 0; k < count; k++) sum += i + k;
    expect("out", i, out[i], sum + host_depth(i % 5));
  }
  return verdict();
}
