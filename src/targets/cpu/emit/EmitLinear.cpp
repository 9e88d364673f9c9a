// Linear forms of index tensors, and their value or address at a position.
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
    return {a.k + b.k, a.s};
  int64_t unit = gcdPowerOfTwo(a.k, b.k);
  V &sum = mixed_[{a.k / unit, a.s, b.k / unit, b.s}];
  if (!sum) {
    llvm::Type *t = (a.s ? a.s : b.s)->getType();
    sum = b_.CreateAdd(coefValue({a.k / unit, a.s}, t), coefValue({b.k / unit, b.s}, t));
  }
  return {unit, sum};
}

Coef FunctionEmitter::mulCoef(Coef a, Coef b) {
  if (!a.s || !b.s)
    return {a.k * b.k, a.s ? a.s : b.s};
  V &product = mixed_[{0, a.s, 0, b.s}];
  if (!product)
    product = b_.CreateMul(a.s, b.s);
  return {a.k * b.k, product};
}

// Right behind the definition, so that it dominates every use of the factor and all uses share it.
V FunctionEmitter::extendAtDef(V s) {
  llvm::Type *i64 = b_.getInt64Ty();
  if (s->getType() == i64)
    return s;
  V &wide = extended_[s];
  if (wide)
    return wide;
  llvm::IRBuilder<>::InsertPointGuard guard(b_);
  if (auto *inst = llvm::dyn_cast<llvm::Instruction>(s)) {
    if (auto at = inst->getInsertionPointAfterDef())
      b_.SetInsertPoint(*at);
  } else if (llvm::isa<llvm::Argument>(s)) {
    llvm::BasicBlock &entry = function_->getEntryBlock();
    b_.SetInsertPoint(&entry, entry.getFirstInsertionPt());
  }
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

Lin FunctionEmitter::addLin(const Lin &a, const Lin &b, bool subtract) {
  Lin r;
  r.split = a.split || b.split;
  r.base = subtract ? b_.CreateSub(a.base, b.base) : b_.CreateAdd(a.base, b.base);
  for (size_t i = 0; i < a.coef.size(); ++i)
    r.coef.push_back(addCoef(a.coef[i], {subtract ? -b.coef[i].k : b.coef[i].k, b.coef[i].s}));
  r.opaque.append(a.opaque.begin(), a.opaque.end());
  r.narrow.append(a.narrow.begin(), a.narrow.end());
  for (Opaque o : b.opaque) {
    if (o.narrow >= 0)
      o.narrow += static_cast<int>(a.narrow.size());
    else if (subtract)
      o.scale.k = -o.scale.k;
    r.opaque.push_back(o);
  }
  for (Narrow n : b.narrow) {
    if (subtract)
      n.scale.k = -n.scale.k;
    r.narrow.push_back(n);
  }
  r.assumed = a.assumed || b.assumed;
  return r;
}

Coef FunctionEmitter::scaleOf(const Lin &l, const Opaque &o) {
  if (o.narrow < 0)
    return o.scale;
  return mulCoef({o.scale.k, o.scale.s ? extendAtDef(o.scale.s) : nullptr}, l.narrow[static_cast<size_t>(o.narrow)].scale);
}

Lin FunctionEmitter::scaleLin(const Lin &a, V s) {
  Coef f{1, s};
  if (auto *c = llvm::dyn_cast<llvm::ConstantInt>(s))
    f = {c->getSExtValue(), nullptr};
  Lin r;
  r.split = a.split;
  r.base = b_.CreateMul(a.base, s);
  // Modulo 2^32, so that what is left of a product there is a small number.
  auto reduced = [&](Coef c) { return s->getType()->isIntegerTy(32) ? Coef{static_cast<int32_t>(c.k), c.s} : c; };
  for (Coef c : a.coef)
    r.coef.push_back(c.zero() ? Coef{} : reduced(mulCoef(c, f)));
  for (Opaque o : a.opaque) {
    if (o.narrow < 0)
      o.scale = reduced(mulCoef(o.scale, f));
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
  return a.opaque.size() == 1 && a.opaque[0].scale == Coef{1} && base->isZero() && llvm::all_of(a.coef, [](const Coef &c) { return c.zero(); });
}

// i32 -> i64. Refused where the offsets inside the tile may be so large that they wrap around. Lin.h has the reasoning: here are the terms of bits, of which constant ones are less than 2^29 and the others less
// than 2^28, which leaves as much for remainders that are taken apart later (growthOfDividend).
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
  const bool isSum = !a.opaque.empty() && (a.opaque.size() > 1 || a.opaque[0].scale != Coef{1} || !start || !start->isZero());
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

namespace {
struct Term {
  unsigned position; // in the loop's counter
  Coef coef;
};
} // namespace

LaneAddress FunctionEmitter::linAt(const void *key, const Lin &l, const Bits &at, bool pointer, bool mayWrapLate) {
  NestState &n = *nest_;
  llvm::Type *t = pointer ? b_.getInt64Ty() : l.base->getType();
  LaneAddress r;
  r.lane.resize(n.laneBits);
  std::vector<llvm::SmallVector<Term, 8>> terms(n.loops.size());
  int64_t offset = 0;
  llvm::SmallVector<V, 2> fixed; // runtime terms of constant bits
  for (size_t i = 0; i < at.size(); ++i) {
    if (l.coef[i].zero() || at[i] == zeroBit)
      continue;
    if (at[i] == oneBit) {
      if (l.coef[i].s)
        fixed.push_back(coefValue(l.coef[i], t));
      else
        offset += l.coef[i].k;
      continue;
    }
    size_t bit = static_cast<size_t>(at[i]);
    if (n.laneOf[bit] >= 0)
      r.lane[static_cast<size_t>(n.laneOf[bit])] = addCoef(r.lane[static_cast<size_t>(n.laneOf[bit])], l.coef[i]);
    else
      terms[static_cast<size_t>(n.loopOf[bit])].push_back(
          {static_cast<unsigned>(bit) - n.loops[static_cast<size_t>(n.loopOf[bit])].firstBit, l.coef[i]});
  }
  auto add = [&](V acc, V x) { return pointer ? b_.CreateGEP(b_.getInt8Ty(), acc, x) : b_.CreateAdd(acc, x); };
  V acc = l.base;
  Bits prefix(at.begin(), at.end());
  for (BitSource &s : prefix)
    s = zeroBit;
  for (size_t d = 0; d < n.loops.size(); ++d) {
    if (terms[d].empty())
      continue;
    for (size_t i = 0; i < at.size(); ++i)
      if (at[i] >= 0 && n.loopOf[static_cast<size_t>(at[i])] == static_cast<int>(d))
        prefix[i] = at[i];
    unsigned depth = static_cast<unsigned>(d) + 1;
    auto &memo = n.addressMemo[depth];
    auto found = memo.find({key, prefix});
    if (found != memo.end()) {
      acc = found->second;
      continue;
    }
    acc = atDepth(depth, [&] {
      llvm::sort(terms[d], [](const Term &a, const Term &b) { return a.position < b.position; });
      V sum = acc;
      for (size_t i = 0; i < terms[d].size();) {
        size_t e = i + 1;
        const Term &f = terms[d][i];
        while (e < terms[d].size() && terms[d][e].position == f.position + (e - i) &&
               terms[d][e].coef == Coef{f.coef.k << (e - i), f.coef.s})
          ++e;
        V x = n.loops[d].iv;
        if (f.position)
          x = b_.CreateLShr(x, f.position);
        if (f.position + (e - i) < n.loops[d].bits)
          x = b_.CreateAnd(x, (uint64_t(1) << (e - i)) - 1);
        x = b_.CreateZExtOrTrunc(x, t);
        sum = add(sum, b_.CreateMul(x, coefValue(f.coef, t)));
        i = e;
      }
      return sum;
    });
    memo[{key, prefix}] = acc;
  }
  // Sums of 32 bits: what is one number for all lanes, and vectors; null: nothing.
  struct NarrowSum {
    V one = nullptr, lanes = nullptr;
  };
  llvm::SmallVector<NarrowSum, 1> narrow;
  for (const Narrow &sum : l.narrow)
    narrow.push_back({llvm::isa<llvm::ConstantInt>(sum.base) && llvm::cast<llvm::ConstantInt>(sum.base)->isZero() ? nullptr : sum.base});
  auto sumOf = [&](V a, V x) { return a ? b_.CreateAdd(a, x) : x; };
  auto addScalar = [&](const Opaque &o, V x) {
    if (o.narrow < 0)
      acc = add(acc, b_.CreateMul(b_.CreateSExtOrTrunc(x, t), coefValue(o.scale, t)));
    else
      narrow[static_cast<size_t>(o.narrow)].one = sumOf(narrow[static_cast<size_t>(o.narrow)].one, b_.CreateMul(x, coefValue(o.scale, x->getType())));
  };
  auto addVector = [&](const Opaque &o, V x) {
    V &sum = o.narrow < 0 ? r.extra : narrow[static_cast<size_t>(o.narrow)].lanes;
    sum = sumOf(sum, x);
  };
  for (const Opaque &o : l.opaque) {
    Bits inner = positionOf(o, at);
    bool lanes = hasLanes(inner);
    const Coef scale = scaleOf(l, o);
    // Grows as what it is the remainder of; code in front of the loop is not under its assumptions. Which have been made for some access: another one may multiply it by more than what may be terms.
    const Bits *known = n.depth == n.loops.size() && isAssumed(o.value, inner) ? &n.assumed.find(o.value)->second : nullptr;
    const auto *of = llvm::find_if(n.ofTrip, [&](const NestState::OfTrip &t) { return t.part.value == o.value; });
    const bool grows = n.staying ? of != n.ofTrip.end() && of->kind == NestState::TripPart::Remainder : lanes && n.assuming;
    if (known && grows) {
      const Lin &x = lin(wrapped(o.value->def)->x);
      int64_t growth = 0;
      for (size_t i = 0; i < inner.size(); ++i)
        if ((*known)[i] >= 0 && n.loopOf[static_cast<size_t>((*known)[i])] < 0)
          growth += x.coef[i].k;
      if (!mayBeTerms(o, growth, factors_))
        known = nullptr;
    }
    if (known && n.staying) { // of a whole trip
      const Lin *x = grows ? &lin(wrapped(o.value->def)->x) : nullptr;
      for (size_t i = 0; i < inner.size(); ++i) {
        BitSource s = (*known)[i];
        if (s < 0 || n.loopOf[static_cast<size_t>(s)] >= 0)
          continue;
        if (x && inner[i] >= 0) {
          Coef &c = r.lane[static_cast<size_t>(n.laneOf[static_cast<size_t>(s)])];
          c = addCoef(c, {x->coef[i].k * scale.k, scale.s});
        } else if (x && inner[i] == oneBit) {
          fixed.push_back(coefValue({x->coef[i].k * scale.k, scale.s}, t));
        }
        if (x && n.fromLast)
          fixed.push_back(coefValue({-x->coef[i].k * scale.k, scale.s}, t));
        inner[i] = n.fromLast ? oneBit : zeroBit;
      }
      addScalar(o, n.run ? ofRun(o.value, inner) : eval(o.value, inner));
      continue;
    }
    if (known && lanes && n.assuming) {
      const Lin x = lin(wrapped(o.value->def)->x);
      for (size_t i = 0; i < inner.size(); ++i)
        if (BitSource &s = inner[i]; s >= 0 && n.laneOf[static_cast<size_t>(s)] >= 0) {
          Coef &c = r.lane[static_cast<size_t>(n.laneOf[static_cast<size_t>(s)])];
          c = addCoef(c, {x.coef[i].k * scale.k, scale.s});
          s = zeroBit;
        }
      addScalar(o, eval(o.value, inner));
      continue;
    }
    const bool isFirst = !r.extra && llvm::none_of(narrow, [](const NarrowSum &sum) { return sum.lanes; });
    if (lanes && mayWrapLate && isFirst && !r.late && flatten(r, o, inner, scale, t))
      continue;
    if (lanes && r.late) {
      const auto [part, where, others, by] = *r.late;
      addVector(part, opaqueLanes(part, eval(part.value, where), t, pointer));
      r.late.reset();
      r.noWrap = nullptr;
    }
    V x = eval(o.value, inner);
    bool vector = x->getType()->isVectorTy();
    if (!vector && pointer && x->getType()->isPointerTy() && llvm::isa<llvm::ConstantPointerNull>(l.base) &&
        acc == l.base) {
      acc = b_.CreateIntToPtr(b_.CreatePtrToInt(x, t), b_.getPtrTy()); // folds back to the pointer itself
      continue;
    }
    x = opaqueLanes(o, x, t, pointer);
    if (vector)
      addVector(o, x);
    else if (o.narrow >= 0)
      narrow[static_cast<size_t>(o.narrow)].one = sumOf(narrow[static_cast<size_t>(o.narrow)].one, x);
    else
      acc = add(acc, x);
  }
  for (size_t i = 0; i < narrow.size(); ++i) {
    auto [one, lanes] = narrow[i];
    const Coef by = l.narrow[i].scale;
    if (r.late && r.late->part.narrow == static_cast<int>(i)) {
      r.late->others = one, r.late->scale = by;
      r.flatBase = extendNarrow(sumOf(one, r.flatBase), by);
    } else if (lanes) {
      V x = extendNarrow(one ? b_.CreateAdd(broadcast(one, n.lanes()), lanes) : lanes, by);
      r.extra = sumOf(r.extra, x);
    } else if (one) {
      acc = add(acc, extendNarrow(one, by));
    }
  }
  for (V x : fixed)
    acc = add(acc, x);
  if (offset)
    acc = add(acc, llvm::ConstantInt::getSigned(t, offset));
  r.base = acc;
  if (r.noWrap)
    r.flatBase = b_.CreateGEP(b_.getInt8Ty(), acc, r.flatBase);
  return r;
}

// A sum of 32 bits, a number or a vector, as a 64-bit one.
V FunctionEmitter::extendNarrow(V sum, Coef by) {
  llvm::Type *i64 = b_.getInt64Ty();
  V scale = coefValue(by, i64);
  const auto *type = llvm::dyn_cast<llvm::FixedVectorType>(sum->getType());
  V x = b_.CreateSExt(sum, type ? static_cast<llvm::Type *>(llvm::FixedVectorType::get(i64, type->getNumElements())) : i64);
  return b_.CreateMul(x, type ? broadcast(scale, type->getNumElements()) : scale);
}

// The contribution of an opaque part whose value at the position is `x`; in 32 bits to a Narrow.
V FunctionEmitter::opaqueLanes(const Opaque &o, V x, llvm::Type *t, bool pointer) {
  bool vector = x->getType()->isVectorTy();
  if (o.narrow >= 0)
    t = b_.getInt32Ty();
  llvm::Type *like = vector ? static_cast<llvm::Type *>(llvm::FixedVectorType::get(t, nest_->lanes())) : t;
  if (pointer && x->getType()->isPtrOrPtrVectorTy())
    x = b_.CreatePtrToInt(x, like);
  else if (o.extend)
    x = b_.CreateSExt(x, like);
  if (o.scale == Coef{1})
    return x;
  V scale = coefValue(o.scale, t);
  return b_.CreateMul(x, vector ? broadcast(scale, nest_->lanes()) : scale);
}

void FunctionEmitter::evaluateLate(LaneAddress &a) {
  if (!a.late)
    return;
  auto [o, at, others, scale] = *a.late;
  a.late.reset();
  V x = opaqueLanes(o, eval(o.value, at), b_.getInt64Ty(), true);
  if (o.narrow >= 0)
    x = extendNarrow(others ? b_.CreateAdd(broadcast(others, nest_->lanes()), x) : x, scale);
  a.extra = x;
}

V FunctionEmitter::laneVector(const LaneAddress &a, llvm::Type *t) {
  unsigned lanes = nest_->lanes();
  V sum = a.extra;
  std::map<V, std::vector<int64_t>> patterns;
  for (size_t bit = 0; bit < a.lane.size(); ++bit) {
    if (a.lane[bit].zero())
      continue;
    auto &p = patterns[a.lane[bit].s];
    p.resize(lanes);
    for (unsigned i = 0; i < lanes; ++i)
      p[i] += (i >> bit & 1) ? a.lane[bit].k : 0;
  }
  for (auto &[s, p] : patterns) {
    llvm::SmallVector<llvm::Constant *, 32> c;
    for (int64_t x : p)
      c.push_back(llvm::ConstantInt::getSigned(t, x));
    V x = llvm::ConstantVector::get(c);
    if (s)
      x = b_.CreateMul(broadcast(s, lanes), x);
    sum = sum ? b_.CreateAdd(sum, x) : x;
  }
  return sum;
}

V FunctionEmitter::evalLinear(const ir::Value *v, const Lin &l, const Bits &at) {
  LaneAddress a = linAt(v, l, at, v->type.isPtr);
  if (a.uniform())
    return a.base;
  if (v->type.isPtr)
    return pointers(a);
  return b_.CreateAdd(broadcast(a.base, nest_->lanes()), laneVector(a, a.base->getType()));
}

} // namespace tegula::cpu
