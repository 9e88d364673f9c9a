// Rows by segments: ranges of trips of the innermost loop in which the values of masks are known.
//
// Most rows have one segment, up to the first comparison that becomes false (FunctionEmitter::fullTrips), and the
// remaining trips run masked. A comparison like `lo <= i` begins false and becomes true. Such a row has up to three
// segments, and a masked loop before each of them and after the last one:
//
//   1. those that become true are false, the others true   (`i >= n` of a concatenation: only the first tensor is read)
//   2. all of them are true                                 (padding, convolutions, the upper triangle of a matrix)
//   3. those that end are false, except for the row's own end, given by the mask of the store (the second tensor)
//
// The first and the third are emitted if a single comparison determines them, in nests that only store; the second if
// no comparison is the opposite of another. The masked loop is emitted once, in a loop over the segments:
//
//   for s in segments and the end:  masked [end of the one before, s.from);  s.kind == 1: [s.from, s.to);  s.kind == 2: ...
#include "targets/cpu/emit/Emitter.h"

namespace tegula::cpu {
using ir::Op;
using ir::OpKind;
using V = llvm::Value *;

/// Is one of two comparisons of the same numbers true wherever the other one is false?
static bool areOpposite(const ir::Value *x, const ir::Value *y) {
  using enum ir::CmpPred;
  const Op &a = *x->def, &b = *y->def;
  auto is = [&](ir::CmpPred p, ir::CmpPred q) {
    return (a.pred() == p && b.pred() == q) || (a.pred() == q && b.pred() == p);
  };
  return a.operands[0] == b.operands[0] && a.operands[1] == b.operands[1] &&
         (is(Slt, Sge) || is(Sle, Sgt) || is(Ult, Uge) || is(Ule, Ugt));
}

// `full`: trips before the first comparison ends; `steady`: before the first one of those in `same`, which are no flips
// (null: there are none). Fills `segments`, or gives back how many leading trips have all of them true.
V FunctionEmitter::findSegments(llvm::ArrayRef<Flip> flips, const std::map<const ir::Value *, Bits> &same, V full,
                                V steady, V all) {
  NestState &n = *nest_;
  auto least = [&](V x, V y) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, y); };
  auto most = [&](V x, V y) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x, y); };
  unsigned rising = 0, ending = 0; // ending: but for those of stores
  bool endOfRow = false, opposite = false;
  for (const Flip &f : flips) {
    rising += f.rises;
    ending += !f.rises && !f.stored;
    endOfRow |= !f.rises && f.stored;
    for (const Flip &g : flips)
      opposite |= f.rises && !g.rises && areOpposite(f.mask, g.mask);
  }
  const bool stores = llvm::all_of(n.nest->roots, [](const Root &r) { return r.kind == RootKind::Store; });
  const bool first = stores && rising == 1, last = stores && ending == 1 && endOfRow;
  if (!n.ofTrip.empty() || (!rising && !last)) {
    for (const Flip &f : flips)
      if (f.rises) // all of the row or nothing
        full = least(full, b_.CreateSelect(b_.CreateIsNull(f.behind), all, b_.getInt64(0)));
    return full;
  }
  // Where those that rise have the one value and those that end the other.
  auto add = [&](bool risen, bool ended) {
    Segment s{b_.getInt64(0), steady ? least(steady, all) : all, same, {}};
    for (const Flip &f : flips) {
      const bool flipped = f.rises ? risen : ended && !f.stored;
      (f.rises == flipped ? s.holding : s.failing)[f.mask] = f.at;
      (flipped ? s.from : s.to) = flipped ? most(s.from, f.behind) : least(s.to, f.before);
    }
    n.segments.push_back(std::move(s));
  };
  if (first)
    add(false, false);
  if (!opposite)
    add(true, false);
  if (last)
    add(true, true);
  return full;
}

// The innermost loop, over all trips: those in which masks are known, and the others.
void FunctionEmitter::trips(NestLoop &l, V full, V trips, llvm::SmallVector<V> &carried, Trip run) {
  NestState &n = *nest_;
  auto inside = [&] { fullLoop(l, b_.getInt64(0), full, trips, carried, run); };
  if (!n.segments.empty())
    return segmentLoops(l, trips, carried, run);
  if (n.underMask)
    apart(inside);
  else
    inside();
  if (full)
    apart([&] { maskedLoop(l, full, trips, trips, carried, run); });
}

void FunctionEmitter::segmentLoops(NestLoop &l, V trips, llvm::SmallVector<V> &carried, Trip run) {
  NestState &n = *nest_;
  const auto segments = std::move(n.segments);
  n.segments.clear();
  const auto assumed = n.assumed;
  const auto count = static_cast<unsigned>(segments.size());
  V zero = b_.getInt64(0), end = zero;
  auto inRow = [&](V x) {
    return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x, end),
                                    trips);
  };
  llvm::SmallVector<V, 4> from, to;
  for (const Segment &s : segments) {
    from.push_back(inRow(s.from));
    end = from.back();
    to.push_back(inRow(s.to));
    end = to.back();
  }
  auto *enter = llvm::BasicBlock::Create(context_, "segment", function_),
       *exit = llvm::BasicBlock::Create(context_, "segments.done", function_);
  llvm::Instruction *before = b_.CreateBr(enter);
  b_.SetInsertPoint(enter);
  llvm::PHINode *which = b_.CreatePHI(b_.getInt32Ty(), 2);
  llvm::SmallVector<llvm::PHINode *> phis;
  const llvm::SmallVector<V> init = carried;
  for (V &x : carried) {
    phis.push_back(b_.CreatePHI(x->getType(), 2));
    x = phis.back();
  }
  auto is = [&](unsigned k) { return b_.CreateICmpEQ(which, b_.getInt32(k)); };
  V start = zero, stop = trips;
  for (unsigned k = 0; k < count; ++k) {
    start = b_.CreateSelect(is(k + 1), to[k], start);
    stop = b_.CreateSelect(is(k), from[k], stop);
  }
  maskedLoop(l, start, stop, trips, carried, run);
  for (unsigned k = 0; k < count; ++k) {
    n.assumed = segments[k].holding;
    n.denied = segments[k].failing;
    V here = is(k);
    fullLoop(l, b_.CreateSelect(here, from[k], zero), b_.CreateSelect(here, to[k], zero), trips, carried, run);
  }
  n.assumed = assumed;
  n.denied.clear();
  V next = b_.CreateAdd(which, b_.getInt32(1));
  which->addIncoming(b_.getInt32(0), before->getParent());
  which->addIncoming(next, b_.GetInsertBlock());
  for (size_t i = 0; i < phis.size(); ++i) {
    phis[i]->addIncoming(init[i], before->getParent());
    phis[i]->addIncoming(carried[i], b_.GetInsertBlock());
  }
  b_.CreateCondBr(b_.CreateICmpULE(next, b_.getInt32(count)), enter, exit);
  b_.SetInsertPoint(exit);
}

// The loop under masks over trips [from, to) of `trips`. It takes one vector at a time if it ends with the row: there
// are few of them, and what is masked off as a whole waits for its lines all the same, those of the next row.
void FunctionEmitter::maskedLoop(NestLoop &l, V from, V to, V trips, llvm::SmallVector<V> &carried, Trip run) {
  NestState &n = *nest_;
  n.masked = true;
  n.trips = trips;
  if (!n.restFrom || !n.byVector) {
    carried = loop(l, from, to, true, carried, run);
    n.masked = false;
    return;
  }
  const NestLoop coarse = l;
  const auto unrolled = std::move(n.unrolled);
  const auto bits = static_cast<unsigned>(unrolled.size());
  V coarseRest = n.restFrom;
  auto fine = [&](V x) { return b_.CreateShl(x, bits); };
  n.unrolled.clear();
  l.firstBit -= bits;
  l.bits += bits;
  for (unsigned bit : unrolled)
    n.loopOf[bit] = static_cast<int>(n.loops.size()) - 1;
  n.restFrom = n.restFromVector;
  n.trips = fine(trips);
  const size_t one = carried.size() >> bits; // of the first copy
  llvm::SmallVector<V> out = loop(l, fine(from), fine(to), true, llvm::ArrayRef(carried).take_front(one), run);
  std::copy(out.begin(), out.end(), carried.begin());
  n.restFrom = coarseRest;
  for (unsigned bit : unrolled)
    n.loopOf[bit] = -1;
  l = coarse;
  n.unrolled = unrolled;
  n.masked = false;
}

// The loop over trips without masks: all of them, or those that are inside as a whole. Twice if stores may stream.
void FunctionEmitter::fullLoop(NestLoop &l, V from, V full, V trips, llvm::SmallVector<V> &carried, Trip run) {
  NestState &n = *nest_;
  V stream = carried.empty() && !n.apart ? streamRow() : nullptr;
  auto emit = [&] {
    findAhead();
    n.assuming = full != nullptr;
    n.trips = full ? full : trips;
    if (!loopByRuns(l, n.trips, full != nullptr, carried, run))
      carried = loop(l, from, n.trips, full != nullptr, carried, run);
    n.assuming = false;
    n.ahead.clear();
  };
  if (!stream)
    return emit();
  auto *past = llvm::BasicBlock::Create(context_, "past.caches", function_);
  auto *into = llvm::BasicBlock::Create(context_, "into.caches", function_);
  auto *exit = llvm::BasicBlock::Create(context_, "stored", function_);
  b_.CreateCondBr(stream, past, into);
  for (bool streaming : {true, false}) {
    b_.SetInsertPoint(streaming ? past : into);
    // What one copy computes before its loop does not exist in the other.
    auto memo = n.memo;
    auto addresses = n.addressMemo;
    const size_t mixed = mixed_.mark();
    n.streaming = streaming;
    emit();
    n.memo = std::move(memo);
    n.addressMemo = std::move(addresses);
    mixed_.backTo(mixed);
    b_.CreateBr(exit);
  }
  n.streaming = false;
  b_.SetInsertPoint(exit);
}

} // namespace tegula::cpu
