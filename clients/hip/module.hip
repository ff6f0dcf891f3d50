// hiprtc: compiles a kernel at run time, loads it as a module from memory and from a file, reads and writes its global.
#include "common.h"

#include <hip/hiprtc.h>
#include <string>
#include <unistd.h>

static const char* source = R"(
extern "C" __device__ int offset = 5;
extern "C" __global__ void shift(const int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] * SCALE + offset;
}
)";

int main() {
  hipDeviceProp_t properties;
  CHECK(hipGetDeviceProperties(&properties, 0));
  std::string arch = std::string("--offload-arch=") + properties.gcnArchName;
  const char* options[] = {arch.c_str(), "-DSCALE=4"};
  hiprtcProgram program;
  if (hiprtcCreateProgram(&program, source, "shift.hip", 0, nullptr, nullptr) != HIPRTC_SUCCESS) return 2;
  if (hiprtcCompileProgram(program, 2, options) != HIPRTC_SUCCESS) {
    size_t length;
    hiprtcGetProgramLogSize(program, &length);
    std::string log(length, '\0');
    hiprtcGetProgramLog(program, log.data());
    std::fprintf(stderr, "%s\n", log.c_str());
    return 2;
  }
  size_t size;
  hiprtcGetCodeSize(program, &size);
  std::vector<char> code(size);
  hiprtcGetCode(program, code.data());
  char name[] = "/tmp/rocjitsu-module-XXXXXX";
  int file = mkstemp(name);
  if (write(file, code.data(), size) != (ssize_t)size) return 2;

  const int n = 1000;
  int *in, *out;
  CHECK(hipMalloc(&in, n * sizeof(int)));
  CHECK(hipMalloc(&out, n * sizeof(int)));
  std::vector<int> host(n), got(n);
  for (int i = 0; i < n; i++) host[i] = i;
  CHECK(hipMemcpy(in, host.data(), n * sizeof(int), hipMemcpyHostToDevice));
  for (int from_file = 0; from_file < 2; from_file++) {
    hipModule_t module;
    if (from_file) CHECK(hipModuleLoad(&module, name));
    else CHECK(hipModuleLoadData(&module, code.data()));
    hipFunction_t function;
    CHECK(hipModuleGetFunction(&function, module, "shift"));
    hipDeviceptr_t offset;
    size_t bytes;
    CHECK(hipModuleGetGlobal(&offset, &bytes, module, "offset"));
    int value = 0;
    CHECK(hipMemcpyDtoH(&value, offset, bytes));
    expect("offset", 0, value, 5);
    for (int add : {100, -3}) {
      CHECK(hipMemcpyHtoD(offset, &add, sizeof add));
      int count = n;
      void* args[] = {&in, &out, &count};
      CHECK(hipModuleLaunchKernel(function, (n + 63) / 64, 1, 1, 64, 1, 1, 0, 0, args, nullptr));
      CHECK(hipMemcpy(got.data(), out, n * sizeof(int), hipMemcpyDeviceToHost));
      for (int i = 0; i < n; i++) expect("out", i, got[i], 4 * i + add);
    }
    CHECK(hipModuleUnload(module));
  }
  unlink(name);
  return verdict();
}
