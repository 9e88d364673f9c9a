// device_print text, and the element formats that C++ has no type for.
#include "runtime/Print.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace tegula::runtime {

namespace {
/// An IEEE-like format: special values are all-ones exponents (Ieee), a single NaN at 0x7f (Fn) or at 0x80 (Fnuz), or none.
struct FloatFormat {
  int exponentBits, mantissaBits, bias;
  enum Special { Ieee, Fn, Fnuz, None } special;
};
} // namespace

static FloatFormat formatOf(TegulaDtype d) {
  switch (d) {
  case TEGULA_FP8E5: return {5, 2, 15, FloatFormat::Ieee};
  case TEGULA_FP8E4NV: return {4, 3, 7, FloatFormat::Fn};
  case TEGULA_FP8E4B15: return {4, 3, 15, FloatFormat::None};
  case TEGULA_FP8E4B8: return {4, 3, 8, FloatFormat::Fnuz};
  case TEGULA_FP8E5B16: return {5, 2, 16, FloatFormat::Fnuz};
  case TEGULA_FP16: return {5, 10, 15, FloatFormat::Ieee};
  default: return {8, 7, 127, FloatFormat::Ieee}; // bf16
  }
}

double floatFromBits(TegulaDtype d, uint64_t bits) {
  if (d == TEGULA_FP64) {
    double v;
    std::memcpy(&v, &bits, 8);
    return v;
  }
  if (d == TEGULA_FP32) {
    float v;
    std::memcpy(&v, &bits, 4);
    return v;
  }
  FloatFormat f = formatOf(d);
  int64_t mantissa = bits & ((1u << f.mantissaBits) - 1);
  int exponent = (bits >> f.mantissaBits) & ((1 << f.exponentBits) - 1), top = (1 << f.exponentBits) - 1;
  bool negative = bits >> (f.exponentBits + f.mantissaBits) & 1;
  if (f.special == FloatFormat::Ieee && exponent == top) return mantissa ? NAN : negative ? -INFINITY : INFINITY;
  if (f.special == FloatFormat::Fn && (bits & 0x7f) == 0x7f) return NAN;
  if (f.special == FloatFormat::Fnuz && bits == 0x80) return NAN;
  double v = exponent ? std::ldexp(double(mantissa | int64_t(1) << f.mantissaBits), exponent - f.bias - f.mantissaBits)
                      : std::ldexp(double(mantissa), 1 - f.bias - f.mantissaBits);
  return negative ? -v : v;
}

uint64_t floatToBits(TegulaDtype d, double v) {
  uint64_t bits = 0;
  if (d == TEGULA_FP64) {
    std::memcpy(&bits, &v, 8);
    return bits;
  }
  if (d == TEGULA_FP32) {
    float f = static_cast<float>(v);
    std::memcpy(&bits, &f, 4);
    return bits;
  }
  FloatFormat f = formatOf(d);
  uint64_t sign = std::signbit(v) ? uint64_t(1) << (f.exponentBits + f.mantissaBits) : 0;
  uint64_t infinity = uint64_t((1 << f.exponentBits) - 1) << f.mantissaBits;
  if (std::isnan(v)) return sign | infinity | uint64_t(1) << (f.mantissaBits - 1);
  double a = std::fabs(v);
  if (a == 0) return sign;
  // Unit of the last place at this magnitude; subnormals share the smallest one. nearbyint rounds to even.
  int e = a == INFINITY ? 0 : std::max(std::ilogb(a), 1 - f.bias);
  double units = a == INFINITY ? INFINITY : std::nearbyint(std::ldexp(a, f.mantissaBits - e));
  if (units >= std::ldexp(2.0, f.mantissaBits)) units /= 2, ++e;
  if (a == INFINITY || e > f.bias) return sign | infinity;
  uint64_t m = static_cast<uint64_t>(units);
  // A subnormal has no hidden bit: exponent field 0 exactly when the bit is absent.
  bool normal = m >> f.mantissaBits;
  uint64_t field = normal ? uint64_t(e + f.bias) << f.mantissaBits : 0;
  return sign | field | (m & ((uint64_t(1) << f.mantissaBits) - 1));
}

static std::string element(const PrintOperand &o, bool hex, const void *data, int64_t i) {
  const DtypeInfo &t = dtypeInfo(o.dtype);
  unsigned bytes = o.isPtr ? 8 : t.bytes;
  uint64_t bits = 0;
  std::memcpy(&bits, static_cast<const char *>(data) + i * bytes, bytes);
  char buffer[400];
  if (o.isPtr) {
    snprintf(buffer, sizeof buffer, "0x%llx", static_cast<unsigned long long>(bits));
  } else if (hex) {
    snprintf(buffer, sizeof buffer, "0x%0*llx", int(t.bits + 3) / 4, static_cast<unsigned long long>(bits));
  } else if (t.kind == DtypeInfo::Float) {
    double v = floatFromBits(o.dtype, bits);
    if (std::isnan(v)) return "nan";
    snprintf(buffer, sizeof buffer, "%f", v);
  } else if (t.kind == DtypeInfo::Signed) {
    int shift = 64 - t.bits;
    snprintf(buffer, sizeof buffer, "%lld", static_cast<long long>(static_cast<int64_t>(bits << shift) >> shift));
  } else {
    snprintf(buffer, sizeof buffer, "%llu", static_cast<unsigned long long>(bits));
  }
  return buffer;
}

/// The language's normal form: with operands a prefix ends in ": ", and one with text starts with a blank.
static std::string normalPrefix(std::string p, bool operands) {
  if (operands) {
    while (!p.empty() && p.back() == ' ') p.pop_back();
    if (p.empty() || p.back() != ':') p += ':';
    p += ' ';
  }
  if ((p.size() > 2 || !operands) && !p.empty() && p[0] != ' ') p.insert(0, 1, ' ');
  return p;
}

namespace {
/// What all lines of one operand have in common.
struct Line {
  const PrintOperand *operand = nullptr; // null: the site prints only its prefix
  std::string head, prefix;
  std::vector<int> width; // of the indices
  int64_t numel = 1;

  Line(const SiteInfo &site, int32_t which, const int32_t pid[3])
      : head("pid (" + std::to_string(pid[0]) + ", " + std::to_string(pid[1]) + ", " + std::to_string(pid[2]) + ")"),
        prefix(normalPrefix(site.text, !site.operands.empty())) {
    if (which < 0 || static_cast<size_t>(which) >= site.operands.size()) return;
    operand = &site.operands[which];
    if (site.operands.size() > 1) prefix += "(operand " + std::to_string(which) + ") ";
    for (int64_t n : operand->shape) {
      width.push_back(static_cast<int>(std::to_string(n - 1).size()));
      numel *= n;
    }
  }
  void append(std::string &text, const std::vector<int64_t> &index, const std::string &value) const {
    text += head + " idx (";
    for (size_t k = 0; k < index.size(); ++k) {
      std::string n = std::to_string(index[k]);
      text += k ? ", " : "";
      text.append(width[k] - static_cast<int>(n.size()), ' ');
      text += n;
    }
    text += ")" + prefix + value + "\n";
  }
};
} // namespace

std::string printText(const SiteInfo &site, int32_t operand, const int32_t pid[3], const void *data, int64_t count) {
  Line line(site, operand, pid);
  if (!line.operand) return line.head + line.prefix + "\n";
  if (line.operand->dtype >= dtypeCount) return {};
  std::string text;
  std::vector<int64_t> index(line.width.size(), 0);
  for (int64_t i = 0; i < count && i < line.numel; ++i) {
    line.append(text, index, element(*line.operand, site.hex, data, i));
    for (size_t k = index.size(); k-- > 0 && ++index[k] == line.operand->shape[k];) index[k] = 0;
  }
  return text;
}

std::string printElement(const SiteInfo &site, int32_t operand, const int32_t pid[3], int64_t at, uint64_t bits) {
  Line line(site, operand, pid);
  if (!line.operand) return line.head + line.prefix + "\n";
  if (line.operand->dtype >= dtypeCount || at < 0 || at >= line.numel) return {};
  std::vector<int64_t> index(line.width.size(), 0);
  for (size_t k = index.size(); k-- > 0; at /= line.operand->shape[k]) index[k] = at % line.operand->shape[k];
  std::string text;
  line.append(text, index, element(*line.operand, site.hex, &bits, 0));
  return text;
}

} // namespace tegula::runtime
