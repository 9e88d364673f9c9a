// The run-time side of streaming stores (Stream.cpp): how much the launch writes, and which stores of a row may be
// non-temporal. Also prefetches of lines of the next program, row or iteration.
#include "targets/cpu/emit/Emitter.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/IR/IntrinsicsX86.h"
#include <algorithm>

namespace tegula::cpu {
using V = llvm::Value *;

/// Minimum size and alignment of a non-temporal store.
static constexpr int64_t streamAlign = 16;
/// Minimum bytes of a nest's row: lines at its ends may be written in two parts, which costs more than reading them.
static constexpr int64_t streamRun = 256;

// In the entry block: do all programs together write more than the last-level cache holds?
void FunctionEmitter::decideStreaming() {
  if (!plan_.streamBytes || state_.options.checked)
    return;
  V programs = b_.getInt64(1);
  for (V g : grid_)
    programs = b_.CreateMul(programs, b_.CreateZExt(g, b_.getInt64Ty()));
  const uint64_t bytes = std::max<uint64_t>(1, plan_.streamBytes /
                                                   (plan_.group ? static_cast<uint64_t>(plan_.group->size) : 1)),
                 least = (state_.target.l3Bytes + bytes - 1) / bytes;
  streamLaunch_ = b_.CreateICmpUGE(programs, b_.getInt64(least));
  rounds_ = b_.CreateUIToFP(programs, b_.getDoubleTy());
}

// Before a loop (by > 0): do all programs together write more than that in all its iterations?
V FunctionEmitter::streamsInRounds(const Step &s, V lb, V ub, V by) {
  if (!streamLaunch_)
    return nullptr;
  auto number = [&](V x) { return b_.CreateSIToFP(b_.CreateSExt(x, b_.getInt64Ty()), b_.getDoubleTy()); };
  rounds_ = b_.CreateFMul(rounds_, b_.CreateFDiv(b_.CreateFSub(number(ub), number(lb)), number(by)));
  if (!s.streamBytes)
    return streamLaunch_;
  const double each = static_cast<double>(s.streamBytes) / static_cast<double>(plan_.group ? plan_.group->size : 1);
  loopStreams_ = true;
  return b_.CreateOr(
      streamLaunch_,
      b_.CreateFCmpOGE(rounds_,
                       llvm::ConstantFP::get(b_.getDoubleTy(), static_cast<double>(state_.target.l3Bytes) / each)));
}

void FunctionEmitter::finishStreaming() {
  if (!streamLaunch_)
    return;
  if (loopStreams_) {
    b_.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {});
    return;
  }
  auto *fence = llvm::BasicBlock::Create(context_, "fence", function_);
  auto *on = llvm::BasicBlock::Create(context_, "fenced", function_);
  b_.CreateCondBr(streamLaunch_, fence, on);
  b_.SetInsertPoint(fence);
  b_.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {});
  b_.CreateBr(on);
  b_.SetInsertPoint(on);
}

// Will the mask be true in the loop over full trips?
bool FunctionEmitter::assumedTrue(const ir::Value *mask, const Bits &at) const {
  if (isAssumed(mask, at))
    return true;
  if (!mask->def || !(mask->def->kind == ir::OpKind::And ||
                      (mask->def->has(ir::traits::Shape) && mask->def->operands.size() == 1)))
    return false;
  for (unsigned i = 0; i < mask->def->operands.size(); ++i)
    if (!assumedTrue(mask->def->operands[i], operandBits(*mask->def, i, mask->index, at)))
      return false;
  return true;
}

// i1: may the row at hand be streamed? Null if it never may.
V FunctionEmitter::streamRow() {
  NestState &n = *nest_;
  if (!streamLaunch_ || n.loops.empty())
    return nullptr;
  int inner = static_cast<int>(n.loops.size()) - 1;
  Bits start = rootBits(0);
  for (size_t bit = 0; bit < start.size(); ++bit)
    if (n.loopOf[bit] == inner)
      start[bit] = zeroBit;
  V bits = nullptr;
  for (const Root &r : n.nest->roots) {
    if (!r.streams)
      continue;
    const ir::Op &op = *r.op;
    Lin l = lin(op.operands[0]);
    if (l.self || !l.opaque.empty() || (op.operands.size() > 2 && !assumedTrue(op.operands[2], rootBits(0))))
      return nullptr;
    int64_t bytes = std::max(1u, ir::byteWidth(op.operands[1]->type.elem)), run = bytes;
    if (op.operands[1]->type.isPtr)
      run = bytes = 8;
    for (size_t i = 0; i < l.coef.size() && l.coef[i] == Coef{run}; ++i)
      run *= 2;
    if (bytes << n.laneBits < streamAlign || run < streamRun)
      return nullptr;
    V at = b_.CreatePtrToInt(linAt(op.operands[0], l, start, true).base, b_.getInt64Ty());
    bits = bits ? b_.CreateOr(bits, at) : at;
    for (size_t i = n.laneBits; i < l.coef.size(); ++i) {
      if (l.coef[i].s)
        bits = b_.CreateOr(bits, coefValue(l.coef[i], b_.getInt64Ty()));
      else if (l.coef[i].k % streamAlign)
        return nullptr;
    }
  }
  if (!bits)
    return nullptr;
  V aligned = b_.CreateICmpEQ(b_.CreateAnd(bits, b_.getInt64(streamAlign - 1)), b_.getInt64(0));
  return b_.CreateAnd(streamLaunch_, aligned);
}

// The same value where what it depends on has moved on, made of the same instructions. `known` gives what a value
// becomes, itself if it stays, null if it is to be taken apart.
// x itself if nothing of it moves; null if that cannot be said.
V FunctionEmitter::movedOn(V x, llvm::function_ref<V(V)> known, unsigned &budget) {
  if (V k = known(x))
    return k;
  auto *i = llvm::cast<llvm::Instruction>(x);
  bool arithmetic = llvm::isa<llvm::BinaryOperator, llvm::CastInst, llvm::GetElementPtrInst>(i);
  if (!arithmetic || budget == 0 || i->isIntDivRem())
    return nullptr;
  --budget;
  llvm::SmallVector<V, 4> operands;
  bool same = true;
  for (V o : i->operands()) {
    operands.push_back(movedOn(o, known, budget));
    if (!operands.back())
      return nullptr;
    same &= operands.back() == o;
  }
  if (same)
    return x;
  llvm::Instruction *next = i->clone();
  next->dropPoisonGeneratingFlags(); // there may be no next program or round
  for (unsigned k = 0; k < operands.size(); ++k)
    next->setOperand(k, operands[k]);
  return b_.Insert(next);
}

// For the program that comes next.
V FunctionEmitter::inNextProgram(V x, unsigned &budget) {
  return movedOn(
      x,
      [&](V v) -> V {
        if (v == pid_[plan_.alongY])
          return b_.CreateAdd(v, b_.getInt32(plan_.group ? static_cast<uint32_t>(plan_.group->size) : 1));
        auto *i = llvm::dyn_cast<llvm::Instruction>(v);
        // A value carried by an open loop (its phi has the entry edge only so far) starts from its next initial value.
        if (auto *carried = llvm::dyn_cast<llvm::PHINode>(v);
            carried && carried->getNumIncomingValues() == 1 && !llvm::is_contained(pid_, v)) {
          V start = carried->getIncomingValue(0), next = inNextProgram(start, budget);
          if (!next || next == start)
            return next ? v : nullptr;
          if (!v->getType()->isPointerTy())
            return b_.CreateAdd(v, b_.CreateSub(next, start));
          llvm::Type *t = b_.getInt64Ty();
          return b_.CreateGEP(b_.getInt8Ty(), v, b_.CreateSub(b_.CreatePtrToInt(next, t), b_.CreatePtrToInt(start, t)));
        }
        return !i || i->getParent() == &function_->getEntryBlock() || v == pid_[!plan_.alongY] || v == pid_[2]
                   ? v
                   : nullptr;
      },
      budget);
}

// The value of `x`, `rounds` iterations later in the innermost loop with dots.
V FunctionEmitter::inLaterRound(V x, uint64_t rounds, unsigned &budget) {
  return movedOn(
      x,
      [&](V v) -> V {
        if (V by = loop_.steps.lookup(v))
          return b_.CreateAdd(v, b_.CreateMul(by, llvm::ConstantInt::get(by->getType(), rounds)));
        auto *i = llvm::dyn_cast<llvm::Instruction>(v);
        return !i || loop_.outside.contains(i->getParent()) ? v : nullptr;
      },
      budget);
}

// A loop that computes dots from blocks of memory, as products of few rows with quantized weights do, is as fast as
// memory. The hardware prefetches up to the end of a page at most, which two or three iterations reach; so lines of a
// later iteration are fetched between the steps of this one, a few at a time.
void FunctionEmitter::stepsOfLoop(const Steps &all, const ir::Block &body, llvm::PHINode *iv, V by, V to) {
  // bytes of a block, and between what is read and what is fetched
  constexpr uint64_t line = 64, least = 1024, most = 16384, ahead = 4096;
  unsigned places = 0, place = 0;
  bool hasDot = false, fetches = false, plain = !state_.options.checked;
  for (const Step &one : all) {
    plain &= one.bodies.empty() && one.kind != StepKind::Call;
    hasDot |= one.kind == StepKind::Dot;
    fetches |= one.nest && !one.nest->ahead.empty();
    places += one.nest || one.kind == StepKind::Dot;
  }
  const DotLoop saved = loop_;
  if (hasDot || fetches) {
    loop_ = {iv, by, to, {{iv, by}}, {}};
    // Offsets that pointers are moved on by.
    for (size_t i = 0; i + 1 < body.args.size(); ++i) {
      const ir::Value *arg = body.args[i + 1];
      const ir::Op *next = body.terminator()->operands[i]->def;
      if (!arg->type.isIntLike() || !arg->type.isScalar() || !next || next->kind != ir::OpKind::Add)
        continue;
      for (unsigned k = 0; k < 2; ++k)
        if (V step = next->operands[k] == arg ? scalar_.lookup(next->operands[1 - k]) : nullptr;
            step && step != scalar_.lookup(arg))
          loop_.steps[scalar_.lookup(arg)] = step;
    }
    for (const llvm::BasicBlock &one : *function_) {
      if (&one == iv->getParent())
        break;
      loop_.outside.insert(&one);
    }
  }
  if (!plain || !hasDot) {
    steps(all);
    loop_ = saved;
    return;
  }
  struct Block {
    V from;
    uint64_t lines;
  };
  llvm::SmallVector<Block, 2> blocks;
  auto find = [&] {
    for (const ir::Op *op : body.ops) {
      if (op->kind != ir::OpKind::Load || op->isVolatile() || !op->results[0]->type.isTensor() ||
          op->results[0]->type.isPtr)
        continue;
      const Lin &l = lin(op->operands[0]);
      int64_t run = std::max(1u, ir::byteWidth(op->results[0]->type.elem));
      for (const Coef &c : l.coef)
        run = c == Coef{run} ? 2 * run : 0;
      auto bytes = static_cast<uint64_t>(run);
      if (l.self || !l.opaque.empty() || bytes < least || bytes > most)
        continue;
      uint64_t rounds = (ahead + bytes - 1) / bytes;
      unsigned budget = 24;
      V next = inLaterRound(l.base, rounds, budget);
      if (next && next != l.base)
        blocks.push_back({next, bytes / line});
    }
  };
  for (const Step &one : all) {
    step(one);
    if (!one.nest && one.kind != StepKind::Dot)
      continue;
    if (place == 0)
      find();
    for (const Block &b : blocks)
      for (uint64_t i = b.lines * place / places; i < b.lines * (place + 1) / places; ++i)
        prefetch(b_.CreateConstGEP1_64(b_.getInt8Ty(), b.from, i * line));
    ++place;
  }
  loop_ = saved;
}

// Before the loop over full trips: which of the loads have rows that move on with the program (or with the rounds of a
// loop), and by how many bytes.
void FunctionEmitter::findAhead() {
  NestState &n = *nest_;
  n.ahead.clear();
  if (state_.options.checked || (!n.streaming && n.nest->streams()))
    return;
  for (const Nest::Ahead &a : n.nest->ahead) {
    const ir::Value *p = a.load->operands[0];
    Lin l = lin(p);
    if (l.self || !l.opaque.empty())
      continue;
    int64_t bytes = std::max(1u, ir::byteWidth(a.load->results[0]->type.elem)), run = bytes;
    for (size_t i = 0; i < l.coef.size() && l.coef[i] == Coef{run}; ++i)
      run *= 2;
    unsigned budget = 24;
    V next = run < streamRun ? nullptr
             : !a.loop       ? inNextProgram(l.base, budget)
             : loop_.iv      ? inLaterRound(l.base, 1, budget)
                             : nullptr;
    if (!next || next == l.base)
      continue;
    llvm::Type *t = b_.getInt64Ty();
    V distance = b_.CreateSub(b_.CreatePtrToInt(next, t), b_.CreatePtrToInt(l.base, t)), none = b_.getInt64(0);
    // After the last one is nothing, where a fetch would walk through the page tables in vain.
    V pid = pid_[plan_.alongY];
    V is = a.loop ? b_.CreateICmpUGT(b_.CreateSub(loop_.to, loop_.iv), loop_.by)
                  : b_.CreateICmpULT(
                        b_.CreateAdd(pid, b_.getInt32(plan_.group ? static_cast<uint32_t>(plan_.group->size) : 1)),
                        grid_[plan_.alongY]);
    if (a.near)
      is = b_.CreateAnd(is, b_.CreateICmpULE(b_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, distance, b_.getFalse()),
                                             b_.getInt64(state_.target.l2Bytes / 4)));
    n.ahead.push_back({a.load, b_.CreateSelect(is, distance, none)});
  }
}

void FunctionEmitter::fetchAhead(unsigned copy) {
  constexpr uint64_t line = 64;
  for (auto [load, distance] : nest_->ahead) {
    const ir::Value *p = load->operands[0];
    uint64_t bytes = static_cast<uint64_t>(std::max(1u, ir::byteWidth(load->results[0]->type.elem))) << nest_->laneBits;
    if (copy * bytes % line) // the copy before has fetched the line
      continue;
    V at = b_.CreateGEP(b_.getInt8Ty(), linAt(p, lin(p), rootBits(copy), true).base, distance);
    for (uint64_t i = 0; i < bytes; i += line)
      prefetch(b_.CreateConstGEP1_64(b_.getInt8Ty(), at, i));
  }
}

// Bytes from the tile of a dot's operand that `l` addresses, of `depth` k, to that of the loop's next iteration, i64;
// null if not known. 0 if there is none, or if it extends beyond the matrix, which has `left` k from this tile's first
// on (null: not known).
llvm::Value *FunctionEmitter::nextTile(const Lin &l, V left, int64_t depth) {
  if (!loop_.iv)
    return nullptr;
  llvm::Type *t = b_.getInt64Ty();
  V distance = nullptr;
  const auto moves = [&](V base, Coef scale) { // false: that cannot be said
    unsigned budget = 24;
    V next = inLaterRound(base, 1, budget);
    if (!next || next == base)
      return next != nullptr;
    V by = base->getType()->isPointerTy() ? b_.CreateSub(b_.CreatePtrToInt(next, t), b_.CreatePtrToInt(base, t))
                                          : b_.CreateSExtOrTrunc(b_.CreateSub(next, base), t);
    by = b_.CreateMul(by, coefValue(scale, t));
    distance = distance ? b_.CreateAdd(distance, by) : by;
    return true;
  };
  if (!moves(l.base, Coef{1}) ||
      !llvm::all_of(l.narrow, [&](const Narrow &sum) { return moves(sum.base, sum.scale); }) || !distance)
    return nullptr;
  V is = b_.CreateICmpUGT(b_.CreateSub(loop_.to, loop_.iv), loop_.by);
  if (left)
    is = b_.CreateAnd(is, b_.CreateICmpSGE(left, b_.getInt64(static_cast<uint64_t>(2 * depth))));
  return b_.CreateSelect(is, distance, b_.getInt64(0));
}

// The distance in bytes to the panel that is packed after this one, and the number of its rows that exist (`there` for
// this one); both 0 if there is none. Emitted before the loops of the panel.
std::pair<V, V> FunctionEmitter::panelAhead(const Lin &l, Coef row, Coef panel, V there) {
  NestState &n = *nest_;
  PanelWork &p = *n.panel;
  auto &known = p.ahead[l.base];
  if (known.first)
    return known;
  V tile = atDepth(
      0, [&] { return nextTile(l, p.depthLeft, int64_t(1) << (bitCount(n.nest->space) - n.nest->columnBits())); });
  const unsigned columns = n.nest->columnBits();
  const NestLoop *blocks = nullptr, *panels = nullptr;
  for (unsigned i = 0; i < p.loops; ++i)
    (n.loops[i].firstBit >= columns ? blocks : panels) = &n.loops[i];
  atDepth(p.loops, [&] {
    llvm::Type *t = b_.getInt64Ty();
    V none = b_.getInt64(0), deep = b_.getInt64(uint64_t(1) << n.nest->panelDepthBits);
    auto isLast = [&](const NestLoop &loop) {
      return b_.CreateICmpSGE(b_.CreateAdd(loop.iv, b_.getInt64(1)), tripsOf(loop));
    };
    // From the first panel of this block of k to that of the next one.
    V next = tile ? tile : none, rows = tile ? b_.CreateSelect(b_.CreateICmpEQ(tile, none), none, deep) : none;
    if (blocks) {
      V block = b_.CreateMul(coefValue(row, t), deep), left = b_.getInt64(32); // few, where it is not known
      if (p.depthThere)
        left = b_.CreateBinaryIntrinsic(
            llvm::Intrinsic::smin,
            b_.CreateSub(p.depthThere, b_.CreateMul(b_.CreateAdd(blocks->iv, b_.getInt64(1)), deep)), deep);
      V last = tile ? b_.CreateSub(next, b_.CreateMul(blocks->iv, block)) : none, isOver = isLast(*blocks);
      next = b_.CreateSelect(isOver, last, block), rows = b_.CreateSelect(isOver, rows, left);
    }
    if (panels) {
      V step = coefValue(panel, t), isOver = isLast(*panels);
      V back = tile || blocks ? b_.CreateSub(next, b_.CreateMul(panels->iv, step)) : none;
      next = b_.CreateSelect(isOver, back, step), rows = b_.CreateSelect(isOver, rows, there);
    }
    known = {next, rows};
    return next;
  });
  return known;
}

// Leaves to the multiply-adds to fetch what the load will read for the next panel: one line in each row.
void FunctionEmitter::fetchBetween(const ir::Op &load, const Lin &l, const Bits &at, V distance, V rows, Coef stride) {
  NestState &n = *nest_;
  PanelWork &p = *n.panel;
  // The copy at hand is some columns of a row. One of those that share a line is enough, and the first of the rows of a
  // trip.
  unsigned column = 0;
  for (size_t i = 0; i < n.unrolled.size(); ++i)
    if (n.copy >> i & 1) {
      if (n.unrolled[i] >= n.nest->columnBits())
        return;
      column += 1u << n.unrolled[i];
    }
  constexpr unsigned line = 64;
  const unsigned width = std::max(1u, ir::byteWidth(load.results[0]->type.elem)), end = column + n.lanes();
  if (end * width % line && end != 1u << n.nest->panelColumnBits)
    return;
  const unsigned lowest = n.nest->columnBits();
  auto inPanel = [&](BitSource s) {
    return n.isLane(s) ||
           (s >= static_cast<BitSource>(lowest) && s < static_cast<BitSource>(lowest + n.nest->panelDepthBits));
  };
  Bits first = at;
  std::replace_if(first.begin(), first.end(), inPanel, zeroBit);
  if (llvm::any_of(p.fetches, [&](const auto &f) { return std::get<0>(f) == &load && std::get<1>(f) == first; }))
    return;
  atDepth(p.loops, [&] {
    V next = b_.CreateGEP(b_.getInt8Ty(), linAt(load.operands[0], l, first, true).base, distance);
    V lines = b_.CreateConstGEP1_64(b_.getInt8Ty(), next, n.lanes() * width - 1);
    p.fetches.emplace_back(&load, first, PanelFetch{lines, coefValue(stride, b_.getInt64Ty()), rows});
    return lines;
  });
}

// A panel's rows are a line or two each, a row stride apart, often on separate pages: no hardware prefetches them, and
// out-of-order execution alone reaches some fifteen rows ahead. So the next panel's rows are prefetched while this one
// is multiplied, a few before each block of rows (PanelDot::fetch). If there are few blocks, the packing loop
// prefetches as many rows ahead as can be in flight, at the end of a panel those of the next one. Never far beyond the
// matrix: each prefetch from an unmapped page costs a page walk, more than the multiply-adds of a row.
void FunctionEmitter::fetchRowAhead(const LaneAddress &a, const Lin &l, const Bits &at, const ir::Op &load, V mask) {
  NestState &n = *nest_;
  const unsigned lowest = n.nest->columnBits(); // of the row's number
  auto coefOf = [&](unsigned bit) {
    const auto *i = llvm::find(at, static_cast<BitSource>(bit));
    Coef c = i == at.end() ? Coef{} : l.coef[static_cast<size_t>(i - at.begin())];
    for (const Opaque &o : l.opaque) // as if no remainder wrapped around
      if (std::optional<int64_t> growth =
              growthOfRemainder(o, positionOf(o, at), [&](BitSource s) { return s == static_cast<BitSource>(bit); }))
        c = addCoef(c, {*growth * scaleOf(l, o).k, scaleOf(l, o).s});
    return c;
  };
  if (n.apart || n.laneOf[lowest] >= 0 || coefOf(lowest).zero()) // the load runs along k
    return;
  unsigned bit = lowest;
  while (n.loopOf[bit] < 0)
    if (++bit == lowest + n.nest->panelDepthBits)
      return;
  const NestLoop &rows = n.loops[static_cast<size_t>(n.loopOf[bit])];
  llvm::Type *t64 = b_.getInt64Ty();
  auto rowTrips = [&](uint64_t count) { return b_.getInt64(std::max<uint64_t>(1, count >> (rows.firstBit - lowest))); };
  auto bytes = [&](V trips) { return b_.CreateMul(coefValue(coefOf(rows.firstBit), t64), trips); };
  V distance;
  // where the rows end is not known, but whether this one is there: then so are a few more, nearly always
  if (n.masked) {
    distance = bytes(rowTrips(16));
  } else {
    V end = &rows == &n.loops.back() ? n.trips : tripsOf(rows), lastRow, inside, beyond;
    V there = atDepth(n.panel->loops, [&] { return b_.CreateShl(end, rows.firstBit - lowest); });
    const Coef step = coefOf(n.nest->panelColumnBits);
    const auto [panel, rowsOfNext] = panelAhead(l, coefOf(lowest), step, there);
    const bool known = !step.zero() || lowest == n.nest->panelColumnBits;
    if (n.panel->between && n.panel->depth && known && (!mask || mask == b_.getTrue() || mask->getType()->isVectorTy()))
      return fetchBetween(load, l, at, panel, rowsOfNext, coefOf(lowest));
    atDepth(n.panel->loops, [&] {
      V ahead = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, rowTrips(32), end);
      lastRow = b_.CreateSub(end, ahead), inside = bytes(ahead), beyond = b_.CreateSub(panel, bytes(lastRow));
      return panel;
    });
    distance = b_.CreateSelect(b_.CreateICmpSLT(rows.iv, lastRow), inside, beyond);
  }
  // The last byte: rows that do not begin with a line end in another one, and the line of the first is that of the
  // piece before.
  const int64_t last = (int64_t(std::max(1u, ir::byteWidth(load.results[0]->type.elem))) << n.laneBits) - 1;
  V to = b_.CreateGEP(b_.getInt8Ty(), a.noWrap ? a.flatBase : a.base, distance);
  prefetch(b_.CreateConstGEP1_64(b_.getInt8Ty(), whereOn(to, mask), static_cast<uint64_t>(last)));
}

// Into L2.
void FunctionEmitter::prefetch(V at) {
  b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {b_.getPtrTy()}, {at, b_.getInt32(0), b_.getInt32(2), b_.getInt32(1)});
}

// LLVM splits the store into pieces of its alignment; together they fill lines.
void FunctionEmitter::streamStore(V x, V at) {
  auto *s = b_.CreateAlignedStore(x, at, llvm::Align(streamAlign));
  s->setMetadata(llvm::LLVMContext::MD_nontemporal,
                 llvm::MDNode::get(context_, llvm::ConstantAsMetadata::get(b_.getInt32(1))));
}

} // namespace tegula::cpu
