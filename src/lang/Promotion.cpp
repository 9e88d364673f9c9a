// The promotion table as data; the lines and their order are explained in the header.
#include "lang/Promotion.h"

namespace tegula::lang {

namespace {

enum class Kind : uint8_t { Bool, Int, Float };
Kind kind(Dtype d) { return d.isBool() ? Kind::Bool : d.isInt() ? Kind::Int : Kind::Float; }

struct FloatLine {
  bool (*matches)(Dtype a, Dtype b);
  Scalar result, forDivision;
};

template <Scalar S> bool anyIs(Dtype a, Dtype b) { return a.scalar == S || b.scalar == S; }
template <Scalar S> bool bothAre(Dtype a, Dtype b) { return a.scalar == S && b.scalar == S; }
bool differentFp8(Dtype a, Dtype b) { return a.isFp8() && b.isFp8() && a != b; }

constexpr FloatLine lines[] = {
    {anyIs<Scalar::Fp64>, Scalar::Fp64, Scalar::Fp64}, {anyIs<Scalar::Fp32>, Scalar::Fp32, Scalar::Fp32},
    {anyIs<Scalar::Fp16>, Scalar::Fp16, Scalar::Fp32}, {bothAre<Scalar::Bf16>, Scalar::Bf16, Scalar::Fp32},
    {anyIs<Scalar::Bf16>, Scalar::Fp32, Scalar::Fp32}, {differentFp8, Scalar::Fp16, Scalar::Fp16},
};

} // namespace

Dtype promoteInts(Dtype a, Dtype b) {
  if (a.isSigned() == b.isSigned())
    return a.bits() >= b.bits() ? a : b;
  Dtype unsignedOne = a.isSigned() ? b : a, signedOne = a.isSigned() ? a : b;
  return unsignedOne.bits() >= signedOne.bits() ? unsignedOne : signedOne;
}

Promotion promoteDtypes(Dtype a, Dtype b, bool isDivOrMod, Level level) {
  if (level >= Level::v39 && isDivOrMod && (a.isFloat() || b.isFloat()))
    return {dtype(anyIs<Scalar::Fp64>(a, b) ? Scalar::Fp64 : Scalar::Fp32)};
  for (const FloatLine &l : lines)
    if (l.matches(a, b))
      return {dtype(isDivOrMod ? l.forDivision : l.result)};
  if (a.isFp8() || b.isFp8())
    return a == b ? Promotion{a} : Promotion{{}, NoPromotion::NoCommonType};
  if (isDivOrMod && a.isSigned() != b.isSigned())
    return {{}, NoPromotion::Signedness};
  return {promoteInts(a, b)};
}

Promotion promoteWithNumber(Dtype tensor, Dtype number, bool isDivOrMod, Level level) {
  if (kind(number) > kind(tensor))
    return promoteDtypes(tensor, number, isDivOrMod, level);
  if (level >= Level::v39)
    return promoteDtypes(tensor, tensor, isDivOrMod, level);
  bool half = tensor.scalar == Scalar::Fp16 || tensor.scalar == Scalar::Bf16;
  return {isDivOrMod && half ? dtype(Scalar::Fp32) : tensor};
}

} // namespace tegula::lang
