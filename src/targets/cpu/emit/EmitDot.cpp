// Dots: the placement of their operands, and the multiply-adds between the panels of B.
//
// A is read in place if it consists of rows of consecutive k that need no conversion. Rows a few KiB apart conflict in
// the same cache sets, but one block of rows (Dot.h) needs no more than the associativity, and each line is read once
// per panel, as from a packed copy. Whether all elements are inside the matrix is known at run time only; if they are
// not, A is packed.
#include "targets/cpu/emit/Emitter.h"
#include <numeric>

namespace tegula::cpu {
using ir::Op;
using ir::OpKind;
using V = llvm::Value *;

// `x % n` with x linear: the rows of a tile that does not wrap around are as far apart as without it. Anything else
// that varies in the tile has to be evaluated.
bool FunctionEmitter::staysLinear(const Lin &l, const Bits &at) {
  auto varies = [](BitSource s) { return s >= 0; };
  unsigned varying = 0;
  for (const Opaque &o : l.opaque) {
    Bits inner = positionOf(o, at);
    if (llvm::any_of(inner, varies) && (++varying > 1 || !growthOfRemainder(o, inner, varies)))
      return false;
  }
  return !l.self;
}

// The left operand of a dot in memory, or nullopt if it must be packed.
std::optional<InPlace> FunctionEmitter::leftInPlace(const Step &s, const Counts &counts, V depth) {
  if (state_.options.checked)
    return {};
  const bool byColumns = s.dot->aDepthStride != 1;
  const ir::Value *v = s.left->roots[0].value;
  unsigned total = bitCount(v->type.shape), depthBits = log2Exact(s.dot->k);
  Bits at = identityBits(total);
  for (; v->def->kind != OpKind::Load; v = v->def->operands[0])
    at = operandBits(*v->def, 0, v->index, at);
  const Op &load = *v->def;
  Lin l = lin(load.operands[0]); // evaluation may add entries
  if (!staysLinear(l, at))
    return {};
  // The whole tile is one chunk, all bits lanes; only its first and last element are ever computed.
  NestState tile;
  tile.nest = s.left.get();
  tile.loopOf.assign(total, -1);
  tile.laneOf.resize(total);
  std::iota(tile.laneOf.begin(), tile.laneOf.end(), 0);
  tile.laneBits = total;
  tile.memo.resize(1);
  tile.addressMemo.resize(1);
  tile.tileDepth = depth;
  nest_ = &tile;
  const size_t mixed = mixed_.mark();
  auto look = [&]() -> std::optional<InPlace> {
    LaneAddress a = linAt(load.operands[0], l, at, true, true);
    const llvm::SmallVector<Coef, 6> &step = a.noWrap ? a.flatLane : a.lane;
    if (byColumns) { // packed, but the next one fetched
      InPlace r{bufferLin(s.bufferA).base, nullptr, nullptr};
      if (!s.dot->byPanel || !PanelDot::fetchesLeft(state_.target, *s.dot))
        return r;
      for (unsigned i = 0; i < depthBits; ++i)
        if (step[i] != Coef{step[0].k << i, step[0].s})
          return r;
      r.next = nextTile(l, counts.depthLeft, s.dot->k);
      r.column = a.noWrap ? a.flatBase : a.base,
      r.columnStride = b_.CreateSExtOrTrunc(coefValue(step[0], b_.getInt64Ty()), b_.getInt64Ty());
      return r;
    }
    for (unsigned i = 0; i < total; ++i) {
      Coef first = i < depthBits ? Coef{ir::byteWidth(v->type.elem)} : step[depthBits];
      unsigned power = i < depthBits ? i : i - depthBits;
      if (step[i] != Coef{first.k << power, first.s})
        return {};
    }
    InPlace r{a.noWrap ? a.flatBase : a.base, b_.getInt64(0), a.noWrap};
    if (depthBits < total)
      r.stride = b_.CreateSExtOrTrunc(coefValue(step[depthBits], b_.getInt64Ty()), b_.getInt64Ty());
    if (load.operands.size() > 1) {
      V full = fullTrips(nullptr, 0);
      if (!full || !assumedTrue(load.operands[1], at))
        return {};
      V inside = b_.CreateICmpSGT(full, b_.getInt64(0));
      r.holds = r.holds ? b_.CreateAnd(r.holds, inside) : inside;
    }
    if (s.dot->byPanel && PanelDot::fetchesLeft(state_.target, *s.dot))
      r.next = nextTile(l, counts.depthLeft, s.dot->k);
    return r;
  };
  std::optional<InPlace> r = look();
  // The last block of rows reads all of its rows.
  if (r && counts.rows && !byColumns) {
    V all = b_.CreateICmpEQ(counts.rows, b_.getInt64(static_cast<uint64_t>(s.dot->m)));
    r->holds = r->holds ? b_.CreateAnd(r->holds, all) : all;
  }
  mixed_.backTo(mixed);
  nest_ = nullptr;
  if (r && r->next)
    resultInPlace(s, *r);
  return r;
}

// Where the result will be stored, if that is rows of neighbouring elements.
void FunctionEmitter::resultInPlace(const Step &s, InPlace &r) {
  const ir::Op *store = s.part.store;
  if (!store)
    return;
  llvm::SmallVector<const ir::Value *, 8> lent;
  const size_t mixed = mixed_.mark();
  if (define(store->operands[0], lent)) {
    const Lin &l = lin(store->operands[0]);
    const unsigned columns = log2Exact(s.dot->n), rows = log2Exact(s.dot->m);
    bool plain = !l.self && l.opaque.empty() && l.coef.size() == columns + rows;
    for (unsigned i = 0; plain && i < columns + rows; ++i) {
      const Coef first = i < columns ? Coef{ir::byteWidth(store->operands[1]->type.elem)} : l.coef[columns];
      plain = l.coef[i] == Coef{first.k << (i < columns ? i : i - columns), first.s};
    }
    if (plain)
      r.result = l.base,
      r.resultStride = b_.CreateSExtOrTrunc(coefValue(l.coef[columns], b_.getInt64Ty()), b_.getInt64Ty());
  }
  mixed_.backTo(mixed);
  for (const ir::Value *v : lent)
    v->type.isTensor() ? lin_.erase(v) : scalar_.erase(v);
}

// Makes linear forms and scalars available that are defined further down: what the mask of a store is made from. They
// go into `lent`, as they are known here only.
bool FunctionEmitter::define(const ir::Value *v, llvm::SmallVectorImpl<const ir::Value *> &lent) {
  if (v->type.isTensor() ? lin_.contains(v) : scalar_.contains(v))
    return true;
  const Op *op = v->def;
  bool leaf = op && (op->kind == OpKind::Const || op->kind == OpKind::Range || op->kind == OpKind::ProgramId ||
                     op->kind == OpKind::NumPrograms);
  if (!op || lent.size() > 64 || op->results.size() != 1 ||
      !(leaf || op->has(ir::traits::Elementwise) || op->has(ir::traits::Shape)) || op->kind == OpKind::Unsplat ||
      !llvm::all_of(op->operands, [&](const ir::Value *x) { return define(x, lent); }))
    return false;
  defineStep(*op);
  if (v->type.isTensor() ? !lin_.contains(v) : !scalar_.contains(v))
    return false;
  lent.push_back(v);
  return true;
}

// At how many leading positions of a dimension the comparison may hold, i64; more than the dimension has where that is
// not known before it runs, null where it never is. With a `diagonal`: the number from which on position - other
// position has to be for it not to hold, where the dimension given is of `bits` and the other begins at bit `diagonal`
// or, if that is 0, ends at `fromBit`.
V FunctionEmitter::countsOf(const DotPart::Condition &c, unsigned fromBit, unsigned bits, int diagonal) {
  const Op &cmp = *c.compare;
  Lin a = lin(cmp.operands[0]), b = lin(cmp.operands[1]);
  const std::optional<Below> below = asBelow(cmp.pred());
  if (!below)
    return nullptr;
  if (below->swapped)
    std::swap(a, b);
  if (!a.opaque.empty() || !b.opaque.empty() || a.self || b.self || a.split || b.split)
    return nullptr;
  // One side grows by one from position to position, the other not, or along the other dimension. (Of a dimension that
  // is rounds of a loop and k in a round, one may grow with k, the other shrink with rounds: JoinRounds.h.)
  auto growthAlong = [&](const Lin &l, unsigned from, unsigned count) -> std::optional<llvm::SmallVector<int64_t, 12>> {
    llvm::SmallVector<int64_t, 12> growth(count);
    for (size_t i = 0; i < c.at.size(); ++i) {
      if (l.coef[i].zero())
        continue;
      BitSource s = c.at[i];
      if (s < 0 || static_cast<unsigned>(s) < from || static_cast<unsigned>(s) >= from + count || l.coef[i].s)
        return {};
      growth[static_cast<unsigned>(s) - from] += l.coef[i].k;
    }
    return growth;
  };
  auto byOne = [](llvm::ArrayRef<int64_t> growth) {
    for (unsigned i = 0; i < growth.size(); ++i)
      if (growth[i] != int64_t(1) << i)
        return false;
    return true;
  };
  const unsigned total = diagonal < 0 ? 0 : diagonal, otherFrom = fromBit ? 0 : bits,
                 otherBits = total ? total - bits : 0;
  auto growth = growthAlong(a, fromBit, bits),
       ofBound = total ? growthAlong(b, otherFrom, otherBits) : growthAlong(b, fromBit, bits);
  if (!growth || !ofBound || (total && !byOne(*ofBound)))
    return nullptr;
  bool shrinks = false;
  for (unsigned i = 0; !total && i < bits; ++i) {
    if ((*growth)[i] < 0 || (*ofBound)[i] > 0)
      return nullptr;
    shrinks |= (*ofBound)[i] < 0;
    (*growth)[i] -= (*ofBound)[i];
  }
  // By one from position to position of a round of 2^low, and from round to round perhaps by more (`jump`), as in parts
  // of k (split-K).
  unsigned low = 0;
  while (low < bits && (*growth)[low] == int64_t(1) << low)
    ++low;
  const int64_t jump = low < bits ? (*growth)[low] : 0;
  if (low < bits &&
      (total || jump < int64_t(1) << low || jump > INT32_MAX >> (bits - low) ||
       !llvm::all_of(llvm::seq(low, bits), [&](unsigned i) { return (*growth)[i] == jump << (i - low); })))
    return nullptr;
  if (shrinks && below->isUnsigned)
    return nullptr;
  V first = b_.CreateSExt(a.base, b_.getInt64Ty()), bound = b_.CreateSExt(b.base, b_.getInt64Ty());
  V count = differenceOf(bound, first, a.base->getType());
  if (below->orEqual)
    count = sumOf(count, b_.getInt64(1), a.base->getType());
  if (jump) { // whole rounds, and the part of the next one that is inside
    V by = b_.getInt64(static_cast<uint64_t>(jump)),
      inside = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, count, b_.getInt64(0)),
      rounds = b_.CreateUDiv(inside, by);
    V rest = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, b_.CreateSub(inside, b_.CreateMul(rounds, by)),
                                      b_.getInt64(uint64_t(1) << low));
    count = b_.CreateAdd(b_.CreateShl(rounds, low), rest);
  }
  // Positions that wrap around may be inside again; the beginning may be outside of an unsigned range that is entered
  // later.
  V all = b_.getInt64(uint64_t(1) << bits);
  int64_t largest = (a.base->getType()->isIntegerTy(32) ? int64_t(INT32_MAX) : INT64_MAX) -
                    std::max(int64_t(1) << std::max(bits, otherBits), jump << (bits - low));
  V plain = b_.CreateICmpSLE(first, b_.getInt64(static_cast<uint64_t>(largest)));
  if (otherBits)
    plain = b_.CreateAnd(plain, b_.CreateICmpSLE(bound, b_.getInt64(static_cast<uint64_t>(largest))));
  if (shrinks)
    plain = b_.CreateAnd(plain, b_.CreateICmpSGE(bound, b_.getInt64(static_cast<uint64_t>(-largest))));
  // In 64 bits the difference itself may wrap around.
  if (below->isUnsigned || !a.base->getType()->isIntegerTy(32))
    plain = b_.CreateAnd(
        plain, b_.CreateAnd(b_.CreateICmpSGE(first, b_.getInt64(0)), b_.CreateICmpSGE(bound, b_.getInt64(0))));
  return b_.CreateSelect(plain, count, all);
}

// The least of them.
V FunctionEmitter::countsOfAll(const DotPart::Conditions &all, unsigned fromBit, unsigned bits, int diagonal) {
  V least = nullptr;
  for (const DotPart::Condition &c : all) {
    if (c.bothDims != (diagonal >= 0))
      continue;
    llvm::SmallVector<const ir::Value *, 8> lent;
    V count = llvm::all_of(c.compare->operands, [&](const ir::Value *x) { return define(x, lent); })
                  ? countsOf(c, fromBit, bits, diagonal)
                  : nullptr;
    for (const ir::Value *v : lent)
      v->type.isTensor() ? lin_.erase(v) : scalar_.erase(v);
    if (count)
      least = least ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, least, count) : count;
  }
  return least;
}

// What of the dot counts, at least one of each; null: all of it.
Counts FunctionEmitter::whatCounts(const Step &s) {
  const unsigned m = log2Exact(s.dot->m), n = log2Exact(s.dot->n), k = log2Exact(s.dot->k);
  const size_t mixed = mixed_.mark();
  auto most = [&](V x, V y) { return x && y ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x, y) : nullptr; };
  auto within = [&](V x, unsigned bits) {
    const auto *known = llvm::dyn_cast_or_null<llvm::ConstantInt>(x);
    if (!x || llvm::isa<llvm::ConstantExpr>(x) || (known && known->getSExtValue() >= int64_t(1) << bits))
      return V(nullptr);
    if (known)
      return V(b_.getInt64(static_cast<uint64_t>(std::max<int64_t>(1, known->getSExtValue()))));
    x = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x, b_.getInt64(1));
    return V(b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, b_.getInt64(uint64_t(1) << bits)));
  };
  Counts r;
  const int both = static_cast<int>(m + n);
  for (const DotPart::Conditions &one : s.part.seen) {
    bool first = &one == s.part.seen.begin();
    V rows = countsOfAll(one, n, m), columns = countsOfAll(one, 0, n), above = countsOfAll(one, 0, n, both),
      below = countsOfAll(one, n, m, both);
    r.rows = first ? rows : most(r.rows, rows);
    r.columns = first ? columns : most(r.columns, columns);
    r.above = first ? above : most(r.above, above);
    r.below = first ? below : most(r.below, below);
  }
  // Both operands must be zero: a single zero may be multiplied by an infinity.
  r.depth = most(countsOfAll(s.part.left, 0, k), countsOfAll(s.part.right, n, k));
  mixed_.backTo(mixed);
  V left = r.depth && !llvm::isa<llvm::Constant>(r.depth) ? r.depth : nullptr;
  return {within(r.rows, m), within(r.columns, n), within(r.depth, k), r.above, r.below, left};
}

// The phi of `x` from `fromX` and `y` from `fromY`.
V FunctionEmitter::joined(V x, llvm::BasicBlock *fromX, V y, llvm::BasicBlock *fromY) {
  llvm::PHINode *phi = b_.CreatePHI(x->getType(), 2);
  phi->addIncoming(x, fromX);
  phi->addIncoming(y, fromY);
  return phi;
}

InPlace FunctionEmitter::leftOperand(const Step &s, const Counts &counts, V depth) {
  V buffer = bufferLin(s.bufferA).base;
  if (!s.left)
    return {buffer, nullptr, nullptr};
  auto pack = [&] {
    NestState state;
    state.nest = s.left.get();
    state.leftRows = counts.rows, state.leftDepth = depth;
    runNest(state);
  };
  std::optional<InPlace> there = s.leftInMemory ? leftInPlace(s, counts, depth) : std::nullopt;
  if (!there || s.dot->aDepthStride != 1) {
    InPlace r = there.value_or(InPlace{buffer, nullptr, nullptr});
    const FoundLeft kept = keptLeft(s, counts, depth);
    if (!kept.there) {
      pack();
      return r;
    }
    auto *other = llvm::BasicBlock::Create(context_, "pack", function_),
         *on = llvm::BasicBlock::Create(context_, "left.packed", function_);
    b_.CreateCondBr(kept.there, on, other);
    b_.SetInsertPoint(other);
    const Lin own = bufferLin(s.bufferA);
    bufferLin_[s.bufferA].base = r.pointer = kept.tile;
    pack();
    bufferLin_[s.bufferA] = own;
    b_.CreateBr(on);
    b_.SetInsertPoint(on);
    if (!s.dot->byPanel || !PanelDot::fetchesLeft(state_.target, *s.dot))
      return r;
    // A kept tile is followed by the next one.
    const bool byColumns = s.dot->aDepthStride != 1;
    V step = b_.getInt64(static_cast<uint64_t>(byColumns ? s.dot->aDepthStride : s.dot->aRowStride) *
                         ir::byteWidth(s.dot->aElem)),
      zero = b_.getInt64(0);
    r.column = b_.CreateSelect(kept.there, kept.tile, r.next ? r.column : kept.tile);
    r.columnStride = b_.CreateSelect(kept.there, step, r.next ? r.columnStride : zero);
    V behind = b_.getInt64(s.keptLeft.tileBytes);
    if (r.result) { // in the last round that comes first
      r.behind = b_.CreateSelect(kept.there, behind, zero);
      behind = b_.CreateSelect(b_.CreateICmpEQ(r.next, zero), zero, behind);
    }
    r.next = b_.CreateSelect(kept.there, behind, r.next ? r.next : zero);
    return r;
  }
  if (!there->holds)
    return *there;
  llvm::BasicBlock *before = b_.GetInsertBlock();
  auto *other = llvm::BasicBlock::Create(context_, "pack", function_);
  auto *on = llvm::BasicBlock::Create(context_, "left", function_);
  b_.CreateCondBr(there->holds, on, other);
  b_.SetInsertPoint(other);
  pack();
  llvm::BasicBlock *packed = b_.GetInsertBlock();
  b_.CreateBr(on);
  b_.SetInsertPoint(on);
  auto join = [&](V x, V y) { return joined(x, before, y, packed); };
  V stride = b_.getInt64(static_cast<uint64_t>(s.dot->aRowStride) * ir::byteWidth(s.dot->aElem));
  // Nothing is fetched where A is packed: the result may be outside as well.
  InPlace r{join(there->pointer, buffer), join(there->stride, stride), nullptr,
            there->next ? join(there->next, b_.getInt64(0)) : nullptr};
  if (there->result)
    r.result = join(there->result, buffer), r.resultStride = join(there->resultStride, b_.getInt64(0));
  return r;
}

// The nest that packs B, with the multiply-adds of a panel where it has been packed: those of the first block of rows
// in the loop that packs it.
void FunctionEmitter::dotByPanel(const Step &s) {
  const DotPlan &p = *s.dot;
  const Counts counts = whatCounts(s);
  NestState shape;
  PanelWork panels;
  shape.nest = s.nest.get();
  shape.panel = &panels;
  panels.kGroup = p.kGroup;
  nest_ = &shape;
  layOut(shape);
  nest_ = nullptr;
  int64_t unit = PanelDot::depthUnit(p);
  for (const NestLoop &l : shape.loops) // a trip of the loop along k packs that many rows
    if (l.firstBit >= shape.nest->columnBits() && l.firstBit < shape.nest->columnBits() + shape.nest->panelDepthBits)
      unit = std::max(unit, int64_t(1) << (l.firstBit - shape.nest->columnBits()));
  const InPlace a = leftOperand(s, counts, counts.depth ? roundUp(counts.depth, unit) : nullptr);
  const Buffer &cb = plan_.buffers[static_cast<size_t>(s.bufferC)];
  bool accumulate = s.accumulate;
  if (!accumulate && p.kBlock < p.k) {
    b_.CreateMemSet(bufferLin(s.bufferC).base, b_.getInt8(0), cb.bytes(), llvm::MaybeAlign(64));
    accumulate = true;
  }
  // Blocks of rows are computed as a whole. A tile of sixteen rows is meant for few, most often for one: then B should
  // come as fast as memory gives it.
  constexpr int64_t tile = 16, few = 2;
  if (p.m != tile || !counts.rows || counts.above || counts.below)
    return panelsOfDot(s, p, a, counts, unit, accumulate);
  DotPlan narrow = p;
  narrow.m = few;
  auto *narrowly = llvm::BasicBlock::Create(context_, "few.rows", function_),
       *widely = llvm::BasicBlock::Create(context_, "all.rows", function_);
  auto *done = llvm::BasicBlock::Create(context_, "multiplied", function_);
  b_.CreateCondBr(b_.CreateICmpSLE(counts.rows, b_.getInt64(few)), narrowly, widely);
  for (const DotPlan *one : {static_cast<const DotPlan *>(&narrow), &p}) {
    b_.SetInsertPoint(one == &p ? widely : narrowly);
    panelsOfDot(s, *one, a, counts, unit, accumulate);
    b_.CreateBr(done);
  }
  b_.SetInsertPoint(done);
}

// With the rows that `p` says.
void FunctionEmitter::panelsOfDot(const Step &s, const DotPlan &p, const InPlace &a, const Counts &counts, int64_t unit,
                                  bool accumulate) {
  NestState state;
  PanelWork work;
  state.nest = s.nest.get();
  state.panel = &work;
  work.columns = counts.columns, work.depthThere = counts.depth, work.depthLeft = counts.depthLeft;
  work.kGroup = p.kGroup;
  work.panelBytes = p.kBlock * p.nr * ir::byteWidth(p.bElem);
  work.unit = unit;
  work.between = PanelDot::fetches(state_.target, p);
  nest_ = &state;
  layOut(state);
  nest_ = nullptr;
  V c = bufferLin(s.bufferC).base;
  const Lin buffer = bufferLin(s.bufferB);
  const Kept keep = p.m == s.dot->m ? kept(s, counts) : Kept{}; // few rows are as fast as B comes from memory
  work.isKept = keep.there, work.isFar = keep.far;
  V b = buffer.base; // the panel's place
  PanelDot dot(vec_, state_.target, p, a.pointer, a.stride, accumulate);
  dot.sumRows(counts.depth ? roundUp(counts.depth, unit) : nullptr);
  auto times = [&](V count, int64_t bytes) { return b_.CreateMul(count, b_.getInt64(static_cast<uint64_t>(bytes))); };
  const int64_t aStep = p.aDepthStride * ir::byteWidth(p.aElem);
  V columns = nullptr; // of C
  auto place = [&] {
    V block = p.kBlock < p.k ? state.loops[0].iv : b_.getInt64(0),
      panel = p.nr < p.n ? state.loops[work.loops - 1].iv : b_.getInt64(0);
    dot.at(times(block, p.kBlock * aStep));
    columns = p.nr < p.n ? b_.CreateGEP(b_.getInt8Ty(), c, times(panel, int64_t(p.nr) * ir::byteWidth(p.accElem))) : c;
    if (keep.there) {
      b = b_.CreateGEP(b_.getInt8Ty(), keep.tile,
                       b_.CreateMul(b_.CreateAdd(times(block, p.n / p.nr), panel), keep.step));
      bufferLin_[s.bufferB].base = work.keptPanel = b;
    }
  };
  auto begin = [&] { return work.depth ? dot.begin() : llvm::SmallVector<V>(); };
  auto trip = [&](V number, llvm::ArrayRef<V> carried) {
    setLoc(s.op);
    V panel = b_.CreateGEP(b_.getInt8Ty(), b, times(number, work.depth * p.nr * ir::byteWidth(p.bElem)));
    return dot.step(carried, work.depth, times(number, work.depth * aStep), panel);
  };
  auto end = [&](llvm::ArrayRef<V> carried) {
    setLoc(s.op);
    if (work.depth)
      dot.finish(carried, columns);
  };
  auto rest = [&] {
    setLoc(s.op);
    V from = nullptr, to = counts.rows;
    if (counts.above || counts.below) { // beside a diagonal
      V column = p.nr < p.n ? times(state.loops[work.loops - 1].iv, p.nr) : b_.getInt64(0);
      if (counts.above)
        from = b_.CreateBinaryIntrinsic(
            llvm::Intrinsic::smax, b_.CreateAdd(b_.CreateSub(column, counts.above), b_.getInt64(1)), b_.getInt64(0));
      if (counts.below) {
        V last = b_.CreateAdd(b_.CreateAdd(column, counts.below), b_.getInt64(p.nr - 1));
        to = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, last, to ? to : b_.getInt64(static_cast<uint64_t>(p.m)));
      }
    }
    dot.limit(from, to, work.packed);
    llvm::SmallVector<PanelFetch, 2> lines;
    for (const auto &[load, at, one] : work.fetches)
      lines.push_back(one);
    InPlace left = a;
    if (left.column && p.kBlock < p.k)
      left.column =
          b_.CreateGEP(b_.getInt8Ty(), left.column,
                       p.aDepthStride == 1 ? times(state.loops[0].iv, p.kBlock * aStep)
                                           : b_.CreateMul(left.columnStride, times(state.loops[0].iv, p.kBlock)));
    dot.fetch(lines, left, p.nr < p.n ? state.loops[work.loops - 1].iv : b_.getInt64(0), b);
    auto all = [&] { dot.rest(work.depth != 0, work.isKept, b, columns); };
    // The last panel of a head of 80 has few columns that count. (Where a matrix ends in the tile only its last
    // programs gain, and each of them would be compiled 11 % longer.)
    if (!counts.columns || !llvm::isa<llvm::Constant>(counts.columns) || !dot.narrow(false))
      return all();
    V panel = p.nr < p.n ? state.loops[work.loops - 1].iv : b_.getInt64(0);
    auto *narrowly = llvm::BasicBlock::Create(context_, "few.columns", function_),
         *widely = llvm::BasicBlock::Create(context_, "all.columns", function_);
    auto *done = llvm::BasicBlock::Create(context_, "multiplied", function_);
    b_.CreateCondBr(b_.CreateICmpSLE(b_.CreateSub(counts.columns, times(panel, p.nr)), b_.getInt64(p.nr / 2)), narrowly,
                    widely);
    for (bool few : {true, false}) {
      b_.SetInsertPoint(few ? narrowly : widely);
      dot.narrow(few);
      all();
      b_.CreateBr(done);
    }
    b_.SetInsertPoint(done);
  };
  work.place = place, work.begin = begin, work.trip = trip, work.end = end, work.rest = rest;
  runNest(state);
  bufferLin_[s.bufferB] = buffer;
}

void FunctionEmitter::dotStep(const Step &s) {
  setLoc(s.op);
  if (s.nest)
    return dotByPanel(s);
  if (s.batch == 1) {
    InPlace a = leftOperand(s, {});
    return emitDot(vec_, state_.target, *s.dot, a.pointer, bufferLin(s.bufferB).base, bufferLin(s.bufferC).base,
                   s.accumulate, a.stride);
  }
  V a = bufferLin(s.bufferA).base, b = bufferLin(s.bufferB).base, c = bufferLin(s.bufferC).base;
  const Buffer &ab = plan_.buffers[static_cast<size_t>(s.bufferA)], &bb = plan_.buffers[static_cast<size_t>(s.bufferB)],
               &cb = plan_.buffers[static_cast<size_t>(s.bufferC)];
  auto *enter = llvm::BasicBlock::Create(context_, "batch", function_);
  auto *exit = llvm::BasicBlock::Create(context_, "end", function_);
  llvm::BasicBlock *before = b_.GetInsertBlock();
  b_.CreateBr(enter);
  b_.SetInsertPoint(enter);
  llvm::PHINode *iv = b_.CreatePHI(b_.getInt64Ty(), 2);
  iv->addIncoming(b_.getInt64(0), before);
  auto at = [&](V base, const Buffer &buffer) {
    return b_.CreateGEP(b_.getInt8Ty(), base,
                        b_.CreateMul(iv, b_.getInt64(buffer.bytes() / static_cast<uint64_t>(s.batch))));
  };
  emitDot(vec_, state_.target, *s.dot, at(a, ab), at(b, bb), at(c, cb), s.accumulate);
  V next = b_.CreateAdd(iv, b_.getInt64(1));
  iv->addIncoming(next, b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpSLT(next, b_.getInt64(static_cast<uint64_t>(s.batch))), enter, exit);
  b_.SetInsertPoint(exit);
}

} // namespace tegula::cpu
