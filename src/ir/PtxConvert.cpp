// cvt, mov, special registers and instructions without effect here; see PtxMeaning.h.
#include "ir/PtxMeaning.h"
#include <algorithm>
#include <array>

namespace tegula::ir::ptx {

using V = Value *;

// ---- cvt

/// To an integral float in the same type: i of rni (to nearest, to even), rzi (toward 0), rmi (down), rpi (up).
static V integral(Builder &b, V x, std::string_view how) {
  if (how == "rmi" || how == "rpi")
    return b.unary(how == "rmi" ? OpKind::Floor : OpKind::Ceil, x);
  if (how == "rni")
    return b.unary(OpKind::Rint, x);
  V size = b.unary(OpKind::FAbs, x), r = b.unary(OpKind::Floor, size);
  const Type t{Type::Kind::Bits, bitWidth(x->type.elem)};
  ir::Type bits = x->type.withElem(t.bits == 64 ? Elem::I64 : Elem::I32);
  V sign = b.constInt(bits, static_cast<int64_t>(uint64_t{1} << (t.bits - 1)));
  V signOfX = b.binary(OpKind::And, b.cast(OpKind::Bitcast, x, bits.elem), sign);
  return b.cast(OpKind::Bitcast, b.binary(OpKind::Or, b.cast(OpKind::Bitcast, r, bits.elem), signOfX), x->type.elem);
}

/// Bits to bits.
V Meaning::convertFloat(V bits, const Type &from, const Type &to) {
  V x = toFloat(bits, from);
  std::string_view how = oneOf({"rni", "rzi", "rmi", "rpi"});
  if (!how.empty()) {
    if (from.elem != to.elem || from.bits < 32)
      return fail("it rounds to integral floats of f32 and f64 only"), nullptr;
    x = integral(b_, x, how);
  }
  if (to.tf32) {
    if (from.elem != Elem::F32)
      return fail("tf32 is made of f32"), nullptr;
    std::string_view rounding = oneOf({"rna", "rn", "rz"});
    if (rounding == "rn")
      return toBits(b_.roundToTf32(x));
    V moved = rounding == "rna" ? bin(OpKind::Add, bits, uint64_t{0x1000}) : bits;
    V cut = bin(OpKind::And, moved, uint64_t{0xffffe000});
    V isNan = cmp(CmpPred::Ugt, bin(OpKind::And, bits, uint64_t{0x7fffffff}), uint64_t{0x7f800000});
    return b_.select(isNan, constant(32, 0x7fffffff), cut);
  }
  bool towardZero = oneOf({"rn", "rz"}) == "rz";
  bool isFp8 = ir::isFp8(to.elem);
  if (isFp8)
    has("satfinite");
  unsigned have = from.bits, wanted = to.bits;
  if (have == wanted && from.elem != to.elem) {
    x = b_.cast(OpKind::FpExt, x, Elem::F32);
    have = 32;
  }
  if (have < wanted)
    x = b_.cast(OpKind::FpExt, x, to.elem);
  else if (have > wanted)
    x = b_.cast(OpKind::FpTrunc, x, to.elem, towardZero ? std::vector<Attr>{{attr::rtz, true}} : std::vector<Attr>{});
  if (has("sat"))
    x = saturated(x);
  if (has("relu")) {
    if (isFp8)
      return fail("`.relu` is not known for this type"), nullptr;
    x = bin(OpKind::Maximum, x, b_.constFloat(x->type, 0));
  }
  return toBits(x);
}

/// Float bits to an integer.
V Meaning::toInteger(V bits, const Type &from, const Type &to) {
  std::string_view how = oneOf({"rni", "rzi", "rmi", "rpi"});
  if (how.empty())
    return fail("how it is rounded is missing"), nullptr;
  V x = toFloat(bits, from);
  if (from.bits < 32)
    x = b_.cast(OpKind::FpExt, x, Elem::F32);
  x = how == "rzi" ? x : integral(b_, x, how);
  has("sat");
  return b_.cast(to.isSigned() ? OpKind::FpToSI : OpKind::FpToUI, x, intType(to.bits).elem);
}

/// An integer (64 bits, extended as its type says) into the range of another type.
V Meaning::clamped(V x, const Type &from, const Type &to) {
  uint64_t most = to.isSigned()   ? (uint64_t{1} << (to.bits - 1)) - 1
                  : to.bits == 64 ? ~uint64_t{0}
                                  : (uint64_t{1} << to.bits) - 1;
  if (!from.isSigned())
    return bin(OpKind::UMin, x, most);
  V low = bin(OpKind::SMax, x, to.isSigned() ? ~most : uint64_t{0});
  return to.isSigned() ? bin(OpKind::SMin, low, most) : bin(OpKind::UMin, low, most);
}

/// The suffix that is a float of few bits, where the instruction is not one of convertFloat()'s.
std::string_view Meaning::smallType() {
  if (has("rs"))
    for (std::string_view s : in_->opcode)
      if (smallOf(s) && s.ends_with("x4"))
        return has(s), s;
  return oneOf({"e2m1x2", "e2m3x2", "e3m2x2", "ue8m0x2"});
}

bool Meaning::convert() {
  if (has("pack"))
    return convertPacked();
  if (std::string_view name = smallType(); !name.empty())
    return convertSmall(name);
  if (has("rs"))
    return convertRandomly();
  if (types_.size() != 2)
    return fail("it has no two types");
  const Type to = types_[0], from = types_[1];
  using K = Type::Kind;
  auto isNumber = [](const Type &t) { return t.kind == K::Float || t.kind == K::Signed || t.kind == K::Unsigned; };
  if (!isNumber(to) || !isNumber(from) || from.tf32)
    return fail("it is not known for these types");
  bool flushes = has("ftz");
  auto one = [&](V x) -> V {
    if (from.isFloat()) {
      x = flushes ? flushed(x, from) : x;
      if (!to.isFloat())
        return toInteger(x, from, to);
      V r = convertFloat(x, from, to);
      return r && flushes ? flushed(r, to) : r;
    }
    if (to.isFloat()) {
      has("rn");
      V r = b_.cast(from.isSigned() ? OpKind::SIToFp : OpKind::UIToFp, x, to.elem);
      return toBits(has("sat") ? saturated(r) : r);
    }
    V wide = resize(x, 64, from.isSigned());
    return resize(has("sat") ? clamped(wide, from, to) : wide, to.bits);
  };
  bool isPair = to.lanes == 2 && to.isFloat() && from.isFloat();
  if (isPair && from.lanes == 1) {
    // The first operand is the high element.
    if (in_->operands.size() != 3)
      return fail("it has " + std::to_string(in_->operands.size()) + " operands");
    V high = read(1, from.bits), low = high ? read(2, from.bits) : nullptr;
    low = low ? one(low) : nullptr;
    high = low ? one(high) : nullptr;
    return high && write(0, joinLanes(std::array{low, high}));
  }
  if (in_->operands.size() != 2 || to.lanes != from.lanes || (to.lanes == 2 && !isPair))
    return fail("it is not known for these types and operands");
  V x = read(1, from.width(), true);
  V r = x ? eachLane(from, std::array{x}, [&](std::span<const V> v) { return one(v[0]); }) : nullptr;
  return r && write(in_->operands[0], r, true, to.isSigned());
}

/// cvt.pack.sat.u8.s32.b32 d, a, b, c: a and b in the low half (b lowest), after them the low bits of c.
bool Meaning::convertPacked() {
  if (types_.size() < 2 || types_[0].bits > 16 || types_[1].width() != 32 || !types_[1].isSigned() ||
      types_[0].isFloat())
    return fail("it is not known for these types");
  const Type to = types_[0], from = types_[1];
  if (!has("sat"))
    return fail("`.sat` is missing");
  if ((in_->operands.size() == 4) != (types_.size() == 3) || in_->operands.size() < 3)
    return fail("it has " + std::to_string(in_->operands.size()) + " operands");
  V a = read(1, 32), b = a ? read(2, 32) : nullptr,
    c = !b                   ? nullptr
        : types_.size() == 3 ? read(3, 32)
                             : constant(32, 0);
  if (!c)
    return false;
  auto small = [&](V x) { return resize(clamped(resize(x, 64, true), from, to), to.bits); };
  V pair = resize(joinLanes(std::array{small(b), small(a)}), 32);
  return write(0, to.bits == 16 ? pair : bin(OpKind::Or, pair, bin(OpKind::Shl, c, uint64_t{16})));
}

// ---- mov

V Meaning::special(const Operand &o) {
  V x = nullptr;
  std::string_view n = o.text;
  if (n == "%globaltimer" || n == "%globaltimer_lo" || n == "%globaltimer_hi") {
    const ir::Type type[] = {ir::Type::scalar(Elem::I64)};
    x = b_.create(OpKind::Clock, {}, type)->result();
    if (n != "%globaltimer")
      x = b_.cast(OpKind::Trunc, n == "%globaltimer_hi" ? b_.binary(OpKind::LShr, x, b_.constI64(32)) : x, Elem::I32);
  } else if (n == "%smid") {
    x = b_.create1(OpKind::SmId, {}, ir::Type::scalar(Elem::I32));
  }
  if (!x)
    return fail("`" + std::string(n) + "` has no meaning here"), nullptr;
  return b_.splat(x, shape_);
}

/// Also between a register and its parts.
bool Meaning::move() {
  const Type t = types_[0];
  const Operand &to = in_->operands[0], &from = in_->operands[1];
  has("volatile");
  auto partBits = [&](const Operand &o) { return t.width() / static_cast<unsigned>(o.items.size()); };
  auto isWhole = [&](const Operand &o) {
    return o.items.size() && t.width() % o.items.size() == 0 && partBits(o) >= 8 &&
           (partBits(o) & (partBits(o) - 1)) == 0;
  };
  if (from.kind == Operand::Kind::Vector) {
    if (!isWhole(from))
      return fail("its parts do not make up a register");
    std::vector<V> parts;
    for (const Operand &o : from.items) {
      parts.push_back(read(o, partBits(from)));
      if (!parts.back())
        return false;
    }
    return write(to, joinLanes(parts));
  }
  V x = t.kind == Type::Kind::Pred ? predicate(from) : read(from, t.width());
  if (!x)
    return false;
  if (to.kind != Operand::Kind::Vector)
    return write(to, x);
  if (!isWhole(to))
    return fail("its parts do not make up a register");
  Type part;
  part.bits = partBits(to);
  for (unsigned i = 0; i < to.items.size(); ++i)
    if (!write(to.items[i], lane(x, part, i)))
      return false;
  return true;
}

// ---- no effect

bool Meaning::nothing() { return true; }

bool Meaning::prefetch() {
  oneOf({"global", "local"});
  return !oneOf({"L1", "L2", "L2::evict_last", "L2::evict_normal"}).empty() || fail("there is no such cache");
}

/// Of all threads of the program, as tl.debug_barrier: that of their own copies or by other counts has no meaning
/// without them.
bool Meaning::barrier() {
  oneOf({"cta"});
  const Operand &number = in_->operands[0];
  if (oneOf({"sync"}).empty() || number.kind != Operand::Kind::Int || number.bits)
    return fail("only `bar.sync 0` has a meaning here");
  b_.create(OpKind::Barrier, {}, {});
  return true;
}

bool Meaning::gridEvent() {
  std::string_view what = oneOf({"wait", "launch_dependents"});
  if (what.empty())
    return fail("there is no such event");
  b_.create(what == "wait" ? OpKind::GridWait : OpKind::GridLaunch, {}, {});
  return true;
}

} // namespace tegula::ir::ptx
