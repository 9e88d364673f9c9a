// Packs one number into its slot of an argument block.
#pragma once
#include "runtime/Dtype.h"
#include <cstring>

namespace tegula::runtime {

/// Can an integer type hold the argument? int1 holds 0 and 1; true for other types.
inline bool inRange(TegulaDtype s, const TegulaArg &a) {
  bool huge = a.kind == TEGULA_ARG_UINT && a.u.i < 0;
  int64_t v = a.u.i;
  switch (s) {
  case TEGULA_INT8: return !huge && v == static_cast<int8_t>(v);
  case TEGULA_INT16: return !huge && v == static_cast<int16_t>(v);
  case TEGULA_INT32: return !huge && v == static_cast<int32_t>(v);
  case TEGULA_INT64: return !huge;
  case TEGULA_UINT8: return !huge && v == static_cast<uint8_t>(v);
  case TEGULA_UINT16: return !huge && v == static_cast<uint16_t>(v);
  case TEGULA_UINT32: return !huge && v == static_cast<uint32_t>(v);
  case TEGULA_UINT64: return huge || v >= 0;
  default: return true;
  }
}

inline double asNumber(const TegulaArg &a) {
  return a.kind == TEGULA_ARG_FLOAT ? a.u.f : a.kind == TEGULA_ARG_UINT ? double(a.u.u) : double(a.u.i);
}

/// Writes the number as a `type`, without a range check; false: scalars cannot have that type.
inline bool packScalar(TegulaDtype type, const TegulaArg &a, char *to) {
  switch (type) {
  case TEGULA_INT1: {
    uint8_t v = a.kind == TEGULA_ARG_FLOAT ? a.u.f != 0 : a.u.i != 0;
    *to = static_cast<char>(v);
    return true;
  }
  case TEGULA_INT8: case TEGULA_UINT8:
  case TEGULA_INT16: case TEGULA_UINT16:
  case TEGULA_INT32: case TEGULA_UINT32:
  case TEGULA_INT64: case TEGULA_UINT64: {
    static constexpr uint8_t bytes[] = {0, 1, 1, 2, 4, 8, 1, 2, 4, 8};
    std::memcpy(to, &a.u.i, bytes[type]);
    return true;
  }
  case TEGULA_FP32: {
    float v = static_cast<float>(asNumber(a));
    std::memcpy(to, &v, 4);
    return true;
  }
  case TEGULA_FP64: {
    double v = asNumber(a);
    std::memcpy(to, &v, 8);
    return true;
  }
  case TEGULA_FP16:
  case TEGULA_BF16: {
    uint64_t bits = floatToBits(type, asNumber(a));
    std::memcpy(to, &bits, 2);
    return true;
  }
  default: return false;
  }
}

} // namespace tegula::runtime
