// Integers, bits and comparisons of PTX; see PtxMeaning.h.
#include "ir/PtxMeaning.h"
#include <array>

namespace tegula::ir::ptx {

using V = Value *;

bool Meaning::addSub() {
  const Type t = types_[0];
  if (t.isFloat())
    return arithmetic();
  V a = read(1, t.width()), b = a ? read(2, t.width()) : nullptr;
  if (!b)
    return false;
  bool isAdd = name() == "add", clamps = has("sat");
  if (clamps && !(t.isSigned() && t.bits == 32))
    return fail("`.sat` is for s32");
  V r = eachLane(t, std::array{a, b}, [&](std::span<const V> x) {
    OpKind k = isAdd ? OpKind::Add : OpKind::Sub;
    if (!clamps)
      return bin(k, x[0], x[1]);
    V wide = bin(k, resize(x[0], 64, true), resize(x[1], 64, true));
    return resize(
        bin(OpKind::SMax, bin(OpKind::SMin, wide, uint64_t{INT32_MAX}), static_cast<uint64_t>(int64_t{INT32_MIN})), 32);
  });
  return write(0, r);
}

/// lo: the low half of the product, hi: the high one, wide: both.
V Meaning::product(V a, V b, const Type &t, std::string_view part) {
  if (part == "lo")
    return bin(OpKind::Mul, a, b);
  if (t.bits == 64) {
    if (part == "wide")
      return fail("there is no product of 128 bits"), nullptr;
    V high = bin(OpKind::UMulHi, a, b);
    if (!t.isSigned())
      return high;
    auto ifNegative = [&](V x, V y) { return b_.select(cmp(CmpPred::Slt, x, uint64_t{0}), y, constant(64, 0)); };
    return bin(OpKind::Sub, bin(OpKind::Sub, high, ifNegative(a, b)), ifNegative(b, a));
  }
  V wide = bin(OpKind::Mul, resize(a, t.bits * 2, t.isSigned()), resize(b, t.bits * 2, t.isSigned()));
  return part == "wide" ? wide : resize(bin(OpKind::LShr, wide, uint64_t{t.bits}), t.bits);
}

bool Meaning::mul() {
  const Type t = types_[0];
  if (t.isFloat())
    return arithmetic();
  std::string_view part = oneOf({"lo", "hi", "wide"});
  V a = read(1, t.width()), b = a ? read(2, t.width()) : nullptr;
  if (!b)
    return false;
  if (part.empty() || t.lanes > 1)
    return fail("a product of integers is .lo, .hi or .wide");
  V r = product(a, b, t, part);
  return r && write(0, r);
}

bool Meaning::mad() {
  const Type t = types_[0];
  if (t.isFloat())
    return fusedMultiplyAdd();
  std::string_view part = oneOf({"lo", "hi", "wide"});
  if (part.empty())
    return fail("a product of integers is .lo, .hi or .wide");
  V a = read(1, t.width()), b = a ? read(2, t.width()) : nullptr,
    c = b ? read(3, part == "wide" ? t.width() * 2 : t.width()) : nullptr;
  V r = c ? product(a, b, t, part) : nullptr;
  return r && write(0, bin(OpKind::Add, r, c));
}

bool Meaning::divRem() {
  const Type t = types_[0];
  if (t.isFloat())
    return arithmetic();
  V a = read(1, t.width()), b = a ? read(2, t.width()) : nullptr;
  if (!b)
    return false;
  OpKind k = name() == "div" ? (t.isSigned() ? OpKind::SDiv : OpKind::UDiv)
             : t.isSigned()  ? OpKind::SRem
                             : OpKind::URem;
  return write(0, bin(k, a, b));
}

bool Meaning::absNeg() {
  const Type t = types_[0];
  if (t.isFloat())
    return signOperation();
  V a = read(1, t.width());
  if (!a)
    return false;
  return write(0, name() == "abs" ? b_.unary(OpKind::AbsI, a) : bin(OpKind::Sub, constant(t.bits, 0), a));
}

bool Meaning::minMax() {
  const Type t = types_[0];
  if (t.isFloat())
    return extremum();
  V a = read(1, t.width()), b = a ? read(2, t.width()) : nullptr;
  if (!b)
    return false;
  bool isMin = name() == "min", cutsOff = has("relu");
  if (cutsOff && !t.isSigned())
    return fail("`.relu` is for signed integers");
  V r = eachLane(t, std::array{a, b}, [&](std::span<const V> x) {
    V y = bin(isMin          ? (t.isSigned() ? OpKind::SMin : OpKind::UMin)
              : t.isSigned() ? OpKind::SMax
                             : OpKind::UMax,
              x[0], x[1]);
    return cutsOff ? bin(OpKind::SMax, y, uint64_t{0}) : y;
  });
  return write(0, r);
}

bool Meaning::logic() {
  const Type t = types_[0];
  V a = t.kind == Type::Kind::Pred ? predicate(in_->operands[1]) : read(1, t.width());
  V b = !a ? nullptr : t.kind == Type::Kind::Pred ? predicate(in_->operands[2]) : read(2, t.width());
  return b && write(0, bin(name() == "and" ? OpKind::And : name() == "or" ? OpKind::Or : OpKind::Xor, a, b));
}

bool Meaning::notBits() {
  const Type t = types_[0];
  V a = read(1, t.width());
  if (!a)
    return false;
  return write(0, name() == "not" ? invert(a) : resize(cmp(CmpPred::Eq, a, uint64_t{0}), t.width()));
}

bool Meaning::shift() {
  const Type t = types_[0];
  V a = read(1, t.width()), by = a ? read(2, 32) : nullptr;
  OpKind k = name() == "shl" ? OpKind::Shl : t.isSigned() ? OpKind::AShr : OpKind::LShr;
  return by && write(0, shifted(k, a, by));
}

/// 32 bits of the 64 of two registers, of which the first is the low one.
bool Meaning::funnel() {
  if (types_[0].width() != 32)
    return fail("it is of b32");
  bool left = oneOf({"l", "r"}) == "l", clamps = oneOf({"clamp", "wrap"}) == "clamp";
  V low = read(1, 32), high = low ? read(2, 32) : nullptr, by = high ? read(3, 32) : nullptr;
  if (!by)
    return false;
  V both = joinLanes(std::array{low, high});
  by = resize(clamps ? bin(OpKind::UMin, by, uint64_t{32}) : bin(OpKind::And, by, uint64_t{31}), 64);
  V r = left ? bin(OpKind::LShr, bin(OpKind::Shl, both, by), uint64_t{32}) : bin(OpKind::LShr, both, by);
  return write(0, resize(r, 32));
}

bool Meaning::countBits() {
  V a = read(1, types_[0].width());
  return a && write(0, resize(b_.unary(name() == "clz" ? OpKind::Clz : OpKind::PopCount, a), 32));
}

/// The number of the highest bit that is set (signed: that differs from the sign), -1 if there is none; shiftamt: what
/// to shift by to have it at the top.
bool Meaning::findBit() {
  const Type t = types_[0];
  bool amount = has("shiftamt");
  V a = read(1, t.width());
  if (!a)
    return false;
  if (t.isSigned())
    a = bin(OpKind::Xor, a, bin(OpKind::AShr, a, uint64_t{t.bits - 1}));
  V zeros = resize(b_.unary(OpKind::Clz, a), 32), none = constant(32, ~uint64_t{0});
  V r = amount ? zeros : bin(OpKind::Sub, constant(32, t.bits - 1), zeros);
  return write(0, b_.select(cmp(CmpPred::Eq, a, uint64_t{0}), none, r));
}

bool Meaning::reverse() {
  unsigned bits = types_[0].width();
  V x = read(1, bits);
  if (!x)
    return false;
  for (unsigned step = bits / 2; step; step /= 2) {
    uint64_t low = 0;
    for (unsigned i = 0; i < bits; ++i)
      low |= (i / step) % 2 ? 0 : uint64_t{1} << i;
    x = bin(OpKind::Or, bin(OpKind::Shl, bin(OpKind::And, x, low), uint64_t{step}),
            bin(OpKind::And, bin(OpKind::LShr, x, uint64_t{step}), low));
  }
  return write(0, x);
}

/// d = len bits of a from pos on; signed ones are extended by the highest bit that a has of the field.
bool Meaning::extractField() {
  const Type t = types_[0];
  if (t.width() != 32)
    return fail("it is known for 32 bits only");
  V a = read(1, 32), pos = a ? read(2, 32) : nullptr, len = pos ? read(3, 32) : nullptr;
  if (!len)
    return false;
  pos = resize(bin(OpKind::UMin, bin(OpKind::And, pos, uint64_t{255}), uint64_t{63}), 64);
  len = resize(bin(OpKind::UMin, bin(OpKind::And, len, uint64_t{255}), uint64_t{32}), 64);
  V wide = resize(a, 64, t.isSigned());
  V moved = bin(t.isSigned() ? OpKind::AShr : OpKind::LShr, wide, pos);
  V ones = bin(OpKind::Sub, bin(OpKind::Shl, constant(64, 1), len), uint64_t{1});
  V field = bin(OpKind::And, moved, ones);
  if (t.isSigned()) {
    // The highest bit of the field counts negative. An empty field has none.
    V top = bin(OpKind::And, bin(OpKind::LShr, bin(OpKind::Add, ones, uint64_t{1}), uint64_t{1}), moved);
    field = bin(OpKind::Sub, field, bin(OpKind::Shl, top, uint64_t{1}));
  }
  return write(0, resize(field, 32));
}

/// d = b with len bits from pos on replaced by the low ones of a.
bool Meaning::insertField() {
  if (types_[0].width() != 32)
    return fail("it is known for 32 bits only");
  V a = read(1, 32), b = a ? read(2, 32) : nullptr, pos = b ? read(3, 32) : nullptr, len = pos ? read(4, 32) : nullptr;
  if (!len)
    return false;
  pos = resize(bin(OpKind::UMin, bin(OpKind::And, pos, uint64_t{255}), uint64_t{32}), 64);
  len = resize(bin(OpKind::UMin, bin(OpKind::And, len, uint64_t{255}), uint64_t{32}), 64);
  V ones = bin(OpKind::Sub, bin(OpKind::Shl, constant(64, 1), len), uint64_t{1});
  V mask = resize(bin(OpKind::Shl, ones, pos), 32), bits = resize(bin(OpKind::Shl, resize(a, 64), pos), 32);
  return write(0, bin(OpKind::Or, bin(OpKind::And, bits, mask), bin(OpKind::And, b, invert(mask))));
}

/// Bit i of the table is the result for the bits of i (a: 4, b: 2, c: 1). By cases of one operand after the other.
bool Meaning::lop3() {
  if (types_[0].width() != 32)
    return fail("it is of b32");
  V a = read(1, 32), b = a ? read(2, 32) : nullptr, c = b ? read(3, 32) : nullptr;
  std::optional<uint64_t> table = c ? immediate(4) : std::nullopt;
  if (!table)
    return false;
  const V operands[] = {c, b, a};
  std::function<V(uint64_t, unsigned)> cases = [&](uint64_t bits, unsigned count) -> V {
    if (count == 0)
      return constant(32, bits & 1 ? ~uint64_t{0} : 0);
    unsigned half = 1u << (count - 1);
    uint64_t ones = (uint64_t{1} << half) - 1, no = bits & ones, yes = (bits >> half) & ones;
    V x = operands[count - 1];
    if (no == yes)
      return cases(no, count - 1);
    if (no == (yes ^ ones))
      return bin(OpKind::Xor, x, cases(no, count - 1));
    V one = yes ? bin(OpKind::And, x, cases(yes, count - 1)) : nullptr,
      zero = no ? bin(OpKind::And, invert(x), cases(no, count - 1)) : nullptr;
    return one && zero ? bin(OpKind::Or, one, zero) : one ? one : zero;
  };
  return write(0, cases(*table & 255, 3));
}

/// Each byte of the result is one of the eight of two registers, or eight copies of its sign bit.
bool Meaning::permuteBytes() {
  if (types_[0].width() != 32)
    return fail("it is of b32");
  V a = read(1, 32), b = a ? read(2, 32) : nullptr, choice = b ? read(3, 32) : nullptr;
  if (!choice)
    return false;
  V both = joinLanes(std::array{a, b});
  V bytes[4];
  for (unsigned i = 0; i < 4; ++i) {
    V which = bin(OpKind::LShr, choice, uint64_t{4 * i});
    V at = bin(OpKind::Shl, bin(OpKind::And, which, uint64_t{7}), uint64_t{3});
    V byte = resize(bin(OpKind::LShr, both, resize(at, 64)), 8), sign = bin(OpKind::AShr, byte, uint64_t{7});
    bytes[i] = b_.select(cmp(CmpPred::Ne, bin(OpKind::And, which, uint64_t{8}), uint64_t{0}), sign, byte);
  }
  return write(0, joinLanes(bytes));
}

// ---- comparisons

V Meaning::compared(const Type &t, V a, V b) {
  struct Row {
    std::string_view name;
    CmpPred onSigned, onUnsigned;
    CmpPred onFloat;
    bool isInt = true, isFloat = true;
  };
  using P = CmpPred;
  static constexpr Row table[] = {{"eq", P::Eq, P::Eq, P::Oeq},
                                  {"ne", P::Ne, P::Ne, P::One},
                                  {"lt", P::Slt, P::Ult, P::Olt},
                                  {"le", P::Sle, P::Ule, P::Ole},
                                  {"gt", P::Sgt, P::Ugt, P::Ogt},
                                  {"ge", P::Sge, P::Uge, P::Oge},
                                  {"lo", P::Ult, P::Ult, P::Olt, true, false},
                                  {"ls", P::Ule, P::Ule, P::Ole, true, false},
                                  {"hi", P::Ugt, P::Ugt, P::Ogt, true, false},
                                  {"hs", P::Uge, P::Uge, P::Oge, true, false},
                                  {"equ", P::Eq, P::Eq, P::Ueq, false},
                                  {"neu", P::Ne, P::Ne, P::Une, false},
                                  {"ltu", P::Slt, P::Ult, P::FUlt, false},
                                  {"leu", P::Sle, P::Ule, P::FUle, false},
                                  {"gtu", P::Sgt, P::Ugt, P::FUgt, false},
                                  {"geu", P::Sge, P::Uge, P::FUge, false},
                                  {"num", P::Eq, P::Eq, P::Ord, false},
                                  {"nan", P::Eq, P::Eq, P::Uno, false}};
  for (const Row &r : table)
    if (!modifiers_.empty() && modifiers_[0].first == r.name) {
      if (t.isFloat() ? !r.isFloat : !r.isInt)
        break;
      modifiers_[0].second = true;
      if (!t.isFloat())
        return cmp(t.isSigned() ? r.onSigned : r.onUnsigned, a, b);
      bool flushes = has("ftz");
      return cmp(r.onFloat, toFloat(flushes ? flushed(a, t) : a, t), toFloat(flushes ? flushed(b, t) : b, t));
    }
  return fail("there is no such comparison"), nullptr;
}

/// The comparison of operands `first` and the next one, combined with the predicate in operand `predicate`, if there is
/// one.
bool Meaning::comparison(const Type &t, V &result, size_t first, size_t predicateAt) {
  if (t.lanes > 1)
    return fail("packed operands are not compared");
  V a = read(first, t.width()), b = a ? read(first + 1, t.width()) : nullptr;
  result = b ? compared(t, a, b) : nullptr;
  if (!result)
    return false;
  if (in_->operands.size() <= predicateAt)
    return true;
  V p = predicate(in_->operands[predicateAt]);
  std::string_view how = oneOf({"and", "or", "xor"});
  if (!p)
    return false;
  if (how.empty())
    return fail("it has " + std::to_string(in_->operands.size()) + " operands");
  result = bin(how == "and" ? OpKind::And : how == "or" ? OpKind::Or : OpKind::Xor, result, p);
  return true;
}

bool Meaning::setPredicate() {
  // p, a, b [, c]; with p|q one more: the reader has made two operands of them.
  const Operand &second = in_->operands[1];
  bool two =
      in_->operands.size() > 3 && in_->text.find('|') != std::string_view::npos && second.kind != Operand::Kind::Int;
  size_t first = two ? 2 : 1;
  if (in_->operands.size() < first + 2)
    return fail("it has " + std::to_string(in_->operands.size()) + " operands");
  V r = nullptr;
  if (!comparison(types_[0], r, first, first + 2))
    return false;
  return write(0, r) && (!two || write(1, invert(r)));
}

bool Meaning::setValue() {
  if (types_.size() != 2)
    return fail("it has no two types");
  V r = nullptr;
  if (!comparison(types_[1], r, 1, 3))
    return false;
  const Type t = types_[0];
  if (t.width() != 32)
    return fail("its result has 32 bits");
  return write(0, b_.select(r, constant(32, t.isFloat() ? 0x3f800000 : ~uint64_t{0}), constant(32, 0)));
}

bool Meaning::selectByPredicate() {
  unsigned bits = types_[0].width();
  V a = read(1, bits), b = a ? read(2, bits) : nullptr, p = b ? predicate(in_->operands[3]) : nullptr;
  return p && write(0, b_.select(p, a, b));
}

/// a if c >= 0, else b.
bool Meaning::selectBySign() {
  if (types_.size() != 2 || types_[1].width() != 32)
    return fail("it has no two types, of which the second is s32 or f32");
  unsigned bits = types_[0].width();
  const Type by = types_[1];
  bool flushes = has("ftz");
  V a = read(1, bits), b = a ? read(2, bits) : nullptr, c = b ? read(3, 32) : nullptr;
  if (!c)
    return false;
  V holds = by.isFloat() ? cmp(CmpPred::Oge, toFloat(flushes ? flushed(c, by) : c, by),
                               b_.constFloat(intType(32).withElem(Elem::F32), 0))
                         : cmp(CmpPred::Sge, c, uint64_t{0});
  return write(0, b_.select(holds, a, b));
}

// ---- sums

/// d = c + |a - b|
bool Meaning::sumOfDifferences() {
  const Type t = types_[0];
  V a = read(1, t.width()), b = a ? read(2, t.width()) : nullptr, c = b ? read(3, t.width()) : nullptr;
  if (!c)
    return false;
  V most = bin(t.isSigned() ? OpKind::SMax : OpKind::UMax, a, b),
    least = bin(t.isSigned() ? OpKind::SMin : OpKind::UMin, a, b);
  return write(0, bin(OpKind::Add, c, bin(OpKind::Sub, most, least)));
}

/// d = c + the sum of the four products of bytes
bool Meaning::dotOfBytes() {
  if (types_.size() != 2)
    return fail("it has no two types");
  V a = read(1, 32), b = a ? read(2, 32) : nullptr, c = b ? read(3, 32) : nullptr;
  if (!c)
    return false;
  Type byte;
  byte.bits = 8;
  for (unsigned i = 0; i < 4; ++i)
    c = bin(OpKind::Add, c,
            bin(OpKind::Mul, resize(lane(a, byte, i), 32, types_[0].isSigned()),
                resize(lane(b, byte, i), 32, types_[1].isSigned())));
  return write(0, c);
}

} // namespace tegula::ir::ptx
