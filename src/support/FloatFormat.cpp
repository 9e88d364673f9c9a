// Float formats by their fields; see FloatFormat.h.
#include "support/FloatFormat.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace tegula {
namespace {

/// A format of at most 16 bits: implicit leading bit, gradual underflow.
struct Narrow {
  FloatKind kind;
  unsigned width, mantissa;
  int bias;
  unsigned largest;  // code of the largest finite value
  unsigned overflow; // code of infinity, and of values rounded beyond `largest`
  unsigned nan;      // with positive sign; 0x80 in the fnuz formats
  bool hasInf, fnuz;
};
constexpr Narrow narrowTable[] = {
    {FloatKind::E5M2, 8, 2, 15, 0x7B, 0x7B, 0x7F, true, false},
    {FloatKind::E4M3FN, 8, 3, 7, 0x7E, 0x7E, 0x7F, false, false},
    {FloatKind::E4B15, 8, 3, 15, 0x7F, 0x7F, 0x7F, false, false},
    {FloatKind::E4B8, 8, 3, 8, 0x7F, 0x7F, 0x80, false, true},
    {FloatKind::E5B16, 8, 2, 16, 0x7F, 0x7F, 0x80, false, true},
    {FloatKind::F16, 16, 10, 15, 0x7BFF, 0x7C00, 0x7E00, true, false},
    {FloatKind::BF16, 16, 7, 127, 0x7F7F, 0x7F80, 0x7FC0, true, false},
};
const Narrow &narrow(FloatKind kind) { return narrowTable[static_cast<size_t>(kind)]; }
static_assert([] {
  for (size_t i = 0; i < std::size(narrowTable); ++i)
    if (narrowTable[i].kind != static_cast<FloatKind>(i))
      return false;
  return std::size(narrowTable) == static_cast<size_t>(FloatKind::F32);
}());

double decodeNarrow(const Narrow &f, unsigned bits) {
  unsigned magnitude = bits & ((1u << (f.width - 1)) - 1);
  double sign = bits >> (f.width - 1) & 1 ? -1.0 : 1.0, nan = std::numeric_limits<double>::quiet_NaN();
  if (f.fnuz && (bits & 0xFF) == f.nan)
    return nan;
  if (f.hasInf && magnitude > f.largest) {
    unsigned infinity = ((1u << (f.width - 1 - f.mantissa)) - 1) << f.mantissa;
    return std::copysign(magnitude == infinity ? INFINITY : nan, sign);
  }
  if (!f.fnuz && magnitude > f.largest)
    return std::copysign(nan, sign);
  int exponent = static_cast<int>(magnitude >> f.mantissa), mantissa = static_cast<int>(f.mantissa);
  unsigned fraction = magnitude & ((1u << f.mantissa) - 1);
  if (exponent == 0)
    return sign * std::ldexp(static_cast<double>(fraction), 1 - f.bias - mantissa);
  return sign * std::ldexp(static_cast<double>(fraction + (1u << f.mantissa)), exponent - f.bias - mantissa);
}

template <typename Wide> uint64_t encodeNarrow(const Narrow &f, Wide v, bool towardZero) {
  unsigned sign = std::signbit(v) ? 1u << (f.width - 1) : 0;
  if (std::isnan(v))
    return f.fnuz ? f.nan : f.nan | sign;
  Wide a = std::fabs(v);
  if (std::isinf(a))
    return sign | f.overflow;
  unsigned code = 0;
  if (a != 0) {
    int exponent = 0;
    std::frexp(a, &exponent);
    exponent = std::max(exponent - 1, 1 - f.bias);
    // In units of the last place; exact, as only the exponent changes.
    Wide units = std::ldexp(a, static_cast<int>(f.mantissa) - exponent), whole = std::floor(units),
         rest = units - whole;
    if (!towardZero && (rest > Wide(0.5) || (rest == Wide(0.5) && std::fmod(whole, Wide(2)) == 1)))
      whole += 1;
    // A carry out of the fraction increments the exponent field automatically.
    int64_t biased = exponent + f.bias - 1;
    int64_t wide = (biased << f.mantissa) + static_cast<int64_t>(whole);
    code = wide > f.largest ? (towardZero ? f.largest : f.overflow) : static_cast<unsigned>(wide);
  }
  if (f.fnuz && code == 0)
    return 0;
  return sign | code;
}

/// Converts; with `towardZero`, takes the neighbour nearer to zero if rounding went away from zero.
template <typename F, typename Wide> F convert(Wide v, bool towardZero) {
  F y = static_cast<F>(v);
  if (towardZero && !std::isnan(v) && !std::isinf(v) && std::fabs(static_cast<Wide>(y)) > std::fabs(v))
    y = std::nextafter(y, F(0));
  return y;
}

template <typename Wide> uint64_t encode(FloatKind kind, Wide v, bool towardZero) {
  if (kind == FloatKind::F64)
    return std::bit_cast<uint64_t>(convert<double>(v, towardZero));
  if (kind == FloatKind::F32)
    return std::bit_cast<uint32_t>(convert<float>(v, towardZero));
  return encodeNarrow(narrow(kind), v, towardZero);
}

} // namespace

double decodeFloat(FloatKind kind, uint64_t bits) {
  if (kind == FloatKind::F64)
    return std::bit_cast<double>(bits);
  if (kind == FloatKind::F32)
    return std::bit_cast<float>(static_cast<uint32_t>(bits));
  return decodeNarrow(narrow(kind), static_cast<unsigned>(bits));
}

uint64_t encodeFloat(FloatKind kind, double v, bool towardZero) { return encode(kind, v, towardZero); }
uint64_t encodeFloat(FloatKind kind, long double v, bool towardZero) { return encode(kind, v, towardZero); }

} // namespace tegula
