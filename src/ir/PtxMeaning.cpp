// Frame, operands and the table of PtxMeaning.h.
#include "ir/PtxMeaning.h"
#include <algorithm>
#include <bit>

namespace tegula::ir::ptx {

using K = Type::Kind;

std::optional<Type> typeOf(std::string_view s) {
  struct Entry {
    std::string_view name;
    Type type;
  };
  static constexpr Entry table[] = {
      {"b8", {K::Bits, 8}},       {"b16", {K::Bits, 16}},     {"b32", {K::Bits, 32}},     {"b64", {K::Bits, 64}},
      {"u8", {K::Unsigned, 8}},   {"u16", {K::Unsigned, 16}}, {"u32", {K::Unsigned, 32}}, {"u64", {K::Unsigned, 64}},
      {"s8", {K::Signed, 8}},     {"s16", {K::Signed, 16}},   {"s32", {K::Signed, 32}},   {"s64", {K::Signed, 64}},
      {"u16x2", {K::Unsigned, 16, 2}},             {"s16x2", {K::Signed, 16, 2}},
      {"f16", {K::Float, 16, 1, Elem::F16}},       {"f16x2", {K::Float, 16, 2, Elem::F16}},
      {"bf16", {K::Float, 16, 1, Elem::BF16}},     {"bf16x2", {K::Float, 16, 2, Elem::BF16}},
      {"f32", {K::Float, 32, 1, Elem::F32}},       {"f64", {K::Float, 64, 1, Elem::F64}},
      {"tf32", {K::Float, 32, 1, Elem::F32, true}},
      {"e4m3x2", {K::Float, 8, 2, Elem::F8E4M3FN}}, {"e5m2x2", {K::Float, 8, 2, Elem::F8E5M2}},
      {"pred", {K::Pred, 1}},
  };
  for (const Entry &e : table)
    if (e.name == s)
      return e.type;
  return std::nullopt;
}

const Meaning::Row Meaning::rows[] = {
    {"add", 3, 3, &Meaning::addSub},
    {"sub", 3, 3, &Meaning::addSub},
    {"mul", 3, 3, &Meaning::mul},
    {"mad", 4, 4, &Meaning::mad},
    {"div", 3, 3, &Meaning::divRem},
    {"rem", 3, 3, &Meaning::divRem},
    {"abs", 2, 2, &Meaning::absNeg},
    {"neg", 2, 2, &Meaning::absNeg},
    {"min", 3, 3, &Meaning::minMax},
    {"max", 3, 3, &Meaning::minMax},
    {"and", 3, 3, &Meaning::logic},
    {"or", 3, 3, &Meaning::logic},
    {"xor", 3, 3, &Meaning::logic},
    {"not", 2, 2, &Meaning::notBits},
    {"cnot", 2, 2, &Meaning::notBits},
    {"shl", 3, 3, &Meaning::shift},
    {"shr", 3, 3, &Meaning::shift},
    {"shf", 4, 4, &Meaning::funnel},
    {"popc", 2, 2, &Meaning::countBits},
    {"clz", 2, 2, &Meaning::countBits},
    {"bfind", 2, 2, &Meaning::findBit},
    {"brev", 2, 2, &Meaning::reverse},
    {"bfe", 4, 4, &Meaning::extractField},
    {"bfi", 5, 5, &Meaning::insertField},
    {"lop3", 5, 5, &Meaning::lop3},
    {"prmt", 4, 4, &Meaning::permuteBytes},
    {"setp", 3, 5, &Meaning::setPredicate},
    {"set", 3, 4, &Meaning::setValue},
    {"selp", 4, 4, &Meaning::selectByPredicate},
    {"slct", 4, 4, &Meaning::selectBySign},
    {"sad", 4, 4, &Meaning::sumOfDifferences},
    {"dp4a", 4, 4, &Meaning::dotOfBytes},
    {"fma", 4, 4, &Meaning::fusedMultiplyAdd},
    {"rcp", 2, 2, &Meaning::elementary},
    {"sqrt", 2, 2, &Meaning::elementary},
    {"rsqrt", 2, 2, &Meaning::elementary},
    {"sin", 2, 2, &Meaning::elementary},
    {"cos", 2, 2, &Meaning::elementary},
    {"lg2", 2, 2, &Meaning::elementary},
    {"ex2", 2, 2, &Meaning::elementary},
    {"tanh", 2, 2, &Meaning::elementary},
    {"copysign", 3, 3, &Meaning::copySign},
    {"testp", 2, 2, &Meaning::testProperty},
    {"cvt", 2, 4, &Meaning::convert},
    {"mov", 2, 2, &Meaning::move},
    // Nothing to wait for where programs do not overlap.
    {"nanosleep", 1, 1, &Meaning::nothing},
    {"griddepcontrol", 0, 0, &Meaning::gridEvent, false, false},
    {"bar", 1, 1, &Meaning::barrier, false, false},
    {"barrier", 1, 1, &Meaning::barrier, false, false},
    // Memory has the same values in any cache.
    {"prefetch", 1, 1, &Meaning::prefetch, true, false},
    {"prefetchu", 1, 1, &Meaning::prefetch, true, false},
};

bool Meaning::run(const Program &p, Problem &problem) {
  program_ = &p;
  registers_.clear();
  for (const Register &r : p.registers)
    registers_.push_back({r.bits, nullptr});
  for (const Instruction &in : p.instructions)
    if (!instruction(in)) {
      problem = {in.text, why_};
      return false;
    }
  return true;
}

bool Meaning::fail(std::string why) {
  why_ = std::move(why);
  return false;
}

bool Meaning::instruction(const Instruction &in) {
  in_ = &in;
  types_.clear();
  modifiers_.clear();
  guard_ = nullptr;
  const Row *row = std::find_if(std::begin(rows), std::end(rows), [&](const Row &r) { return r.name == in.opcode[0]; });
  if (row == std::end(rows))
    return fail("this instruction is not known");
  for (size_t i = 1; i < in.opcode.size(); ++i) {
    if (std::optional<Type> t = typeOf(in.opcode[i]))
      types_.push_back(*t);
    else
      modifiers_.push_back({in.opcode[i], false});
  }
  if (in.operands.size() < row->least || in.operands.size() > row->most)
    return fail("it has " + std::to_string(in.operands.size()) + " operands");
  if (row->isTyped && types_.empty())
    return fail("it has no type");
  if (in.guard) {
    if (!row->mayBeGuarded)
      return fail("it cannot be guarded");
    guard_ = predicate(*in.guard);
    if (!guard_)
      return false;
  }
  if (!(this->*row->handler)())
    return false;
  for (auto [modifier, known] : modifiers_)
    if (!known)
      return fail("`." + std::string(modifier) + "` is not known here");
  return true;
}

bool Meaning::has(std::string_view modifier) {
  bool found = false;
  for (auto &[text, known] : modifiers_)
    if (text == modifier)
      found = known = true;
  return found;
}

std::string_view Meaning::oneOf(std::initializer_list<std::string_view> modifiers) {
  for (std::string_view m : modifiers)
    if (has(m))
      return m;
  return {};
}

// ---- operands

ir::Type Meaning::intType(unsigned bits) const {
  Elem e = bits == 1 ? Elem::I1 : bits == 8 ? Elem::I8 : bits == 16 ? Elem::I16 : bits == 32 ? Elem::I32 : Elem::I64;
  return ir::Type::tensor(shape_, e);
}

Value *Meaning::resize(Value *x, unsigned bits, bool isSigned) const {
  unsigned have = bitWidth(x->type.elem);
  if (have == bits)
    return x;
  return b_.cast(have > bits ? OpKind::Trunc : isSigned ? OpKind::SExt : OpKind::ZExt, x, intType(bits).elem);
}

Place *Meaning::placeOf(const Operand &o) {
  if (o.kind == Operand::Kind::Register)
    return &registers_[o.index];
  if (o.kind == Operand::Kind::Given && o.index < numbers.size())
    return &places[numbers[o.index]];
  fail("`" + std::string(o.text) +
       (o.kind == Operand::Kind::Given ? "` is the number of no operand" : "` is no register"));
  return nullptr;
}

static std::string hasBits(const Operand &o, unsigned have, unsigned wanted) {
  return "`" + std::string(o.text) + "` has " + std::to_string(have) + " bits, " + std::to_string(wanted) +
         " are wanted";
}

Value *Meaning::read(const Operand &o, unsigned bits, bool mayBeWider) {
  switch (o.kind) {
  case Operand::Kind::Int:
    return constant(bits, o.bits);
  case Operand::Kind::Float: {
    // Constants of either size serve for both; there are none of 16 bits.
    if (bits != 32 && bits != 64)
      return fail("there are no constants of this type"), nullptr;
    if (bits == (o.wide ? 64u : 32u))
      return constant(bits, o.bits);
    uint64_t other =
        o.wide ? std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(o.bits)))
               : std::bit_cast<uint64_t>(static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(o.bits))));
    return constant(bits, other);
  }
  case Operand::Kind::Special: {
    V x = special(o);
    if (x && bitWidth(x->type.elem) != bits)
      return fail(hasBits(o, bitWidth(x->type.elem), bits)), nullptr;
    return x;
  }
  default:
    break;
  }
  Place *p = placeOf(o);
  if (!p)
    return nullptr;
  if (p->bits != bits && !(mayBeWider && p->bits > bits))
    return fail(hasBits(o, p->bits, bits)), nullptr;
  // A register read before it is written has an arbitrary value.
  return p->value ? resize(p->value, bits) : constant(bits, 0);
}

Value *Meaning::predicate(const Operand &o) {
  V x = read(o, 1);
  return x && o.negated ? invert(x) : x;
}

bool Meaning::write(const Operand &o, Value *x, bool mayBeWider, bool isSigned) {
  if (o.kind == Operand::Kind::Sink)
    return true;
  Place *p = placeOf(o);
  if (!p)
    return false;
  unsigned bits = bitWidth(x->type.elem);
  if (p->bits != bits && !(mayBeWider && p->bits > bits))
    return fail(hasBits(o, p->bits, bits));
  x = resize(x, p->bits, isSigned);
  p->value = guard_ ? b_.select(guard_, x, p->value ? p->value : constant(p->bits, 0)) : x;
  return true;
}

std::optional<uint64_t> Meaning::immediate(size_t i) {
  const Operand &o = in_->operands[i];
  if (o.kind == Operand::Kind::Int)
    return o.bits;
  if (Place *p = placeOf(o); p && p->value)
    if (std::optional<int64_t> c = constantInt(p->value))
      return static_cast<uint64_t>(*c);
  fail("`" + std::string(o.text) + "` is no constant");
  return std::nullopt;
}

// ---- bits

Value *Meaning::shifted(OpKind k, Value *x, Value *amount) {
  unsigned bits = bitWidth(x->type.elem);
  V small = cmp(CmpPred::Ult, amount, bits), by = bin(OpKind::UMin, amount, bits - 1);
  V r = bin(k, x, resize(by, bits));
  return k == OpKind::AShr ? r : b_.select(small, r, constant(bits, 0));
}

Value *Meaning::lane(Value *x, const Type &t, unsigned i) {
  return resize(i ? bin(OpKind::LShr, x, uint64_t{i} * t.bits) : x, t.bits);
}

Value *Meaning::joinLanes(std::span<const V> lanes) {
  unsigned bits = bitWidth(lanes[0]->type.elem), all = bits * static_cast<unsigned>(lanes.size());
  V x = nullptr;
  for (size_t i = 0; i < lanes.size(); ++i) {
    V part = resize(lanes[i], all);
    part = i ? bin(OpKind::Shl, part, uint64_t{i} * bits) : part;
    x = x ? bin(OpKind::Or, x, part) : part;
  }
  return x;
}

Value *Meaning::eachLane(const Type &t, std::span<const V> xs, const std::function<V(std::span<const V>)> &f) {
  std::vector<V> out;
  for (unsigned i = 0; i < t.lanes; ++i) {
    std::vector<V> one;
    for (V x : xs)
      one.push_back(lane(x, t, i));
    out.push_back(f(one));
    if (!out.back())
      return nullptr;
  }
  return joinLanes(out);
}

} // namespace tegula::ir::ptx
