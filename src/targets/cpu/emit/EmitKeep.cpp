// Packed tiles kept for later programs (KeepTiles.h): their keys, and the code that looks them up.
#include "abi/CpuAbi.h"
#include "targets/cpu/emit/Emitter.h"
#include "targets/cpu/plan/KeepTiles.h"
#include "llvm/Support/MathExtras.h"

namespace tegula::cpu {
using ir::Op;
using ir::OpKind;
using V = llvm::Value *;

static constexpr uint64_t wordBytes = KeptTiles::wordBytes, line = KeptTiles::line;

// At entry. Calls for one launch on one thread reuse the tiles of the call before (CpuAbi.h).
void FunctionEmitter::askKept() {
  if (!plan_.keeps)
    return;
  llvm::Type *i64 = b_.getInt64Ty();
  V number = b_.CreateLoad(i64, b_.CreateConstGEP1_64(b_.getInt8Ty(), launch_, offsetof(TegulaCpuLaunch, number))),
    left = b_.CreateLoad(i64, scratch_);
  auto *forget = llvm::BasicBlock::Create(context_, "forget", function_),
       *on = llvm::BasicBlock::Create(context_, "known", function_);
  b_.CreateCondBr(b_.CreateOr(b_.CreateICmpEQ(number, b_.getInt64(0)), b_.CreateICmpNE(number, left)), forget, on);
  b_.SetInsertPoint(forget);
  startKept(plan_.steps, true);
  b_.CreateStore(number, scratch_);
  b_.CreateBr(on);
  b_.SetInsertPoint(on);
}

// Before a loop with such dots, and of a program: it begins with the first tile. At entry none is there.
void FunctionEmitter::startKept(const Steps &all, bool atEntry) {
  for (const Step &s : all) {
    if (s.kept.count)
      b_.CreateStore(b_.getInt64(0),
                     scratchAt(s.kept.state + wordBytes * (atEntry ? KeptTiles::Filled : KeptTiles::Next)));
    if (const KeptLeft &k = s.keptLeft; k.slots && atEntry)
      b_.CreateMemSet(scratchAt(k.state), b_.getInt8(0), k.from - k.state, llvm::MaybeAlign(wordBytes));
    else if (k.slots)
      b_.CreateStore(b_.getInt64(0), scratchAt(k.state + wordBytes * KeptLeft::Next));
    if (atEntry || s.kind == StepKind::If)
      for (const Steps &body : s.bodies)
        startKept(body, atEntry);
  }
}

// Collects the numbers that the tile is computed from, except those that are the same in all programs. False if it
// depends on anything but numbers.
bool FunctionEmitter::madeFrom(const ir::Value *v, llvm::SmallSetVector<V, 16> &from,
                               llvm::SmallPtrSetImpl<const ir::Value *> &seen) {
  if (!seen.insert(v).second)
    return true;
  auto number = [&](V x) {
    auto *i = llvm::dyn_cast_or_null<llvm::Instruction>(x);
    if (i && i->getParent() != &function_->getEntryBlock())
      from.insert(x);
    return x != nullptr;
  };
  if (v->type.isScalar())
    return number(scalar_.lookup(v));
  if (auto known = lin_.find(v); known != lin_.end() && !known->second.self) {
    const Lin l = known->second;
    number(l.base);
    for (const Coef &c : l.coef)
      if (c.s)
        number(c.s);
    for (const Narrow &sum : l.narrow)
      for (V x : {sum.base, sum.scale.s})
        number(x);
    return llvm::all_of(l.opaque, [&](const Opaque &o) {
      if (o.scale.s)
        number(o.scale.s);
      return madeFrom(o.value, from, seen);
    });
  }
  if (!v->def)
    return false;
  const Op &op = *v->def;
  return (isVirtualizable(op) || op.kind == OpKind::Load) && op.regions.empty() &&
         llvm::all_of(op.operands, [&](const ir::Value *x) { return madeFrom(x, from, seen); });
}

// The tile's key: all these numbers and the non-null ones of `more`, as i64. Empty if there is none or it is too long.
llvm::SmallVector<V, 16> FunctionEmitter::numbersOf(const ir::Value *operand, llvm::ArrayRef<V> more) {
  llvm::SmallSetVector<V, 16> from;
  llvm::SmallPtrSet<const ir::Value *, 16> seen;
  for (V x : more)
    if (x)
      from.insert(x);
  seen.insert(operand); // has the buffer of what is packed
  if (!llvm::all_of(operand->def->operands, [&](const ir::Value *x) { return madeFrom(x, from, seen); }) ||
      from.size() > KeptTiles::words)
    return {};
  llvm::SmallVector<V, 16> numbers;
  for (V x : from) {
    if (x->getType()->isPointerTy())
      x = b_.CreatePtrToInt(x, b_.getInt64Ty());
    else if (!x->getType()->isIntegerTy())
      x = b_.CreateBitCast(x, b_.getIntNTy(x->getType()->getScalarSizeInBits()));
    numbers.push_back(b_.CreateZExtOrTrunc(x, b_.getInt64Ty()));
  }
  return numbers;
}

static void fork(llvm::IRBuilder<> &b, V condition, llvm::function_ref<void()> then) {
  llvm::Function *f = b.GetInsertBlock()->getParent();
  auto *in = llvm::BasicBlock::Create(b.getContext(), "keep", f),
       *on = llvm::BasicBlock::Create(b.getContext(), "kept", f);
  b.CreateCondBr(condition, in, on);
  b.SetInsertPoint(in);
  then();
  b.CreateBr(on);
  b.SetInsertPoint(on);
}

// Tiles of the left operand. Programs ordered by groups work on several sets of rows in turn, and return to the first
// set with the next columns. The tiles of one set of rows have consecutive slots, so that the next one can be
// prefetched; a table indexed by a hash of the first tile's key has the first slot. A slot's word: 0: free; else the
// number of requests of its tile, 3 once it is packed, plus 4 for each request of another tile since. A tile takes a
// free slot at once, as packing it twice costs a fifth of what eight programs multiply. A tile that would replace
// another is recorded at its first request and kept at the second one (a small one, whose buffer stays in L1, at the
// third one, in any slot), as tiles that are not reused would only evict others from the caches. If there are more
// tiles than slots, some tiles stay: another one replaces them only after a few requests, unless its rows are new.
FoundLeft FunctionEmitter::keptLeft(const Step &s, const Counts &counts, V depth) {
  const KeptLeft &k = s.keptLeft;
  if (!k.slots || state_.options.checked)
    return {};
  const llvm::SmallVector<V, 16> numbers = numbersOf(s.op->operands[0], {counts.rows, depth});
  if (numbers.empty())
    return {};
  llvm::Type *i64 = b_.getInt64Ty();
  constexpr uint64_t isThere = 3, oneMore = 4, patience = 2;
  const bool isSmall = k.tileBytes <= state_.target.l1Bytes / 3;
  const uint64_t often = isSmall ? 2 : 1;
  auto number = [&](uint64_t x) { return b_.getInt64(x); };
  auto word = [&](uint64_t i) { return scratchAt(k.state + i * wordBytes); };
  auto wordAt = [&](uint64_t first, V i) { return b_.CreateGEP(i64, word(first), i); };
  auto read = [&](V at) { return b_.CreateAlignedLoad(i64, at, llvm::Align(wordBytes)); };
  V which = read(word(KeptLeft::Next)), zero = number(0);
  b_.CreateStore(b_.CreateAdd(which, number(1)), word(KeptLeft::Next));
  fork(b_, b_.CreateICmpEQ(which, zero), [&] {
    V hash = zero;
    uint64_t odd = 0x9E3779B97F4A7C15; // Knuth, The Art of Computer Programming 3, 6.4: multiplicative hashing
    for (V x : numbers) {
      hash = b_.CreateAdd(hash, b_.CreateMul(x, number(odd)));
      odd = odd * 6364136223846793005 | 1;
    }
    V base = wordAt(KeptLeft::Last, b_.CreateLShr(hash, 64 - llvm::Log2_32(KeptLeft::rowSets))), known = read(base);
    V fresh = b_.CreateICmpEQ(known, zero), cursor = read(word(KeptLeft::Cursor)); // of the set before
    b_.CreateStore(b_.CreateZExt(fresh, i64), word(KeptLeft::Fresh));
    cursor = b_.CreateAdd(cursor, read(word(KeptLeft::Asked)));
    b_.CreateStore(b_.CreateSelect(fresh, cursor, read(word(KeptLeft::Cursor))), word(KeptLeft::Cursor));
    V first = b_.CreateSelect(fresh, cursor, b_.CreateSub(known, number(1)));
    b_.CreateStore(first, word(KeptLeft::Base));
    b_.CreateStore(b_.CreateAdd(first, number(1)), base);
  });
  b_.CreateStore(b_.CreateAdd(which, number(1)), word(KeptLeft::Asked));
  V slot = b_.CreateURem(b_.CreateAdd(read(word(KeptLeft::Base)), which), number(k.slots));
  V at = wordAt(KeptLeft::Last + KeptLeft::rowSets, slot), state = read(at);
  V entry = b_.CreateGEP(b_.getInt8Ty(), scratchAt(k.from), b_.CreateMul(slot, number(KeptTiles::words * wordBytes)));
  auto part = [&](unsigned i) { return b_.CreateConstInBoundsGEP1_64(i64, entry, i); };
  V differ = b_.CreateZExt(b_.CreateICmpEQ(state, zero), i64);
  for (unsigned i = 0; i < numbers.size(); ++i)
    differ = b_.CreateOr(differ, b_.CreateXor(numbers[i], read(part(i))));
  V equal = b_.CreateICmpEQ(differ, zero), asked = b_.CreateAnd(state, number(isThere)),
    there = b_.CreateAnd(equal, b_.CreateICmpEQ(asked, number(isThere)));
  V free = b_.CreateICmpEQ(state, zero), atOnce = isSmall ? b_.getFalse() : free;
  V keeps = b_.CreateOr(atOnce, b_.CreateAnd(equal, b_.CreateICmpUGE(asked, number(often)))),
    again = b_.CreateSelect(keeps, number(isThere), b_.CreateAdd(asked, number(1)));
  V other = b_.CreateOr(free, b_.CreateICmpUGE(state, number(oneMore * patience)));
  other = b_.CreateAnd(b_.CreateNot(equal), b_.CreateOr(other, b_.CreateICmpNE(read(word(KeptLeft::Fresh)), zero)));
  b_.CreateStore(b_.CreateSelect(equal, again,
                                 b_.CreateSelect(other, b_.CreateSelect(atOnce, number(isThere), number(1)),
                                                 b_.CreateAdd(state, number(oneMore)))),
                 at);
  fork(b_, other, [&] {
    for (unsigned i = 0; i < numbers.size(); ++i)
      b_.CreateStore(numbers[i], part(i));
  });
  V tile = b_.CreateGEP(b_.getInt8Ty(), scratchAt(k.tiles), b_.CreateMul(slot, number(k.tileBytes)));
  return {there, b_.CreateSelect(keeps, tile, bufferLin(s.bufferA).base)};
}

Kept FunctionEmitter::kept(const Step &s, const Counts &counts) {
  const KeptTiles &k = s.kept;
  const DotPlan &p = *s.dot;
  if (!k.count || state_.options.checked)
    return {};
  const llvm::SmallVector<V, 16> numbers = numbersOf(s.op->operands[1], {counts.columns, counts.depth});
  if (numbers.empty())
    return {};
  llvm::Type *i64 = b_.getInt64Ty();
  auto word = [&](KeptTiles::Word w) { return scratchAt(k.state + w * wordBytes); };
  auto read = [&](V at) { return b_.CreateAlignedLoad(i64, at, llvm::Align(wordBytes)); };
  auto flag = [&](V is) { return b_.CreateZExt(is, i64); };
  auto at = [&](V first, unsigned i) { return b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), first, i * wordBytes); };
  auto equal = [&](V first) {
    V differ = b_.getInt64(0);
    for (unsigned i = 0; i < numbers.size(); ++i)
      differ = b_.CreateOr(differ, b_.CreateXor(numbers[i], read(at(first, i))));
    return b_.CreateICmpEQ(differ, b_.getInt64(0));
  };
  auto write = [&](V first) {
    for (unsigned i = 0; i < numbers.size(); ++i)
      b_.CreateStore(numbers[i], at(first, i));
  };
  const int64_t tileBytes = p.n * p.k * ir::byteWidth(p.bElem);
  V number = read(word(KeptTiles::Next)), filled = read(word(KeptTiles::Filled)), zero = b_.getInt64(0);
  b_.CreateStore(b_.CreateAdd(number, b_.getInt64(1)), word(KeptTiles::Next));
  V slot = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, number, b_.getInt64(static_cast<uint64_t>(k.count - 1)));
  V entry =
      b_.CreateGEP(b_.getInt8Ty(), scratchAt(k.from), b_.CreateMul(slot, b_.getInt64(KeptTiles::words * wordBytes)));
  V there = b_.CreateAnd(b_.CreateICmpULT(number, filled), equal(entry)); // no more are filled than there is room for
  fork(b_, b_.CreateICmpEQ(number, zero), [&] {
    V last = word(KeptTiles::Last),
      fills = b_.CreateOr(b_.CreateICmpEQ(filled, zero), b_.CreateICmpNE(read(word(KeptTiles::Used)), zero));
    fills = b_.CreateOr(b_.CreateOr(there, fills), equal(last));
    b_.CreateStore(flag(fills), word(KeptTiles::Fills));
    b_.CreateStore(flag(there), word(KeptTiles::Used));
    write(last);
  });
  V fills = b_.CreateAnd(b_.CreateNot(there), b_.CreateICmpNE(read(word(KeptTiles::Fills)), zero));
  fills = b_.CreateAnd(fills, b_.CreateAnd(b_.CreateICmpEQ(slot, number), b_.CreateICmpULE(number, filled)));
  fork(b_, fills, [&] {
    write(entry);
    b_.CreateStore(b_.CreateBinaryIntrinsic(llvm::Intrinsic::umax, filled, b_.CreateAdd(number, b_.getInt64(1))),
                   word(KeptTiles::Filled));
  });
  V inSlot = b_.CreateOr(there, fills),
    tile = b_.CreateGEP(b_.getInt8Ty(), scratchAt(k.tiles),
                        b_.CreateMul(slot, b_.getInt64(static_cast<uint64_t>(tileBytes))));
  V panel = b_.getInt64(static_cast<uint64_t>(p.kBlock * p.nr * ir::byteWidth(p.bElem)));
  // Beside them pass A and the result.
  V far = b_.CreateICmpUGE(b_.CreateMul(filled, b_.getInt64(static_cast<uint64_t>(tileBytes))),
                           b_.getInt64(state_.target.l2Bytes / 2));
  return {there, b_.CreateSelect(inSlot, tile, bufferLin(s.bufferB).base), b_.CreateSelect(inSlot, panel, zero), far};
}

// Before the loops of a panel: how many of its rows are packed.
void FunctionEmitter::beginPanel() {
  NestState &n = *nest_;
  PanelWork &p = *n.panel;
  if (!p.depthThere)
    return;
  int64_t all = int64_t(1) << n.nest->panelDepthBits;
  V left = p.depthThere;
  if (n.loops[0].iv && n.loops[0].firstBit > n.nest->columnBits())
    left = b_.CreateSub(left, b_.CreateMul(n.loops[0].iv, b_.getInt64(static_cast<uint64_t>(all))));
  left = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, left, b_.getInt64(static_cast<uint64_t>(all)));
  p.packed = roundUp(left, p.unit);
}

// A panel: packed, unless it is kept, and multiplied.
void FunctionEmitter::panel() {
  NestState &n = *nest_;
  PanelWork &p = *n.panel;
  beginPanel();
  p.place();
  llvm::BasicBlock *before = b_.GetInsertBlock(), *packed = nullptr;
  const size_t mixed = mixed_.mark();
  if (p.isKept) {
    packed = llvm::BasicBlock::Create(context_, "packed", function_);
    auto *pack = llvm::BasicBlock::Create(context_, "pack", function_);
    b_.CreateCondBr(p.isKept, packed, pack);
    b_.SetInsertPoint(pack);
  }
  if (!p.depth) // else the innermost loop is what these belong to
    p.begin();
  openLoop(p.loops);
  if (!p.depth)
    p.end({});
  if (p.isKept) {
    mixed_.backTo(mixed);
    llvm::BasicBlock *end = b_.GetInsertBlock();
    b_.CreateBr(packed);
    b_.SetInsertPoint(packed);
    auto join = [&](V kept, V here) { return joined(kept, before, here, end); };
    const int64_t entries = static_cast<int64_t>(p.fetches.size());
    // a kept panel is followed by the next one, a tile's last panel by the next tile's first
    for (int64_t i = 0; i < entries; ++i) {
      constexpr int64_t bytes = static_cast<int64_t>(line);
      PanelFetch &lines = std::get<2>(p.fetches[static_cast<size_t>(i)]);
      const int64_t all = p.panelBytes / bytes, each = std::min(all / entries, int64_t(1) << n.nest->panelDepthBits);
      b_.SetInsertPoint(before->getTerminator());
      V first = b_.CreateConstGEP1_64(b_.getInt8Ty(), p.keptPanel,
                                      static_cast<uint64_t>(p.panelBytes + i * all / entries * bytes));
      V rows = b_.CreateSelect(p.isFar, b_.getInt64(static_cast<uint64_t>(each)), b_.getInt64(0));
      b_.SetInsertPoint(packed);
      lines = {join(first, lines.first), join(b_.getInt64(bytes), lines.stride), join(rows, lines.rows)};
    }
  }
  p.rest();
}

} // namespace tegula::cpu
