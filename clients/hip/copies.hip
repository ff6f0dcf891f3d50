// hipMemcpy in all directions and sizes: below and over 64 KiB, odd sizes and offsets, 2D, pinned and pageable, fills.
#include "common.h"

int main() {
  const size_t sizes[] = {1, 3, 64, 4095, 4096, 65535, 65536, 65537, 1 << 20, (5 << 20) + 13, 40 << 20};
  hipStream_t stream;
  CHECK(hipStreamCreate(&stream));
  for (size_t size : sizes) {
    const size_t shift = 5;
    std::vector<unsigned char> in(size), out(size + 2, 0xee);
    for (size_t i = 0; i < size; i++) in[i] = (unsigned char)(i * 31 + (i >> 8) * 7 + size);
    unsigned char *a, *b, *pinned;
    CHECK(hipMalloc(&a, size + shift));
    CHECK(hipMalloc(&b, size + shift));
    CHECK(hipHostMalloc(&pinned, size + shift, 0));
    CHECK(hipMemcpy(a + shift, in.data(), size, hipMemcpyHostToDevice));
    CHECK(hipMemcpy(b, a + shift, size, hipMemcpyDeviceToDevice));
    CHECK(hipMemcpyAsync(pinned + shift, b, size, hipMemcpyDeviceToHost, stream));
    CHECK(hipStreamSynchronize(stream));
    for (size_t i = 0; i < size; i++) expect("pinned", i, pinned[shift + i], in[i]);
    CHECK(hipMemsetAsync(a, 0x5a, size, stream));
    CHECK(hipMemcpyAsync(b + 1, pinned + shift, size, hipMemcpyHostToDevice, stream));
    CHECK(hipMemcpyAsync(out.data() + 1, b + 1, size, hipMemcpyDeviceToHost, stream));
    CHECK(hipStreamSynchronize(stream));
    expect("guard", 0, out[0], 0xee);
    expect("guard", 1, out[size + 1], 0xee);
    for (size_t i = 0; i < size; i++) expect("pageable", i, out[1 + i], in[i]);
    CHECK(hipMemcpy(out.data(), a, size, hipMemcpyDefault));
    for (size_t i = 0; i < size; i++) expect("fill", i, out[i], 0x5a);
    CHECK(hipFree(a));
    CHECK(hipFree(b));
    CHECK(hipHostFree(pinned));
  }
  const size_t width = 100, height = 37, pitch_host = 128;
  size_t pitch;
  unsigned char* image;
  CHECK(hipMallocPitch((void**)&image, &pitch, width, height));
  std::vector<unsigned char> in(pitch_host * height), out(pitch_host * height, 1);
  for (size_t i = 0; i < in.size(); i++) in[i] = (unsigned char)(i * 13);
  CHECK(hipMemcpy2D(image, pitch, in.data(), pitch_host, width, height, hipMemcpyHostToDevice));
  CHECK(hipMemcpy2D(out.data(), pitch_host, image, pitch, width, height, hipMemcpyDeviceToHost));
  for (size_t y = 0; y < height; y++)
    for (size_t x = 0; x < pitch_host; x++)
      expect("2D", y * pitch_host + x, out[y * pitch_host + x], x < width ? in[y * pitch_host + x] : 1);
  std::vector<unsigned int> words(1000);
  unsigned int* d;
  CHECK(hipMalloc(&d, 4000));
  CHECK(hipMemsetD32((hipDeviceptr_t)d, 0x12345678, 1000));
  CHECK(hipMemcpy(words.data(), d, 4000, hipMemcpyDeviceToHost));
  for (int i = 0; i < 1000; i++) expect("D32", i, words[i], 0x12345678u);
  return verdict();
}
