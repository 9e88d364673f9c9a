#include "Tensor.h"
#include <cstdlib>
#include <cstring>

namespace llm {

float Tensor::at(int64_t i) const {
  switch (dtype) {
  case TEGULA_FP32: return static_cast<const float *>(data)[i];
  case TEGULA_BF16: return fromBf16(static_cast<const uint16_t *>(data)[i]);
  case TEGULA_FP16: return static_cast<float>(tegula_float_from_bits(TEGULA_FP16, static_cast<const uint16_t *>(data)[i]));
  case TEGULA_INT8: return static_cast<const int8_t *>(data)[i];
  case TEGULA_UINT8: return static_cast<const uint8_t *>(data)[i];
  case TEGULA_INT32: return static_cast<float>(static_cast<const int32_t *>(data)[i]);
  default: return 0;
  }
}

Tensor Tensor::make(TegulaDtype dtype, std::vector<int64_t> shape, void **writable) {
  Tensor t;
  t.dtype = dtype;
  t.shape = std::move(shape);
  size_t size = (static_cast<size_t>(t.bytes()) + 63) / 64 * 64;
  void *memory = std::aligned_alloc(64, size ? size : 64);
  if (!memory) std::abort(); // the programs ask whether there is enough before they allocate
  std::memset(memory, 0, size);
  t.data = memory;
  t.owner = std::shared_ptr<const void>(memory, [](const void *p) { std::free(const_cast<void *>(p)); });
  if (writable) *writable = memory;
  return t;
}

std::string describe(const Tensor &t) {
  std::string text = std::string(tegula_dtype_name(t.dtype)) + "[";
  for (size_t i = 0; i < t.shape.size(); ++i) text += (i ? ", " : "") + std::to_string(t.shape[i]);
  return text + "]";
}

} // namespace llm
