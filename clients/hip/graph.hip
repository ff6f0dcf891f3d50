// A captured graph and one built by hand, each launched several times.
#include "common.h"

__global__ void step(int* p, int n, int add) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] = p[i] * 3 + add;
}

int main() {
  const int n = 3000, blocks = (n + 255) / 256;
  int* p;
  CHECK(hipMalloc(&p, n * sizeof(int)));
  std::vector<int> in(n), out(n), want(n);
  for (int i = 0; i < n; i++) in[i] = want[i] = i;
  hipStream_t stream;
  CHECK(hipStreamCreate(&stream));
  hipGraph_t graph;
  hipGraphExec_t exec;
  CHECK(hipMemcpy(p, in.data(), n * sizeof(int), hipMemcpyHostToDevice));
  CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  for (int k = 0; k < 4; k++) step<<<blocks, 256, 0, stream>>>(p, n, k);
  CHECK(hipMemcpyAsync(out.data(), p, n * sizeof(int), hipMemcpyDeviceToHost, stream));
  CHECK(hipStreamEndCapture(stream, &graph));
  CHECK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  for (int launch = 0; launch < 3; launch++) {
    CHECK(hipGraphLaunch(exec, stream));
    CHECK(hipStreamSynchronize(stream));
    for (int i = 0; i < n; i++) {
      for (int k = 0; k < 4; k++) want[i] = (int)((unsigned)want[i] * 3 + k);
      expect("captured", i, out[i], want[i]);
    }
  }
  CHECK(hipGraphExecDestroy(exec));
  CHECK(hipGraphDestroy(graph));

  CHECK(hipGraphCreate(&graph, 0));
  int count = n, add = 11;
  void* args[] = {&p, &count, &add};
  hipKernelNodeParams params = {};
  params.func = (void*)step;
  params.gridDim = dim3(blocks);
  params.blockDim = dim3(256);
  params.kernelParams = args;
  hipGraphNode_t first, second, copy;
  CHECK(hipGraphAddKernelNode(&first, graph, nullptr, 0, &params));
  CHECK(hipGraphAddKernelNode(&second, graph, &first, 1, &params));
  CHECK(hipGraphAddMemcpyNode1D(&copy, graph, &second, 1, out.data(), p, n * sizeof(int), hipMemcpyDeviceToHost));
  CHECK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  CHECK(hipGraphLaunch(exec, stream));
  CHECK(hipStreamSynchronize(stream));
  for (int i = 0; i < n; i++)
    expect("built", i, out[i], (int)(((unsigned)want[i] * 3 + 11) * 3 + 11));
  return verdict();
}
