// Reductions and scans: one vector accumulator per unrolled copy, combined at the end.
//
// If the combine function is a single operation with a neutral element, the accumulators start with that element;
// otherwise they start with the first input (`first`), which assumes nothing about user-written combine functions.
#include "targets/cpu/emit/Emitter.h"

namespace tegula::cpu {
using ir::Op;
using ir::OpKind;
using V = llvm::Value *;

static unsigned slots(const Nest &n) {
  unsigned s = 0;
  for (const Root &r : n.roots)
    if (r.kind == RootKind::Reduce || r.kind == RootKind::Scan)
      s += static_cast<unsigned>(r.op->results.size());
  return s;
}

uint64_t bytesInCommon(const Nest &n) {
  if (n.axis != 1 || n.space.rank() != 2 || n.roots.size() != 1 || n.roots[0].kind != RootKind::Reduce ||
      n.roots[0].op->operands.size() != 1)
    return 0;
  constexpr size_t most = 16; // values
  std::vector<const ir::Value *> work{n.roots[0].op->operands[0]};
  uint64_t common = 0;
  bool isOwn = false;
  for (size_t i = 0; i < work.size(); ++i) {
    const Op *op = work[i]->def;
    if (!op || work.size() > most)
      return 0;
    const ir::Type &t = work[i]->type;
    if (op->kind == OpKind::Load && t.isTensor() && t.shape == n.space)
      isOwn = true;
    else if (op->kind == OpKind::Load && t.isTensor())
      common += static_cast<uint64_t>(t.numel()) * ir::byteWidth(t.elem);
    else if (op->has(ir::traits::Elementwise) || op->kind == OpKind::Broadcast || op->kind == OpKind::ExpandDims)
      work.insert(work.end(), op->operands.begin(), op->operands.end());
    else
      return 0;
  }
  return isOwn ? common : 0;
}

V FunctionEmitter::identity(const Op &reduce, unsigned i) {
  const ir::Block &body = *reduce.regions[0]->block;
  if (reduce.operands.size() != 1 || body.ops.size() != 2 || body.ops[1]->operands[0]->def != body.ops[0])
    return nullptr;
  const Op &op = *body.ops[0];
  if (op.operands.size() != 2 || op.operands[0] == op.operands[1] || op.operands[0]->def || op.operands[1]->def)
    return nullptr;
  ir::Elem e = reduce.operands[i]->type.elem;
  llvm::Type *t = vec_.elemType(e);
  unsigned bits = ir::bitWidth(e);
  auto integer = [&](const llvm::APInt &x) -> V { return llvm::ConstantInt::get(t, x); };
  auto real = [&](double x) -> V {
    return e == ir::Elem::F32 || e == ir::Elem::F64 ? llvm::ConstantFP::get(t, x) : nullptr;
  };
  switch (op.kind) {
  case OpKind::Add: case OpKind::Or: case OpKind::Xor: case OpKind::UMax:
    return integer(llvm::APInt::getZero(bits));
  case OpKind::And: case OpKind::UMin: return integer(llvm::APInt::getAllOnes(bits));
  case OpKind::Mul: return integer(llvm::APInt(bits, 1));
  case OpKind::SMax: return integer(llvm::APInt::getSignedMinValue(bits));
  case OpKind::SMin: return integer(llvm::APInt::getSignedMaxValue(bits));
  case OpKind::FAdd: return real(-0.0);
  case OpKind::FMul: return real(1.0);
  // maxnum(NaN, x) = x; and NaN stays if there is nothing else.
  case OpKind::MaxNum: case OpKind::MinNum:
    return real(!nest_->quick ? std::numeric_limits<double>::quiet_NaN()
                              : (op.kind == OpKind::MaxNum ? -1 : 1) * std::numeric_limits<double>::infinity());
  case OpKind::Maximum: return real(-std::numeric_limits<double>::infinity());
  case OpKind::Minimum: return real(std::numeric_limits<double>::infinity());
  default: return nullptr;
  }
}

unsigned FunctionEmitter::accumulatorCount() const { return slots(*nest_->nest) << nest_->unrolled.size(); }

llvm::SmallVector<V> FunctionEmitter::initialAccumulators() {
  llvm::SmallVector<V> one, all;
  for (const Root &r : nest_->nest->roots) {
    if (r.kind != RootKind::Reduce && r.kind != RootKind::Scan)
      continue;
    for (unsigned i = 0; i < r.op->results.size(); ++i) {
      V id = identity(*r.op, i);
      if (!id)
        id = llvm::Constant::getNullValue(regType(r.op->operands[i]->type.scalarType()));
      one.push_back(broadcast(id, nest_->lanes()));
    }
  }
  for (unsigned c = 0; c < 1u << nest_->unrolled.size(); ++c)
    all.append(one);
  return all;
}

// The right arguments themselves where `first` holds. There the left ones are no elements: straight code computes with
// them all the same, a loop over them might not end.
llvm::SmallVector<V, 4> FunctionEmitter::combineUnlessFirst(const Op &op, llvm::ArrayRef<V> args, V first) {
  const ir::Region &region = *op.regions[0];
  llvm::ArrayRef<V> x = args.drop_front(args.size() / 2);
  if (!plan_.regions.contains(&region)) {
    llvm::SmallVector<V, 4> c = combine(region, args);
    for (size_t i = 0; i < c.size(); ++i)
      c[i] = b_.CreateSelect(first, x[i], c[i]);
    return c;
  }
  auto *both = llvm::BasicBlock::Create(context_, "combine", function_),
       *after = llvm::BasicBlock::Create(context_, "combined", function_);
  llvm::BasicBlock *before = b_.GetInsertBlock();
  b_.CreateCondBr(first, after, both);
  b_.SetInsertPoint(both);
  llvm::SmallVector<V, 4> c = combine(region, args);
  llvm::BasicBlock *end = b_.GetInsertBlock();
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
  for (size_t i = 0; i < c.size(); ++i) {
    llvm::PHINode *phi = b_.CreatePHI(c[i]->getType(), 2);
    phi->addIncoming(x[i], before);
    phi->addIncoming(c[i], end);
    c[i] = phi;
  }
  return c;
}

namespace {
/// The lanes of a vector as neighbours along the axis of a scan: bits of their numbers from `from` up to `to`.
struct ScannedLanes {
  unsigned from, to;
  ScannedLanes(const NestState &n, const Op &scan) {
    unsigned axis = static_cast<unsigned>(scan.axis()), first = dimOffset(n.nest->space, axis);
    from = std::min(first, n.laneBits), to = std::min(first + dimBits(n.nest->space, axis), n.laneBits);
  }
};
} // namespace

V lastScanned(llvm::IRBuilder<> &b, const NestState &n, const Op &scan, V x) {
  const ScannedLanes l(n, scan);
  if (l.from == l.to)
    return x;
  const unsigned inAxis = (1u << l.to) - (1u << l.from);
  llvm::SmallVector<int, 32> from;
  for (unsigned i = 0; i < n.lanes(); ++i)
    from.push_back(static_cast<int>(scan.reverse() ? i & ~inAxis : i | inAxis));
  return b.CreateShuffleVector(x, from);
}

void FunctionEmitter::accumulate(const Root &r, unsigned copy, unsigned slot, const Bits &at,
                                 llvm::SmallVectorImpl<V> &accs, V first) {
  unsigned n = static_cast<unsigned>(r.op->results.size()), from = copy * slots(*nest_->nest) + slot;
  llvm::SmallVector<V, 8> x, args;
  for (const ir::Value *v : r.op->operands)
    x.push_back(broadcast(eval(v, at), nest_->lanes()));
  setLoc(r.op);
  if (r.kind == RootKind::Scan)
    scanLanes(*r.op, x);
  auto *known = llvm::dyn_cast<llvm::ConstantInt>(first);
  bool neutral = identity(*r.op, 0) != nullptr;
  if (known && known->isOne()) {
    for (unsigned i = 0; i < n; ++i) // quickly: a NaN must not stand on the left
      accs[from + i] =
          nest_->quick ? combineReduced(*r.op, {broadcast(identity(*r.op, i), nest_->lanes()), x[i]})[0] : x[i];
  } else {
    args.append(accs.begin() + from, accs.begin() + from + n);
    args.append(x);
    auto c = neutral ? combineReduced(*r.op, args) : combineUnlessFirst(*r.op, args, first);
    for (unsigned i = 0; i < n; ++i)
      accs[from + i] = c[i];
  }
  if (r.kind == RootKind::Scan)
    for (unsigned i = 0; i < n; ++i) {
      storeBuffer(plan_.bufferFor(r.op->results[i]), accs[from + i], r.op->operands[i]->type, at);
      accs[from + i] = lastScanned(b_, *nest_, *r.op, accs[from + i]);
    }
}

// Each lane gets the scan of the lanes up to itself in the vector, in log2(lanes) steps, which combine lanes 1, 2, 4 ..
// apart (W. D. Hillis, G. L. Steele, Data parallel algorithms, CACM 29, 1986). A lane without such a partner combines
// with the neutral element or, if there is none, keeps its value.
void FunctionEmitter::scanLanes(const Op &scan, llvm::SmallVectorImpl<V> &x) {
  const ScannedLanes l(*nest_, scan);
  const unsigned lanes = nest_->lanes(), count = 1u << (l.to - l.from), beside = 1u << l.from;
  const bool neutral = identity(scan, 0) != nullptr;
  for (unsigned step = 1; step < count; step *= 2) {
    llvm::SmallVector<V, 8> args;
    llvm::SmallVector<llvm::Constant *, 32> has;
    llvm::SmallVector<int, 32> from;
    for (unsigned i = 0; i < lanes; ++i) {
      const unsigned place = i / beside % count;
      const bool there = scan.reverse() ? place + step < count : place >= step;
      has.push_back(b_.getInt1(there));
      from.push_back(static_cast<int>(there     ? (scan.reverse() ? i + step * beside : i - step * beside)
                                      : neutral ? lanes + i
                                                : i));
    }
    for (unsigned i = 0; i < x.size(); ++i) {
      V before = b_.CreateShuffleVector(x[i], neutral ? broadcast(identity(scan, i), lanes) : x[i], from);
      // Nobody sees what is computed in lanes that have none there, so LLVM puts there whatever some register holds. A
      // bound of the row, read as floats, is subnormal:
      // multiplying it takes a hundred cycles and more (Intel SDM vol. 1, 11.5.2.2, Optimization Reference Manual,
      // "Floating-point exceptions and assists").
      const bool real = before->getType()->isFPOrFPVectorTy();
      args.push_back(real && !neutral ? b_.CreateArithmeticFence(before, before->getType()) : before);
    }
    args.append(x.begin(), x.end());
    llvm::SmallVector<V, 4> joined = combine(*scan.regions[0], args);
    for (unsigned i = 0; i < x.size(); ++i)
      x[i] = neutral ? joined[i] : b_.CreateSelect(llvm::ConstantVector::get(has), joined[i], x[i]);
  }
}

void FunctionEmitter::finishReductions(llvm::ArrayRef<V> accs) { keepReduced(reduceAll(accs)); }

std::vector<Reduced> FunctionEmitter::reduceAll(llvm::ArrayRef<V> accs) {
  std::vector<Reduced> all;
  unsigned slot = 0;
  for (const Root &r : nest_->nest->roots)
    if (r.kind == RootKind::Reduce) {
      reduce(r, slot, accs, all);
      slot += static_cast<unsigned>(r.op->results.size());
    } else if (r.kind == RootKind::Scan) {
      slot += static_cast<unsigned>(r.op->results.size());
    }
  return all;
}

void FunctionEmitter::keepReduced(llvm::ArrayRef<Reduced> all) {
  NestState &s = *nest_;
  for (const Reduced &one : all) {
    const Op &op = *one.root->op;
    Bits at = rootBits(one.copy), out;
    for (BitSource b : bitsWithout(s.nest->space, static_cast<unsigned>(s.nest->axis)))
      out.push_back(at[static_cast<size_t>(b)]);
    for (unsigned i = 0; i < op.results.size(); ++i) {
      const ir::Value *result = op.results[i];
      if (result->type.isScalar())
        scalar_[result] = one.values[i];
      else if (one.root->buffer >= 0)
        addToCarried(*one.root, one.values[i], out);
      else
        storeBuffer(plan_.bufferFor(result), one.values[i], result->type, out);
    }
  }
}

// The result of a reduction, at `at`, becomes what the loop around it carries on.
void FunctionEmitter::addToCarried(const Root &r, V result, const Bits &at) {
  const Op &f = *r.value->def;
  V carried = loadBuffer(r.buffer, r.value->type, at);
  llvm::SmallVector<V, 3> args;
  for (const ir::Value *v : f.operands)
    args.push_back(v == r.op->result() ? result : carried);
  setLoc(&f);
  storeBuffer(r.buffer, elementwise(f, std::move(args)), r.value->type, at);
}

static OpKind combinesBy(const Op &reduce) { return reduce.regions[0]->block->ops[0]->kind; }

llvm::SmallVector<V, 4> FunctionEmitter::combineReduced(const Op &reduce, llvm::ArrayRef<V> args) {
  if (!nest_->quick)
    return combine(*reduce.regions[0], args);
  V better =
      combinesBy(reduce) == OpKind::MaxNum ? b_.CreateFCmpOGT(args[1], args[0]) : b_.CreateFCmpOLT(args[1], args[0]);
  return {b_.CreateSelect(better, args[1], args[0])};
}

// Nothing but maxima and minima of floats on x86.
bool FunctionEmitter::canReduceQuickly() {
  auto isExtremum = [&](const Root &r) {
    if (r.kind != RootKind::Reduce || r.op->operands.size() != 1 || !identity(*r.op, 0))
      return false;
    OpKind kind = combinesBy(*r.op);
    return kind == OpKind::MaxNum || kind == OpKind::MinNum;
  };
  return state_.target.triple.starts_with("x86_64") && !nest_->nest->sequential && !nest_->nest->roots.empty() &&
         llvm::all_of(nest_->nest->roots, isExtremum);
}

// The larger of two numbers is one instruction where neither is NaN and they are not zeros of both signs; what maxnum
// says of those takes six. The instruction passes over a NaN that is its first operand, so the result can only be wrong
// if it is a zero, or says that there was no number at all: then all is computed once more, as it should be.
void FunctionEmitter::reduceQuickly(llvm::function_ref<llvm::SmallVector<V>()> accumulateAll) {
  NestState &n = *nest_;
  n.quick = true;
  std::vector<Reduced> all = reduceAll(accumulateAll());
  V doubt = nullptr;
  for (const Reduced &one : all) {
    V x = one.values[0], worst = broadcast(identity(*one.root->op, 0), x->getType()->isVectorTy() ? n.lanes() : 1);
    V bad = b_.CreateOr(b_.CreateFCmpOEQ(x, llvm::Constant::getNullValue(x->getType())), b_.CreateFCmpOEQ(x, worst));
    bad = anyOf(bad);
    doubt = doubt ? b_.CreateOr(doubt, bad) : bad;
  }
  n.quick = false;
  auto *again = llvm::BasicBlock::Create(context_, "again", function_),
       *sure = llvm::BasicBlock::Create(context_, "sure", function_);
  llvm::BasicBlock *before = b_.GetInsertBlock();
  b_.CreateCondBr(doubt, again, sure);
  b_.SetInsertPoint(again);
  auto memo = n.memo;
  auto addresses = n.addressMemo;
  const size_t mixed = mixed_.mark();
  std::vector<Reduced> exact = reduceAll(accumulateAll());
  mixed_.backTo(mixed);
  n.memo = std::move(memo);
  n.addressMemo = std::move(addresses);
  llvm::BasicBlock *end = b_.GetInsertBlock();
  b_.CreateBr(sure);
  b_.SetInsertPoint(sure);
  for (size_t i = 0; i < all.size(); ++i) {
    llvm::PHINode *phi = b_.CreatePHI(all[i].values[0]->getType(), 2);
    phi->addIncoming(all[i].values[0], before);
    phi->addIncoming(exact[i].values[0], end);
    all[i].values[0] = phi;
  }
  keepReduced(all);
}

void FunctionEmitter::reduce(const Root &r, unsigned slot, llvm::ArrayRef<V> accs, std::vector<Reduced> &out) {
  NestState &s = *nest_;
  const ir::Shape &space = s.nest->space;
  unsigned axis = static_cast<unsigned>(s.nest->axis), from = dimOffset(space, axis), to = from + dimBits(space, axis);
  auto inAxis = [&](unsigned bit) { return bit >= from && bit < to; };
  unsigned n = static_cast<unsigned>(r.op->results.size()), stride = slots(*s.nest);
  setLoc(r.op);
  auto join = [&](llvm::ArrayRef<V> a, llvm::ArrayRef<V> b) {
    llvm::SmallVector<V, 8> args(a.begin(), a.end());
    args.append(b.begin(), b.end());
    return combineReduced(*r.op, args);
  };
  // Copies that differ in axis bits are one result: joined in pairs, like lanes, which is the shorter chain.
  using Part = llvm::SmallVector<V, 4>;
  std::map<unsigned, llvm::SmallVector<Part, 4>> results;
  unsigned axisMask = 0;
  for (unsigned i = 0; i < s.unrolled.size(); ++i)
    axisMask |= inAxis(s.unrolled[i]) ? 1u << i : 0;
  for (unsigned c = 0; c < 1u << s.unrolled.size(); ++c) {
    Part part;
    for (unsigned i = 0; i < n; ++i)
      part.push_back(accs[c * stride + slot + i]);
    results[c & ~axisMask].push_back(std::move(part));
  }
  bool allLanes = true;
  for (unsigned t = 0; t < s.laneBits; ++t)
    allLanes &= inAxis(t);
  for (auto &[copy, parts] : results) {
    for (; parts.size() > 1; parts.resize(parts.size() / 2))
      for (size_t i = 0; i < parts.size() / 2; ++i)
        parts[i] = join(parts[2 * i], parts[2 * i + 1]);
    Part &x = parts.front();
    for (unsigned t = s.laneBits; t-- > 0;) {
      if (!inAxis(t))
        continue;
      unsigned lanes = allLanes ? 2u << t : s.lanes();
      Part low, high;
      for (V v : x) {
        llvm::SmallVector<int, 32> lo, hi;
        for (unsigned i = 0; i < (allLanes ? lanes / 2 : lanes); ++i) {
          lo.push_back(static_cast<int>(allLanes ? i : i & ~(1u << t)));
          hi.push_back(static_cast<int>(allLanes ? i + lanes / 2 : i | 1u << t));
        }
        low.push_back(pickLanes(v, lo));
        high.push_back(pickLanes(v, hi));
      }
      x = join(low, high);
    }
    out.push_back({&r, copy, x});
  }
}

} // namespace tegula::cpu
