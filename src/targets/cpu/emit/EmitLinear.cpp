// Linear forms of index tensors: each operation's form from those of its operands. EmitAddress computes their values.
#include "targets/cpu/emit/Emitter.h"

namespace tegula::cpu {
using ir::Op;
using ir::OpKind;
using V = llvm::Value *;

static int64_t gcdPowerOfTwo(int64_t a, int64_t b) {
  uint64_t bits = static_cast<uint64_t>(a) | static_cast<uint64_t>(b);
  return static_cast<int64_t>(bits & (~bits + 1));
}

V FunctionEmitter::coefValue(Coef c, llvm::Type *t) {
  if (!c.s)
    return llvm::ConstantInt::getSigned(t, c.k);
  if (c.k == 1)
    return c.s;
  return b_.CreateMul(c.s, llvm::ConstantInt::getSigned(c.s->getType(), c.k));
}

// Sums of different runtime factors keep a common power of two outside, so that the coefficients of the bits of one
// dimension stay multiples of one value.
Coef FunctionEmitter::addCoef(Coef a, Coef b) {
  if (a.zero() || b.zero())
    return a.zero() ? b : a;
  if (a.s == b.s)
    return {static_cast<int64_t>(static_cast<uint64_t>(a.k) + static_cast<uint64_t>(b.k)), a.s};
  int64_t unit = gcdPowerOfTwo(a.k, b.k);
  V &sum = mixed_[{a.k / unit, a.s, b.k / unit, b.s}];
  if (!sum) {
    llvm::Type *t = (a.s ? a.s : b.s)->getType();
    sum = b_.CreateAdd(coefValue({a.k / unit, a.s}, t), coefValue({b.k / unit, b.s}, t));
  }
  return {unit, sum};
}

Coef FunctionEmitter::mulCoef(Coef a, Coef b) {
  const int64_t k = static_cast<int64_t>(static_cast<uint64_t>(a.k) * static_cast<uint64_t>(b.k));
  if (!a.s || !b.s)
    return {k, a.s ? a.s : b.s};
  V &product = mixed_[{0, a.s, 0, b.s}];
  if (!product)
    product = b_.CreateMul(a.s, b.s);
  return {k, product};
}

// Right after the definition, so that it dominates every use of the factor and all uses share it.
void FunctionEmitter::insertBehindDef(V s) {
  if (auto *inst = llvm::dyn_cast<llvm::Instruction>(s)) {
    if (auto at = inst->getInsertionPointAfterDef())
      b_.SetInsertPoint(*at);
  } else { // arguments and constants
    llvm::BasicBlock &entry = function_->getEntryBlock();
    b_.SetInsertPoint(&entry, entry.getFirstInsertionPt());
  }
}

V FunctionEmitter::extendAtDef(V s) {
  llvm::Type *i64 = b_.getInt64Ty();
  if (s->getType() == i64)
    return s;
  V &wide = extended_[s];
  if (wide)
    return wide;
  llvm::IRBuilder<>::InsertPointGuard guard(b_);
  insertBehindDef(s);
  return wide = b_.CreateSExt(s, i64);
}

Lin FunctionEmitter::selfLin(const ir::Value *v) {
  Lin l;
  l.self = true;
  l.base = v->type.isPtr ? static_cast<V>(llvm::ConstantPointerNull::get(b_.getPtrTy()))
                         : llvm::ConstantInt::get(regType(v->type.scalarType()), 0);
  unsigned n = bitCount(v->type.shape);
  l.coef.resize(n);
  l.opaque.push_back({v, identityBits(n)});
  return l;
}

const Lin &FunctionEmitter::lin(const ir::Value *v) {
  auto it = lin_.find(v);
  if (it == lin_.end())
    it = lin_.try_emplace(v, selfLin(v)).first;
  return it->second;
}

// Modulo 2^32 in forms of 32 bits, so that what is left of a sum or a product there is a small number.
static Coef reducedFor(const llvm::Type *t, Coef c) {
  if (t->isIntegerTy(32))
    c.k = static_cast<int32_t>(c.k);
  return c.zero() ? Coef{} : c;
}

static Coef negated(Coef c) { return {static_cast<int64_t>(-static_cast<uint64_t>(c.k)), c.s}; }

static bool samePart(const Opaque &a, const Opaque &b) {
  return a.value == b.value && a.at == b.at && a.extend == b.extend;
}

// Opaque parts that a narrow sum is of.
static auto partsOf(const Lin &l, int narrow) {
  return llvm::make_filter_range(l.opaque, [=](const Opaque &o) { return o.narrow == narrow; });
}

// Each part once, so that sums of sums of it do not double the form each time.
Lin FunctionEmitter::addLin(const Lin &a, const Lin &b, bool subtract) {
  Lin r;
  r.split = a.split || b.split;
  r.base = subtract ? b_.CreateSub(a.base, b.base) : b_.CreateAdd(a.base, b.base);
  auto sum = [&](Coef x, Coef y) { return reducedFor(a.base->getType(), addCoef(x, subtract ? negated(y) : y)); };
  for (size_t i = 0; i < a.coef.size(); ++i)
    r.coef.push_back(sum(a.coef[i], b.coef[i]));
  r.opaque = a.opaque;
  r.narrow = a.narrow;
  for (const Opaque &o : partsOf(b, -1)) {
    auto *same = llvm::find_if(r.opaque, [&](const Opaque &x) { return x.narrow < 0 && samePart(x, o); });
    const bool isNew = same == r.opaque.end();
    if (isNew)
      r.opaque.push_back(o);
    Opaque &part = isNew ? r.opaque.back() : *same;
    part.scale = sum(isNew ? Coef{} : part.scale, o.scale);
    if (part.scale.zero())
      r.opaque.erase(&part);
  }
  for (int i = 0; i < static_cast<int>(b.narrow.size()); ++i) {
    const Narrow &n = b.narrow[static_cast<size_t>(i)];
    auto isSame = [&](int j) {
      auto ours = partsOf(a, j), theirs = partsOf(b, i);
      return a.narrow[static_cast<size_t>(j)].base == n.base &&
             std::equal(ours.begin(), ours.end(), theirs.begin(), theirs.end(),
                        [](const Opaque &x, const Opaque &y) { return samePart(x, y) && x.scale == y.scale; });
    };
    int j = 0;
    while (j < static_cast<int>(a.narrow.size()) && !isSame(j))
      ++j;
    if (j < static_cast<int>(a.narrow.size())) {
      Coef &scale = r.narrow[static_cast<size_t>(j)].scale;
      scale = sum(scale, n.scale);
      continue;
    }
    for (Opaque o : partsOf(b, i)) {
      o.narrow = static_cast<int>(r.narrow.size());
      r.opaque.push_back(o);
    }
    r.narrow.push_back({n.base, sum({}, n.scale)});
  }
  r.assumed = a.assumed || b.assumed;
  return r;
}

Coef FunctionEmitter::scaleOf(const Lin &l, const Opaque &o) {
  if (o.narrow < 0)
    return o.scale;
  return mulCoef({o.scale.k, o.scale.s ? extendAtDef(o.scale.s) : nullptr},
                 l.narrow[static_cast<size_t>(o.narrow)].scale);
}

Lin FunctionEmitter::scaleLin(const Lin &a, V s) {
  Coef f{1, s};
  if (auto *c = llvm::dyn_cast<llvm::ConstantInt>(s))
    f = {c->getSExtValue(), nullptr};
  Lin r;
  r.split = a.split;
  r.base = b_.CreateMul(a.base, s);
  for (Coef c : a.coef)
    r.coef.push_back(c.zero() ? Coef{} : reducedFor(s->getType(), mulCoef(c, f)));
  for (Opaque o : a.opaque) {
    if (o.narrow < 0)
      o.scale = reducedFor(s->getType(), mulCoef(o.scale, f));
    r.opaque.push_back(o);
  }
  for (Narrow n : a.narrow) {
    n.scale = mulCoef(n.scale, f);
    r.narrow.push_back(n);
  }
  r.assumed = a.assumed;
  return r;
}

// Is the sign extension of the form the form of the sign extensions, whatever the values are?
static bool extendsExactly(const Lin &a) {
  if (a.uniform())
    return true;
  auto *base = llvm::dyn_cast<llvm::ConstantInt>(a.base);
  if (!base)
    return false;
  if (a.opaque.empty()) {
    // The caller has bounded the span of constant coefficients.
    int64_t b = base->getSExtValue();
    return b > -(int64_t(1) << 30) && b < int64_t(1) << 30 && llvm::none_of(a.coef, [](const Coef &c) { return c.s; });
  }
  return a.opaque.size() == 1 && a.opaque[0].scale == Coef{1} && base->isZero() &&
         llvm::all_of(a.coef, [](const Coef &c) { return c.zero(); });
}

// i32 -> i64. Refused where the offsets inside the tile may be so large that they wrap around. Lin.h has the reasoning:
// here are the terms of bits, of which constant ones are less than 2^29 and the others less than 2^28, which leaves as
// much for remainders that are taken apart later (growthOfDividend).
bool FunctionEmitter::extendLin(const Lin &a, Lin &out) {
  int64_t span = 0;
  llvm::SmallMapVector<V, int64_t, 4> factors;
  for (const Coef &c : a.coef)
    (c.s ? factors[c.s] : span) += std::abs(c.k);
  if (span >= int64_t(1) << 29 || !a.narrow.empty())
    return false;
  for (auto [factor, by] : factors)
    if (!factors_.mayAssume(factor))
      return false;
  for (auto [factor, by] : factors)
    factors_.assume(factor, by * static_cast<int64_t>(factors.size()), int64_t(1) << 28);
  auto *start = llvm::dyn_cast<llvm::ConstantInt>(a.base);
  bool known = start && a.opaque.empty() && std::abs(start->getSExtValue()) < int64_t(1) << 30;
  for (const Coef &c : a.coef)
    known &= !c.s;
  out.split = a.split || !known;
  // One opaque part by itself is extended as it is.
  const bool isSum =
      !a.opaque.empty() && (a.opaque.size() > 1 || a.opaque[0].scale != Coef{1} || !start || !start->isZero());
  out.base = isSum ? b_.getInt64(0) : extendAtDef(a.base);
  if (isSum)
    out.narrow.push_back({a.base});
  for (const Coef &c : a.coef)
    out.coef.push_back({c.k, c.s ? extendAtDef(c.s) : nullptr});
  for (Opaque o : a.opaque) {
    o.extend = !isSum;
    o.narrow = isSum ? 0 : -1;
    out.opaque.push_back(o);
  }
  out.assumed = a.assumed || !extendsExactly(a);
  return true;
}

Lin FunctionEmitter::moveLin(const Op &op, const Lin &a, unsigned result) {
  unsigned n = bitCount(op.results[result]->type.shape);
  Bits from = operandBits(op, 0, result, identityBits(n));
  Lin r;
  r.split = a.split;
  r.base = a.base;
  r.coef.resize(n);
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] >= 0)
      r.coef[static_cast<size_t>(from[i])] = a.coef[i];
    else if (from[i] == oneBit && !a.coef[i].zero())
      r.base = op.results[0]->type.isPtr ? b_.CreateGEP(b_.getInt8Ty(), a.base, coefValue(a.coef[i], b_.getInt64Ty()))
                                         : b_.CreateAdd(a.base, coefValue(a.coef[i], a.base->getType()));
  }
  for (Opaque o : a.opaque) {
    for (BitSource &s : o.at)
      if (s >= 0)
        s = from[static_cast<size_t>(s)];
    r.opaque.push_back(o);
  }
  r.narrow = a.narrow;
  r.assumed = a.assumed;
  return r;
}

static bool linearWidth(const ir::Type &t) { return t.isPtr || t.elem == ir::Elem::I32 || t.elem == ir::Elem::I64; }

Lin FunctionEmitter::linear(const Op &op, unsigned result) {
  const ir::Value *v = op.results[result];
  unsigned n = bitCount(v->type.shape);
  Lin r;
  if (!linearWidth(v->type) || plan_.bufferFor(v) >= 0)
    return selfLin(v);
  auto in = [&](unsigned i) -> const Lin & { return lin(op.operands[i]); };
  switch (op.kind) {
  case OpKind::Const:
    r.base = constant(op);
    r.coef.resize(n);
    return r;
  case OpKind::Range:
    r.base = b_.getInt32(static_cast<uint32_t>(op.start()));
    for (unsigned i = 0; i < n; ++i)
      r.coef.push_back({int64_t(1) << i});
    return r;
  case OpKind::Splat:
    r.base = scalar_.lookup(op.operands[0]);
    r.coef.resize(n);
    return r;
  case OpKind::Add:
  case OpKind::Sub: {
    Lin a = in(0), b = in(1);
    return addLin(a, b, op.kind == OpKind::Sub);
  }
  case OpKind::Mul: {
    Lin a = in(0), b = in(1);
    if (!b.uniform())
      std::swap(a, b);
    const bool is32 = v->type.elem == ir::Elem::I32;
    return b.uniform() && (!is32 || a.uniform() || factors_.mayAssume(b.base)) ? scaleLin(a, b.base) : selfLin(v);
  }
  case OpKind::Shl: {
    Lin a = in(0), b = in(1);
    auto *c = llvm::dyn_cast<llvm::ConstantInt>(b.base);
    if (!b.uniform() || !c || c->getZExtValue() >= 31)
      return selfLin(v);
    return scaleLin(a, llvm::ConstantInt::get(a.base->getType(), uint64_t(1) << c->getZExtValue()));
  }
  case OpKind::SExt: {
    Lin a = in(0);
    return op.operands[0]->type.elem == ir::Elem::I32 && extendLin(a, r) ? r : selfLin(v);
  }
  case OpKind::AddPtr: {
    Lin p = in(0), o = in(1), wide;
    if (op.operands[1]->type.elem == ir::Elem::I32) {
      if (!extendLin(o, wide)) {
        wide = selfLin(op.operands[1]);
        wide.base = b_.getInt64(0);
        wide.opaque[0].extend = true;
      }
    } else if (op.operands[1]->type.elem == ir::Elem::I64) {
      wide = o;
    } else {
      return selfLin(v);
    }
    wide = scaleLin(wide, b_.getInt64(std::max(1u, ir::byteWidth(op.results[0]->type.elem))));
    V base = b_.CreateGEP(b_.getInt8Ty(), p.base, wide.base);
    Lin zero = p;
    zero.base = b_.getInt64(0);
    r = addLin(zero, wide, false);
    r.base = base;
    return r;
  }
  case OpKind::Bitcast:
    if (v->type.isPtr && op.operands[0]->type.isPtr)
      return in(0);
    return selfLin(v);
  case OpKind::ExpandDims:
  case OpKind::Broadcast:
  case OpKind::Reshape:
  case OpKind::Permute:
  case OpKind::Split:
    return moveLin(op, Lin(in(0)), result);
  default:
    return selfLin(v);
  }
}

void FunctionEmitter::defineLinear(const Op &op) {
  for (unsigned i = 0; i < op.results.size(); ++i) {
    const ir::Type &t = op.results[i]->type;
    if (t.isTensor() && linearWidth(t)) {
      Lin l = linear(op, i);
      l.self = l.opaque.size() == 1 && l.opaque[0].value == op.results[i];
      lin_[op.results[i]] = std::move(l);
    }
  }
}

const Lin &FunctionEmitter::bufferLin(int id) {
  auto [it, fresh] = bufferLin_.try_emplace(id);
  Lin &l = it->second;
  if (fresh) {
    const Buffer &b = plan_.buffers[static_cast<size_t>(id)];
    l.base = b.external >= 0 ? externals_[static_cast<size_t>(b.external)] : scratchAt(b.offset);
    int64_t bytes = b.element.isPtr ? 8 : ir::byteWidth(b.element.elem);
    for (int64_t s : b.stride)
      l.coef.push_back({s * bytes});
  }
  return l;
}

} // namespace tegula::cpu
