// Slow, obviously right reference of the narrow float formats, for tests: codes decoded by ldexp, encoded by search.
#pragma once
#include "ir/Type.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace tegula::cpu::reference {

struct Format {
  ir::Elem elem;
  const char *name;
  int exponentBits, mantissaBits, bias;
  bool infinity; // the all-ones exponent means infinity and NaN
  int nanCode;   // -1: all-ones exponent with a mantissa; -2: there is none
  bool saturates;
};

inline const std::vector<Format> &formats() {
  static const std::vector<Format> all = {
      {ir::Elem::F16, "f16", 5, 10, 15, true, -1, false},
      {ir::Elem::BF16, "bf16", 8, 7, 127, true, -1, false},
      {ir::Elem::F8E5M2, "f8e5m2", 5, 2, 15, true, -1, true},
      {ir::Elem::F8E4M3FN, "f8e4m3fn", 4, 3, 7, false, 0x7F, true},
      {ir::Elem::F8E4B15, "f8e4b15", 4, 3, 15, false, -2, true},
      {ir::Elem::F8E4B8, "f8e4b8", 4, 3, 8, false, 0x80, true},
      {ir::Elem::F8E5B16, "f8e5b16", 5, 2, 16, false, 0x80, true},
  };
  return all;
}
inline const Format &format(ir::Elem e) {
  return *std::find_if(formats().begin(), formats().end(), [&](const Format &f) { return f.elem == e; });
}

inline double decode(const Format &f, uint32_t code) {
  int width = 1 + f.exponentBits + f.mantissaBits;
  uint32_t magnitude = code & ((1u << (width - 1)) - 1);
  double sign = code >> (width - 1) & 1 ? -1 : 1;
  int e = static_cast<int>(magnitude >> f.mantissaBits), m = static_cast<int>(magnitude & ((1u << f.mantissaBits) - 1));
  if (f.nanCode == 0x80 ? code == 0x80 : f.nanCode >= 0 && magnitude == static_cast<uint32_t>(f.nanCode))
    return std::numeric_limits<double>::quiet_NaN();
  if (f.infinity && e == (1 << f.exponentBits) - 1)
    return m ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  double value =
      e ? std::ldexp(1.0 + std::ldexp(m, -f.mantissaBits), e - f.bias) : std::ldexp(m, 1 - f.bias - f.mantissaBits);
  return sign * value;
}

/// Non-negative finite values in order of their codes 0, 1, 2, ...
inline std::vector<double> finiteValues(const Format &f) {
  std::vector<double> values;
  for (uint32_t code = 0; code < 1u << (f.exponentBits + f.mantissaBits); ++code) {
    double v = decode(f, code);
    if (!std::isfinite(v))
      break;
    values.push_back(v);
  }
  return values;
}

/// Code of x: nearest even, or toward zero. NaN gives ~0u (any NaN code is right, tests ask decode).
inline uint32_t encode(const Format &f, const std::vector<double> &values, double x, bool towardZero) {
  if (std::isnan(x))
    return ~0u;
  int width = 1 + f.exponentBits + f.mantissaBits;
  uint32_t sign = std::signbit(x) ? 1u << (width - 1) : 0, last = static_cast<uint32_t>(values.size() - 1);
  double a = std::fabs(x);
  auto up = static_cast<uint32_t>(std::lower_bound(values.begin(), values.end(), a) - values.begin());
  uint32_t code;
  if (up <= last && values[up] == a)
    code = up;
  else if (up <= last) {
    double below = a - values[up - 1], above = values[up] - a; // exact: neighbours
    bool takeUp = below > above || (below == above && up % 2 == 0);
    code = towardZero || !takeUp ? up - 1 : up;
  } else {
    double ulp = values[last] - values[last - 1], half = values[last] + ulp / 2;
    bool over = std::isinf(a) || (!towardZero && a >= half);
    code = over && f.infinity && !f.saturates ? last + 1 : last;
  }
  if (code == 0 && f.nanCode == 0x80)
    sign = 0;
  return code | sign;
}

} // namespace tegula::cpu::reference
