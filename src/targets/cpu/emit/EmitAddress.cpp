// The value or address of a linear form at a position of the nest: terms of bits at the depth of their loops, then the
// nonlinear parts.
#include "targets/cpu/emit/Emitter.h"

namespace tegula::cpu {
using V = llvm::Value *;

/// Of one linear form at one position: see FunctionEmitter::linAt.
class AddressEmitter {
public:
  AddressEmitter(FunctionEmitter &e, const Lin &l, const Bits &at, bool isPointer)
      : e_(e), b_(e.b_), n(*e.nest_), l_(l), at_(at), isPointer_(isPointer),
        type_(isPointer ? b_.getInt64Ty() : l.base->getType()), sum_(l.base), terms_(n.loops.size()) {
    r_.lane.resize(n.laneBits);
    for (const Narrow &sum : l.narrow) {
      auto *base = llvm::dyn_cast<llvm::ConstantInt>(sum.base);
      narrow_.push_back({base && base->isZero() ? nullptr : sum.base});
    }
  }
  LaneAddress emit(const void *key, bool mayWrapLate);

private:
  struct Term {
    unsigned position; // in the loop's counter
    Coef coef;
  };
  /// Of 32 bits: what is one number for all lanes, and vectors; null: nothing.
  struct NarrowSum {
    V one = nullptr, lanes = nullptr;
  };

  void placeBits();
  void addLoops(const void *key);
  V addTerms(size_t loop, V sum);
  void addPart(const Opaque &o, bool mayWrapLate);
  bool addAsTerms(const Opaque &o, Bits at);
  void addNarrow();

  V plus(V a, V x) { return isPointer_ ? b_.CreateGEP(b_.getInt8Ty(), a, x) : b_.CreateAdd(a, x); }
  V sumOf(V a, V x) { return a ? b_.CreateAdd(a, x) : x; }
  NarrowSum &narrowOf(const Opaque &o) { return narrow_[static_cast<size_t>(o.narrow)]; }
  void addVector(const Opaque &o, V x) {
    V &sum = o.narrow < 0 ? r_.extra : narrowOf(o).lanes;
    sum = sumOf(sum, x);
  }

  FunctionEmitter &e_;
  llvm::IRBuilder<> &b_;
  NestState &n;
  const Lin &l_;
  const Bits &at_;
  const bool isPointer_;
  llvm::Type *const type_; // that offsets are added up in
  V sum_;                  // what all lanes have in common, so far
  LaneAddress r_;
  std::vector<llvm::SmallVector<Term, 8>> terms_; // by loop
  int64_t offset_ = 0;
  llvm::SmallVector<V, 2> fixed_; // terms of constant bits with factors known at launch only
  llvm::SmallVector<NarrowSum, 1> narrow_;
};

void AddressEmitter::placeBits() {
  for (size_t i = 0; i < at_.size(); ++i) {
    const BitSource s = at_[i];
    const Coef &c = l_.coef[i];
    if (c.zero() || s == zeroBit)
      continue;
    if (s == oneBit && c.s) {
      fixed_.push_back(e_.coefValue(c, type_));
    } else if (s == oneBit) {
      offset_ += c.k;
    } else if (n.isLane(s)) {
      Coef &lane = r_.lane[n.laneBit(s)];
      lane = e_.addCoef(lane, c);
    } else {
      const auto loop = static_cast<size_t>(n.loopOf[static_cast<size_t>(s)]);
      terms_[loop].push_back({static_cast<unsigned>(s) - n.loops[loop].firstBit, c});
    }
  }
}

// Neighbouring bits whose coefficients double are one product.
V AddressEmitter::addTerms(size_t loop, V sum) {
  auto &terms = terms_[loop];
  llvm::sort(terms, [](const Term &a, const Term &b) { return a.position < b.position; });
  for (size_t i = 0; i < terms.size();) {
    size_t e = i + 1;
    const Term &f = terms[i];
    while (e < terms.size() && terms[e].position == f.position + (e - i) &&
           terms[e].coef == Coef{f.coef.k << (e - i), f.coef.s})
      ++e;
    V x = n.loops[loop].iv;
    if (f.position)
      x = b_.CreateLShr(x, f.position);
    if (f.position + (e - i) < n.loops[loop].bits)
      x = b_.CreateAnd(x, (uint64_t(1) << (e - i)) - 1);
    x = b_.CreateZExtOrTrunc(x, type_);
    sum = plus(sum, b_.CreateMul(x, e_.coefValue(f.coef, type_)));
    i = e;
  }
  return sum;
}

// Each loop's terms are added before the next inner one, once for all positions that are the same up to there.
void AddressEmitter::addLoops(const void *key) {
  Bits prefix(at_.size(), zeroBit);
  for (size_t loop = 0; loop < n.loops.size(); ++loop) {
    if (terms_[loop].empty())
      continue;
    for (size_t i = 0; i < at_.size(); ++i)
      if (n.isOfLoop(at_[i], loop))
        prefix[i] = at_[i];
    const auto depth = static_cast<unsigned>(loop) + 1;
    auto &memo = n.addressMemo[depth];
    if (auto found = memo.find({key, prefix}); found != memo.end()) {
      sum_ = found->second;
      continue;
    }
    sum_ = e_.atDepth(depth, [&] { return addTerms(loop, sum_); });
    memo[{key, prefix}] = sum_;
  }
}

// A quotient or remainder that is known to be inside of one step (FunctionEmitter::ifOneStep, RunEmitter), of a whole
// trip or of the vector at hand: its value at the first element, or the last one (`fromLast`), is one number, and a
// remainder grows from there like what it is taken of.
bool AddressEmitter::addAsTerms(const Opaque &o, Bits at) {
  if (n.depth != n.loops.size() || !e_.isAssumed(o.value, at)) // code before the loop is not under its assumptions
    return false;
  const bool ofTrip = n.staying;
  const auto *part = llvm::find_if(n.ofTrip, [&](const NestState::OfTrip &t) { return t.part.value == o.value; });
  const bool grows =
      ofTrip ? part != n.ofTrip.end() && part->kind == NestState::TripPart::Remainder : e_.hasLanes(at) && n.assuming;
  if (!ofTrip && !grows)
    return false;
  const Bits known = n.assumed.find(o.value)->second;
  const Lin x = grows ? e_.lin(wrapped(o.value->def)->x) : Lin();
  if (grows) { // assumed for some access: another one may multiply it by more than what may be terms
    int64_t growth = 0;
    for (size_t i = 0; i < at.size(); ++i)
      if (n.isInTrip(known[i]))
        growth += x.coef[i].k;
    if (!mayBeTerms(o, growth, e_.factors_))
      return false;
  }
  const Coef scale = e_.scaleOf(l_, o);
  for (size_t i = 0; i < at.size(); ++i) {
    if (ofTrip ? !n.isInTrip(known[i]) : !n.isLane(at[i]))
      continue;
    if (grows) {
      const Coef c{x.coef[i].k * scale.k, scale.s};
      if (at[i] >= 0) {
        Coef &lane = r_.lane[n.laneBit(at[i])];
        lane = e_.addCoef(lane, c);
      } else if (at[i] == oneBit) {
        fixed_.push_back(e_.coefValue(c, type_));
      }
      if (n.fromLast)
        fixed_.push_back(e_.coefValue({-c.k, c.s}, type_));
    }
    at[i] = n.fromLast ? oneBit : zeroBit;
  }
  V first = n.run ? e_.ofRun(o.value, at) : e_.eval(o.value, at);
  if (o.narrow < 0)
    sum_ = plus(sum_, b_.CreateMul(b_.CreateSExtOrTrunc(first, type_), e_.coefValue(o.scale, type_)));
  else
    narrowOf(o).one = sumOf(narrowOf(o).one, b_.CreateMul(first, e_.coefValue(o.scale, first->getType())));
  return true;
}

void AddressEmitter::addPart(const Opaque &o, bool mayWrapLate) {
  const Bits at = FunctionEmitter::positionOf(o, at_);
  if (addAsTerms(o, at))
    return;
  const bool lanes = e_.hasLanes(at);
  const bool isFirst = !r_.extra && llvm::none_of(narrow_, [](const NarrowSum &sum) { return sum.lanes; });
  if (lanes && mayWrapLate && isFirst && !r_.late && e_.flatten(r_, o, at, e_.scaleOf(l_, o), type_))
    return;
  if (lanes && r_.late) { // one part at most is
    const auto [part, where, others, by] = *r_.late;
    addVector(part, e_.opaqueLanes(part, e_.eval(part.value, where), type_, isPointer_));
    r_.late.reset();
    r_.noWrap = nullptr;
  }
  V x = e_.eval(o.value, at);
  const bool isVector = x->getType()->isVectorTy();
  if (!isVector && isPointer_ && x->getType()->isPointerTy() && llvm::isa<llvm::ConstantPointerNull>(l_.base) &&
      sum_ == l_.base) {
    sum_ = b_.CreateIntToPtr(b_.CreatePtrToInt(x, type_), b_.getPtrTy()); // folds back to the pointer itself
    return;
  }
  x = e_.opaqueLanes(o, x, type_, isPointer_);
  if (isVector)
    addVector(o, x);
  else if (o.narrow >= 0)
    narrowOf(o).one = sumOf(narrowOf(o).one, x);
  else
    sum_ = plus(sum_, x);
}

void AddressEmitter::addNarrow() {
  for (size_t i = 0; i < narrow_.size(); ++i) {
    auto [one, lanes] = narrow_[i];
    const Coef by = l_.narrow[i].scale;
    if (r_.late && r_.late->part.narrow == static_cast<int>(i)) {
      r_.late->others = one, r_.late->scale = by;
      r_.flatBase = e_.extendNarrow(sumOf(one, r_.flatBase), by);
    } else if (lanes) {
      V x = e_.extendNarrow(one ? b_.CreateAdd(e_.broadcast(one, n.lanes()), lanes) : lanes, by);
      r_.extra = sumOf(r_.extra, x);
    } else if (one) {
      sum_ = plus(sum_, e_.extendNarrow(one, by));
    }
  }
}

LaneAddress AddressEmitter::emit(const void *key, bool mayWrapLate) {
  placeBits();
  addLoops(key);
  for (const Opaque &o : l_.opaque)
    addPart(o, mayWrapLate);
  addNarrow();
  for (V x : fixed_)
    sum_ = plus(sum_, x);
  if (offset_)
    sum_ = plus(sum_, llvm::ConstantInt::getSigned(type_, offset_));
  r_.base = sum_;
  if (r_.noWrap)
    r_.flatBase = b_.CreateGEP(b_.getInt8Ty(), sum_, r_.flatBase);
  return std::move(r_);
}

LaneAddress FunctionEmitter::linAt(const void *key, const Lin &l, const Bits &at, bool pointer, bool mayWrapLate) {
  return AddressEmitter(*this, l, at, pointer).emit(key, mayWrapLate);
}

// A sum of 32 bits, a number or a vector, as a 64-bit one.
V FunctionEmitter::extendNarrow(V sum, Coef by) {
  llvm::Type *i64 = b_.getInt64Ty();
  V scale = coefValue(by, i64);
  const auto *type = llvm::dyn_cast<llvm::FixedVectorType>(sum->getType());
  V x = b_.CreateSExt(sum,
                      type ? static_cast<llvm::Type *>(llvm::FixedVectorType::get(i64, type->getNumElements())) : i64);
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
