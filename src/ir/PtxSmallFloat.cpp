// cvt from and to floats of 4, 6 and 8 bits and powers of two (ue8m0), and with random bits; see PtxMeaning.h.
#include "ir/PtxMeaning.h"
#include <array>

namespace tegula::ir::ptx {

using V = Value *;

/// A float of few bits. The largest finite code follows the text of PTX: e2m1, e2m3 and e3m2 have no infinity and no
/// NaN.
struct Meaning::Small {
  std::string_view name;
  unsigned bits, mantissa, bias;
  uint64_t largest, nan; // codes without sign; what a NaN becomes
  unsigned container() const { return bits == 4 ? 4 : 8; }
};

static constexpr uint64_t kMagnitude = 0x7fffffff, kInfinity = 0x7f800000;

const Meaning::Small *Meaning::smallOf(std::string_view name) {
  static constexpr Small table[] = {
      {"e2m1", 4, 1, 1, 7, 7},       {"e2m3", 6, 3, 1, 31, 31},      {"e3m2", 6, 2, 3, 31, 31},
      {"e4m3", 8, 3, 7, 0x7e, 0x7f}, {"e5m2", 8, 2, 15, 0x7b, 0x7f},
  };
  for (const Small &s : table)
    if (name.size() == 6 && name.starts_with(s.name) && (name.ends_with("x2") || name.ends_with("x4")))
      return &s;
  return nullptr;
}

/// The code (i32, the sign above the other bits) of the bits of an f32: rounded to nearest, to even, or up with the
/// probability that 16 random bits (i32) give it.
V Meaning::toSmall(V bits, const Small &f, V random, bool relu) {
  const unsigned drop = 23 - f.mantissa;
  V size = bin(OpKind::And, bits, kMagnitude), sign = bin(OpKind::LShr, bits, uint64_t{31});
  V isNan = cmp(CmpPred::Ugt, size, kInfinity);
  V more = random ? bin(OpKind::Shl, random, uint64_t{drop - 16})
                  : bin(OpKind::Add, bin(OpKind::And, bin(OpKind::LShr, size, uint64_t{drop}), uint64_t{1}),
                        (uint64_t{1} << (drop - 1)) - 1);
  V normal = bin(OpKind::Sub, bin(OpKind::LShr, bin(OpKind::Add, size, more), uint64_t{drop}),
                 uint64_t{127 - f.bias} << f.mantissa);
  // Below 2^(1 - bias) the code counts units of 2^(1 - bias - mantissa).
  V x = b_.cast(OpKind::Bitcast, size, Elem::F32), few = nullptr;
  if (random) {
    V part = b_.binary(OpKind::FMul, b_.cast(OpKind::UIToFp, random, Elem::F32), b_.constFloat(x->type, 0x1p-16));
    V units = b_.binary(OpKind::FMul, x,
                        b_.constFloat(x->type, static_cast<double>(uint64_t{1} << (f.bias - 1 + f.mantissa))));
    few = b_.cast(OpKind::FpToUI, b_.binary(OpKind::FAdd, units, part), Elem::I32);
  } else {
    // The sum with a float whose last bit is a unit is rounded to units.
    uint64_t unit = uint64_t{127 + 24 - f.bias - f.mantissa} << 23;
    V sum = b_.binary(OpKind::FAdd, x, b_.cast(OpKind::Bitcast, constant(32, unit), Elem::F32));
    few = bin(OpKind::Sub, b_.cast(OpKind::Bitcast, sum, Elem::I32), unit);
  }
  V code = b_.select(cmp(CmpPred::Ult, size, uint64_t{128 - f.bias} << 23), few, normal);
  code = b_.select(isNan, constant(32, f.nan), bin(OpKind::UMin, code, f.largest));
  V negative = bin(OpKind::And, sign, resize(invert(isNan), 32));
  if (relu)
    return b_.select(cmp(CmpPred::Ne, negative, uint64_t{0}), constant(32, 0), code);
  return bin(OpKind::Or, code, bin(OpKind::Shl, negative, uint64_t{f.bits - 1}));
}

/// The bits of the f32 that a code (i32) without infinities is.
V Meaning::fromSmall(V code, const Small &f) {
  V size = bin(OpKind::And, code, (uint64_t{1} << (f.bits - 1)) - 1);
  V sign = bin(OpKind::Shl, bin(OpKind::And, bin(OpKind::LShr, code, uint64_t{f.bits - 1}), uint64_t{1}), uint64_t{31});
  V normal = bin(OpKind::Add, bin(OpKind::Shl, size, uint64_t{23 - f.mantissa}), uint64_t{127 - f.bias} << 23);
  V units = b_.cast(OpKind::UIToFp, size, Elem::F32);
  V few = toBits(
      b_.binary(OpKind::FMul, units,
                b_.constFloat(units->type, 1.0 / static_cast<double>(uint64_t{1} << (f.bias - 1 + f.mantissa)))));
  return bin(OpKind::Or, b_.select(cmp(CmpPred::Ult, size, uint64_t{1} << f.mantissa), few, normal), sign);
}

/// The bits of the f32 2^(code - 127); 255 is NaN.
V Meaning::fromPower(V code) {
  V power =
      b_.select(cmp(CmpPred::Eq, code, uint64_t{0}), constant(32, 0x00400000), bin(OpKind::Shl, code, uint64_t{23}));
  return b_.select(cmp(CmpPred::Eq, code, 255), constant(32, kMagnitude), power);
}

/// The nearest power of two of the size, up (rp) or down (rz), less 2^127 and more as `saturates` says.
V Meaning::toPower(V bits, bool up, bool saturates) {
  V size = bin(OpKind::And, bits, kMagnitude), code = bin(OpKind::LShr, size, uint64_t{23}),
    rest = bin(OpKind::And, size, uint64_t{0x7fffff});
  if (up) {
    // 2^-127, the smallest power, is a subnormal f32.
    V more = b_.select(cmp(CmpPred::Eq, code, uint64_t{0}), cmp(CmpPred::Ugt, rest, 0x400000),
                       cmp(CmpPred::Ne, rest, uint64_t{0}));
    code = bin(OpKind::Add, code, resize(more, 32));
  }
  code = saturates ? bin(OpKind::UMin, code, uint64_t{254}) : code;
  return b_.select(cmp(CmpPred::Ugt, size, kInfinity), constant(32, 255), code);
}

V Meaning::widened(V bits, const Type &t) {
  return t.bits == 32 ? bits : toBits(b_.cast(OpKind::FpExt, toFloat(bits, t), Elem::F32));
}

/// Bits of an f32 to those of f16, bf16; exact, but where `.scaled` leaves the range.
V Meaning::narrowed(V bits, const Type &t, bool relu) {
  V x = b_.cast(OpKind::Bitcast, bits, Elem::F32);
  if (relu)
    x = bin(OpKind::Maximum, x, b_.constFloat(x->type, 0));
  return toBits(b_.cast(OpKind::FpTrunc, x, t.elem));
}

/// cvt.rn.satfinite.e2m1x2.f32 d, high, low; cvt.rn.f16x2.e2m1x2 d, a; the same with ue8m0x2; cvt.rs...e2m1x4.f32 d,
/// {a, b, e, f}, random, a highest.
bool Meaning::convertSmall(std::string_view name) {
  const bool isPower = name == "ue8m0x2", relu = has("relu");
  const Small *f = isPower ? nullptr : smallOf(name);
  if (types_.size() != 1 || !types_[0].isFloat() || types_[0].bits > 32 || types_[0].tf32)
    return fail("it is not known for these types");
  const Type t = types_[0];
  const unsigned part = isPower ? 8 : f->container();
  const size_t count = in_->operands.size();
  if (in_->opcode.back() == name || in_->opcode.back().starts_with("scaled")) {
    const bool scaled = has("scaled::n2::ue8m0");
    if (t.lanes != 2 || !name.ends_with("x2") || count != (scaled ? 3u : 2u) || !has("rn") ||
        (isPower && (scaled || t.elem != Elem::BF16)))
      return fail("it is not known for these types and operands");
    V x = read(1, 2 * part), scales = x && scaled ? read(2, 16) : nullptr;
    if (!x || (scaled && !scales))
      return false;
    std::array<V, 2> out;
    for (unsigned i = 0; i < 2; ++i) {
      V code = resize(x, 32);
      code = bin(OpKind::And, i ? bin(OpKind::LShr, code, uint64_t{part}) : code, (uint64_t{1} << part) - 1);
      V bits = isPower ? fromPower(code) : fromSmall(code, *f);
      if (scaled) {
        V scale = bin(OpKind::And, bin(OpKind::LShr, resize(scales, 32), uint64_t{i * 8}), uint64_t{255});
        bits = toBits(b_.binary(OpKind::FMul, b_.cast(OpKind::Bitcast, bits, Elem::F32),
                                b_.cast(OpKind::Bitcast, fromPower(scale), Elem::F32)));
      }
      out[i] = narrowed(bits, t, relu);
    }
    return write(0, joinLanes(out));
  }
  const bool saturates = has("satfinite"), random = has("rs"), up = isPower && oneOf({"rp", "rz"}) == "rp";
  std::vector<V> xs; // the lowest first
  if (random) {
    if (!name.ends_with("x4") || t.bits != 32 || count != 3 || in_->operands[1].kind != Operand::Kind::Vector ||
        in_->operands[1].items.size() != 4)
      return fail("it is not known for these types and operands");
    for (size_t i = 4; i-- > 0;)
      xs.push_back(read(in_->operands[1].items[i], 32));
  } else if (!name.ends_with("x2") || count != (t.lanes == 2 ? 2u : 3u) || !(isPower || has("rn")) ||
             (isPower && t.elem == Elem::F16) || (t.lanes == 1 && t.bits != 32)) {
    return fail("it is not known for these types and operands");
  } else if (t.lanes == 2) {
    V x = read(1, 32);
    for (unsigned i = 0; x && i < 2; ++i)
      xs.push_back(widened(lane(x, t, i), t));
  } else {
    xs = {read(2, 32), read(1, 32)};
  }
  V bits = random ? read(2, 32) : nullptr, joined = nullptr;
  if (random && !bits)
    return false;
  for (size_t i = 0; i < xs.size(); ++i) {
    if (!xs[i])
      return false;
    // Which random bits decide which element is not said; two elements share 16 bits.
    V r = !bits ? nullptr : bin(OpKind::And, i < 2 ? bits : bin(OpKind::LShr, bits, uint64_t{16}), uint64_t{0xffff});
    V code = isPower ? toPower(xs[i], up, saturates) : toSmall(xs[i], *f, r, relu);
    code = i ? bin(OpKind::Shl, code, uint64_t{i * part}) : code;
    joined = joined ? bin(OpKind::Or, joined, code) : code;
  }
  return joined ? write(0, resize(joined, part * static_cast<unsigned>(xs.size())))
                : fail("it is not known for these types and operands");
}

/// cvt.rs.f16x2.f32 d, high, low, random: each is rounded up with the probability of what it loses. Low bits of
/// `random` serve the low element.
bool Meaning::convertRandomly() {
  if (types_.size() != 2 || types_[0].lanes != 2 || types_[0].bits != 16 || types_[1].bits != 32 ||
      !types_[1].isFloat() || in_->operands.size() != 4)
    return fail("it is not known for these types and operands");
  const Type to = types_[0];
  const unsigned drop = to.elem == Elem::F16 ? 13 : 16;
  const bool saturates = has("satfinite"), relu = has("relu");
  V high = read(1, 32), low = high ? read(2, 32) : nullptr, random = low ? read(3, 32) : nullptr;
  if (!random)
    return false;
  const uint64_t limit = to.elem == Elem::F16 ? 0x47800000 : kInfinity,
                 infinity = to.elem == Elem::F16 ? 0x7c00 : 0x7f80;
  auto one = [&](V bits, unsigned shift) {
    V size = bin(OpKind::And, bits, kMagnitude),
      sign = resize(bin(OpKind::LShr, bin(OpKind::Xor, bits, size), uint64_t{16}), 16);
    V more = bin(OpKind::And, bin(OpKind::LShr, random, uint64_t{shift}), (uint64_t{1} << drop) - 1);
    V moved = bin(OpKind::Add, size, more);
    V cut = b_.cast(OpKind::Bitcast, bin(OpKind::UMin, moved, limit - 1), Elem::F32);
    V r = toBits(b_.cast(OpKind::FpTrunc, cut, to.elem, {{attr::rtz, true}}));
    if (!saturates)
      r = b_.select(cmp(CmpPred::Uge, moved, limit), constant(16, infinity), r);
    r = relu ? b_.select(cmp(CmpPred::Ne, sign, uint64_t{0}), constant(16, 0), r) : bin(OpKind::Or, r, sign);
    return b_.select(cmp(CmpPred::Ugt, size, kInfinity), constant(16, 0x7fff), r);
  };
  return write(0, joinLanes(std::array{one(low, 0), one(high, 16)}));
}

} // namespace tegula::ir::ptx
