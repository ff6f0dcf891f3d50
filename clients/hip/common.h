// What every program here shares: error checks and the verdict. A program prints PASS and ends with 0,
// or prints what is wrong and ends with 1; 2 is an error of the HIP runtime.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <hip/hip_runtime.h>

#define CHECK(call)                                                                                   \
  do {                                                                                                \
    hipError_t status_ = (call);                                                                      \
    if (status_ != hipSuccess) {                                                                      \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, hipGetErrorString(status_)); \
      std::exit(2);                                                                                   \
    }                                                                                                 \
  } while (0)

inline long failures = 0;

template <class A, class B>
void expect(const char* what, long index, A got, B want) {
  if (got == static_cast<A>(want)) return;
  if (failures++ < 5)
    std::fprintf(stderr, "%s[%ld]: %lld, expected %lld\n", what, index, (long long)got, (long long)want);
}

inline int verdict() {
  if (failures) std::printf("FAIL (%ld)\n", failures);
  else std::printf("PASS\n");
  return failures ? 1 : 0;
}
