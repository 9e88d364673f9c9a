// Tensors that change hands: conversions between layouts, and tiles in shared memory of a given layout. The planner
// (layout/Conversion.h) decides everything; here its steps become instructions.
#include "layout/Follow.h"
#include "targets/common/NvptxOps.h"
#include "targets/nvidia/lower/Lower.h"
#include "targets/nvidia/TargetInfo.h"

namespace tegula::nvidia {

using layout::ConversionOptions;
using layout::ConversionPlan;
using layout::ExchangeScope;
using layout::SharedAccess;
using layout::SharedMove;
using layout::SharedSide;
using layout::ThreadBit;
using layout::ThreadMap;

/// Emits single steps for layout::followPlan. Elements are integers of `bits`; words integers that hold one or more of
/// them.
struct Lowering::PlanEmit {
  Lowering &l;
  V base;        // address of the tile or of the scratch, i32
  unsigned bits; // of an element: 8, 16, 32, 64
  std::map<std::pair<const SharedSide *, uint32_t>, V> at{}; // address without what is added to it
  std::map<const SharedSide *, V> ranks{};

  unsigned bytes() const { return bits / 8; }
  llvm::IRBuilder<> &b() { return l.b_; }

  V pack(std::span<const V> elements) {
    unsigned n = static_cast<unsigned>(elements.size());
    if (n == 1)
      return elements[0];
    if (n * bits < 32) { // a vector of 16 bits is no type of the machine
      V low = b().CreateZExt(elements[0], b().getInt16Ty()), high = b().CreateZExt(elements[1], b().getInt16Ty());
      return b().CreateOr(low, b().CreateShl(high, 8));
    }
    if (V word = n == 4 ? l.wordOfBytes({elements.data(), elements.size()}) : nullptr)
      return word;
    return targets::packWord(b(), {elements.data(), elements.size()});
  }

  std::vector<V> unpack(V word, size_t n) {
    if (n == 1)
      return {word};
    llvm::Type *element = b().getIntNTy(bits);
    if (n * bits < 32)
      return {b().CreateTrunc(word, element), b().CreateTrunc(b().CreateLShr(word, 8), element)};
    return elementsOf(b().CreateBitCast(word, llvm::FixedVectorType::get(element, static_cast<unsigned>(n))), n);
  }

  /// Of a value that was selected by the same bit before the exchange, and did not move, only the side counts that is
  /// taken now.
  V select(const ThreadBit &when, V ifSet, V ifClear) {
    V bit = l.threadBit(when);
    auto side = [&](V v, bool isSet) {
      auto *before = llvm::dyn_cast<llvm::SelectInst>(v);
      return before && before->getCondition() == bit ? isSet ? before->getTrueValue() : before->getFalseValue() : v;
    };
    return b().CreateSelect(bit, side(ifSet, true), side(ifClear, false));
  }

  V shuffle(V word, const ThreadMap &sourceLane, uint32_t laneXor) {
    uint64_t mask;
    V lane = l.threadValue(sourceLane, mask);
    return l.shuffle(ShuffleMode::Idx, word, l.combineIndex(lane, mask, laneXor));
  }

  void barrier(ExchangeScope scope) {
    if (scope == ExchangeScope::Cluster)
      l.meet();
    else if (scope == ExchangeScope::Cta)
      l.barrier();
    else
      l.in_->syncWarp();
  }

  void store(const SharedSide &side, const SharedAccess &a, std::span<const V> values) {
    V to = address(side, a), owns = l.noneOf(side.guard);
    if (side.move == SharedMove::Plain)
      return l.in_->storeShared(to, values.size() == 1 ? values[0] : vectorOf(values), owns);
    Regs words;
    size_t perWord = 32 / bits;
    for (size_t i = 0; i < values.size(); i += perWord)
      words.push_back(pack(values.subspan(i, perWord)));
    // Whole warps hold copies, never lanes.
    l.ifThen(owns, [&] { l.in_->stmatrix(to, words, side.move == SharedMove::MatrixTrans); });
  }

  std::vector<V> load(const SharedSide &side, const SharedAccess &a) {
    V from = address(side, a);
    size_t n = a.registers.size();
    if (side.move == SharedMove::Plain) {
      llvm::Type *element = b().getIntNTy(bits);
      bool cluster = isRemote(side, a);
      if (n == 1)
        return {l.in_->loadShared(from, element, nullptr, nullptr, cluster)};
      auto *type = llvm::FixedVectorType::get(element, static_cast<unsigned>(n));
      return elementsOf(l.in_->loadShared(from, type, nullptr, nullptr, cluster), n);
    }
    std::vector<V> out;
    for (V word : l.in_->ldmatrix(from, side.matrices, side.move == SharedMove::MatrixTrans))
      for (V x : unpack(word, 32 / bits))
        out.push_back(x);
    return out;
  }

  /// Does it read another CTA's memory? What is certainly its own is not asked of the network between SMs.
  bool isRemote(const SharedSide &side, const SharedAccess &a) const {
    const ThreadMap &of = side.block;
    if (of.block.empty() || a.blockXor)
      return !of.block.empty();
    for (size_t i = 0; i < of.block.size(); ++i)
      if (of.block[i] != 1u << i)
        return true;
    return llvm::any_of(of.lane, [](uint32_t x) { return x != 0; }) ||
           llvm::any_of(of.warp, [](uint32_t x) { return x != 0; });
  }

  /// base + ((thread's offset ^ constant) in bytes). The part of the constant that never meets the thread's bits is
  /// added last, so that it can become an immediate; accesses that differ in it alone share the rest.
  V address(const SharedSide &side, const SharedAccess &a) {
    uint32_t added = a.offset & side.addMask, flipped = a.offset & ~side.addMask;
    V &start = at[{&side, flipped}];
    if (!start) {
      uint64_t mask;
      V thread = l.threadValue(scaled(side.base), mask);
      start = b().CreateAdd(base, flipped ? b().CreateXor(thread, b().getInt32(flipped * bytes())) : thread);
    }
    V address = added ? b().CreateAdd(start, b().getInt32(added * bytes())) : start;
    if (!isRemote(side, a))
      return address;
    uint64_t mask;
    V &rank = ranks[&side];
    if (!rank)
      rank = l.threadValue(side.block, mask);
    return l.in_->mapShared(address, a.blockXor ? b().CreateXor(rank, b().getInt32(a.blockXor)) : rank);
  }

private:
  V vectorOf(std::span<const V> elements) {
    V v =
        llvm::PoisonValue::get(llvm::FixedVectorType::get(b().getIntNTy(bits), static_cast<unsigned>(elements.size())));
    for (size_t i = 0; i < elements.size(); ++i)
      v = b().CreateInsertElement(v, elements[i], i);
    return v;
  }
  std::vector<V> elementsOf(V vector, size_t n) {
    std::vector<V> out;
    for (size_t i = 0; i < n; ++i)
      out.push_back(b().CreateExtractElement(vector, i));
    return out;
  }

  ThreadMap scaled(ThreadMap m) const {
    for (auto *images : {&m.lane, &m.warp, &m.block})
      for (uint32_t &x : *images)
        x *= bytes();
    return m;
  }
};

// ---- functions of the thread

V Lowering::movedBits(std::span<const uint32_t> images, V index, uint32_t all, V sum, uint64_t &mask) {
  // Bits that move by the same distance are moved together.
  std::map<int, uint32_t> groups; // distance -> input bits
  for (size_t i = 0; i < images.size(); ++i)
    for (uint32_t image = images[i]; image; image &= image - 1)
      groups[std::countr_zero(image) - static_cast<int>(i)] |= 1u << i;
  for (auto [distance, bits] : groups) {
    V part = bits == all ? index : b_.CreateAnd(index, b_.getInt32(bits));
    part = distance > 0 ? b_.CreateShl(part, distance) : distance < 0 ? b_.CreateLShr(part, -distance) : part;
    uint64_t image = distance >= 0 ? uint64_t{bits} << distance : bits >> -distance;
    sum = !sum ? part : mask & image ? b_.CreateXor(sum, part) : b_.CreateAdd(sum, part, "", true, true);
    mask |= image;
  }
  return sum ? sum : b_.getInt32(0);
}

V Lowering::threadValue(const ThreadMap &map, uint64_t &mask) {
  mask = 0;
  // Lane and warp stand side by side in the index of the thread.
  std::vector<uint32_t> thread = map.lane;
  thread.resize(5);
  thread.insert(thread.end(), map.warp.begin(), map.warp.end());
  V sum = movedBits(thread, tid_, 32 * options_.numWarps - 1, nullptr, mask);
  bool hasBlocks = llvm::any_of(map.block, [](uint32_t image) { return image != 0; });
  return hasBlocks ? movedBits(map.block, in_->special(Special::ClusterRank), options_.numCtas - 1,
                               mask ? sum : nullptr, mask)
                   : sum;
}

/// Once for each basic block: LLVM asks at each comparison with zero about all users of the first such one, so it must
/// not see one for each register.
V Lowering::threadBit(const ThreadBit &bit) {
  V &odd = threadBits_[{b_.GetInsertBlock(), bit.lane, bit.warp, bit.block}];
  if (odd)
    return odd;
  auto add = [&](V index, uint32_t mask) {
    V part = b_.CreateAnd(index, b_.getInt32(mask));
    V parity = std::popcount(mask) == 1
                   ? b_.CreateICmpNE(part, b_.getInt32(0))
                   : b_.CreateTrunc(b_.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, part), b_.getInt1Ty());
    odd = odd ? b_.CreateXor(odd, parity) : parity;
  };
  if (bit.lane)
    add(lane_, bit.lane);
  if (bit.warp)
    add(warp_, bit.warp);
  if (bit.block)
    add(in_->special(Special::ClusterRank), bit.block);
  return odd = odd ? odd : b_.getFalse();
}

V Lowering::noneOf(const ThreadBit &guard) {
  V owns = nullptr;
  auto check = [&](V index, uint32_t mask) {
    if (mask)
      owns = conjunction(owns, b_.CreateICmpEQ(b_.CreateAnd(index, b_.getInt32(mask)), b_.getInt32(0)));
  };
  check(lane_, guard.lane);
  check(warp_, guard.warp);
  if (guard.block)
    check(in_->special(Special::ClusterRank), guard.block);
  return owns;
}

void Lowering::ifThen(V pred, const std::function<void()> &body) {
  if (!pred)
    return body();
  llvm::BasicBlock *then = newBlock("then"), *after = newBlock("end");
  b_.CreateCondBr(pred, then, after);
  b_.SetInsertPoint(then);
  body();
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
}

/// Statements that take a predicate. Branches on one condition, as a kernel with a thousand descriptors would have
/// them, take LLVM time that grows with the square of their number (EarlyCSE, MachineSinking, the coalescer). Kernels
/// with partitions have few, and the assembler makes better code of branches there (causal attention on an H200: 394
/// TFLOP/s, with predicates 377). The simulator's functions have no predicate.
void Lowering::byFirstThread(const std::function<void(V)> &body) {
  if (target_.simulate || partitions_)
    ifThen(isFirstThread(), [&] { body(nullptr); });
  else
    body(isFirstThread());
}

// ---- elements as planner and memory see them

static unsigned elementBits(const ir::Type &t) { return t.isPtr ? 64 : 8 * ir::byteWidth(t.elem); }

V Lowering::toInteger(V x) { return toMemory(bitsOf(x)); }

V Lowering::fromInteger(V x, const ir::Type &t) {
  return !t.isPtr && t.elem == ir::Elem::I1 ? fromMemory(x, t) : fromBits(x, regType(t));
}

ConversionOptions Lowering::conversionOptions() const { return NvTargetInfo(target_).conversions(); }

// ---- tiles in shared memory

void Lowering::storeShared(const LinearLayout &memory, V base, const Regs &regs, const LinearLayout &from,
                           const ir::Type &t) {
  PlanEmit emit{*this, base, elementBits(t)};
  SharedSide side = layout::planSharedAccess(from, memory, emit.bits, true, conversionOptions());
  for (const SharedAccess &a : side.accesses) {
    std::vector<V> values;
    for (uint16_t r : a.registers)
      values.push_back(toInteger(regs[r]));
    emit.store(side, a, values);
  }
}

/// Bytes that lie in memory across the way that registers have them: the same of each warp's elements as matrix moves
/// bring them (layout::dealtForTurns), from which lanes exchange words. Nothing if the layout has no such squares of 16
/// by 16.
static std::optional<LinearLayout> turnedFirst(const LinearLayout &registers, const LinearLayout &memory) {
  using layout::Dim;
  if (registers.outs().size() != 2 || registers.inBits(Dim::Lane) != 5 || !memory.inBits(Dim::Offset))
    return std::nullopt;
  const unsigned fast = memory.basis(Dim::Offset, 0, layout::tensorDim(0)) ? 0 : 1, across = 1 - fast;
  std::vector<uint64_t> left(registers.bases(Dim::Register).begin(), registers.bases(Dim::Register).end());
  left.insert(left.end(), registers.bases(Dim::Lane).begin(), registers.bases(Dim::Lane).end());
  if (std::count(left.begin(), left.end(), 0u))
    return std::nullopt;
  std::vector<uint64_t> bases, lanes;
  auto take = [&](std::vector<uint64_t> &to, unsigned axis, std::initializer_list<uint64_t> steps) {
    for (uint64_t n : steps) {
      auto at = std::find(left.begin(), left.end(), registers.outs().flat(layout::tensorDim(axis), n));
      if (at == left.end())
        return false;
      to.push_back(*at);
      left.erase(at);
    }
    return true;
  };
  for (unsigned axis : {fast, across})
    if (registers.outs().mask(layout::tensorDim(axis)) < registers.outs().flat(layout::tensorDim(axis), 8))
      return std::nullopt;
  if (!take(bases, fast, {1}) || !take(bases, across, {1, 2}) || !take(lanes, across, {4, 8}) ||
      !take(lanes, fast, {2, 4, 8}))
    return std::nullopt;
  for (const std::vector<uint64_t> &more : {left, lanes})
    bases.insert(bases.end(), more.begin(), more.end());
  bases.insert(bases.end(), registers.bases(Dim::Warp).begin(), registers.bases(Dim::Warp).end());
  return LinearLayout(registers.ins(), registers.outs(), bases);
}

Regs Lowering::loadShared(const LinearLayout &memory, V base, const ir::Type &t) {
  PlanEmit emit{*this, base, elementBits(t)};
  const LinearLayout &l = m_.layoutOf(t);
  SharedSide side = layout::planSharedAccess(l, memory, emit.bits, false, conversionOptions());
  auto read = [&](const SharedSide &from, size_t count) {
    std::vector<V> values(count);
    for (const SharedAccess &a : from.accesses) {
      std::vector<V> loaded = emit.load(from, a);
      for (size_t j = 0; j < loaded.size(); ++j)
        values[a.registers[j]] = loaded[j];
    }
    return values;
  };
  Regs out;
  if (emit.bits == 8 && side.move == SharedMove::Plain && side.elements == 1)
    if (const std::optional<LinearLayout> first = turnedFirst(l, memory)) {
      ConversionOptions options = conversionOptions();
      options.shared = false;
      const SharedSide turned = layout::planSharedAccess(*first, memory, emit.bits, false, options);
      const ConversionPlan plan = layout::planConversion(*first, l, emit.bits, options);
      auto clocks = [](const SharedSide &s) { return static_cast<double>(s.accesses.size()) * (s.wavefronts + 0.5); };
      if (turned.move == SharedMove::MatrixTrans && plan.kind == layout::ConversionKind::Shuffles &&
          clocks(turned) + plan.cost.clocks < clocks(side)) {
        const std::vector<V> source = read(turned, size_t{1} << first->inBits(layout::Dim::Register));
        for (V x : layout::followPlan(plan, std::span<const V>(source), emit))
          out.push_back(fromInteger(x, t));
        return out;
      }
    }
  const std::vector<uint16_t> copyOf = layout::copiesOf(l);
  const std::vector<V> values = read(side, copyOf.size());
  for (uint16_t r : copyOf)
    out.push_back(fromInteger(values[r], t));
  return out;
}

void Lowering::copyToShared(const LinearLayout &memory, V base, const ir::Type &t, const Regs &pointers,
                            const LinearLayout &from, const Regs *mask, unsigned vec, AccessHints hints, V isDone) {
  PlanEmit emit{*this, base, elementBits(t)};
  ConversionOptions options = conversionOptions();
  options.stmatrix = false;
  SharedSide side = layout::planSharedAccess(from, memory, emit.bits, true, options);
  V owns = conjunction(noneOf(side.guard), isDone);
  assert(keepsVectors(memory, from, vec) && "a vector of the load is not one of the tile");
  for (const SharedAccess &a : side.accesses) {
    V to = emit.address(side, a);
    auto n = static_cast<unsigned>(a.registers.size()), chunk = std::min(n, vec), bytes = chunk * emit.bytes();
    for (unsigned i = 0; i < n; i += chunk) {
      unsigned r = a.registers[i];
      V size = mask ? b_.CreateSelect((*mask)[r], b_.getInt32(bytes), b_.getInt32(0)) : nullptr;
      in_->cpAsync(i ? b_.CreateAdd(to, b_.getInt32(i * emit.bytes())) : to, pointers[r], bytes, size, owns, hints);
    }
  }
}

// ---- conversions

/// Between warps each thread leaves its registers for the thread in the same lane of the other warp, 16 bytes side by
/// side: no bank conflicts.
void Lowering::exchange(const Op &op) {
  const ir::Type &t = op.result()->type;
  gpu::Partner partner = gpu::partnerOf(layoutOf(op.result()), op);
  const Regs mine = get(op.operands[0]);
  auto count = static_cast<unsigned>(mine.size());
  Regs other = mine;
  in_->setSite(siteOf(op));
  if (partner.inWarps) {
    unsigned bits = elementBits(t), bytes = bits / 8, chunk = std::min(count, 16 / bytes),
             threads = NvTarget::lanes * options_.numWarps;
    V memory = scratch(op);
    V thread = b_.CreateOr(b_.CreateShl(warp_, 5), lane_),
      from = b_.CreateXor(thread, b_.getInt32(partner.inWarps * NvTarget::lanes | partner.inLanes));
    llvm::Type *element = b_.getIntNTy(bits),
               *vector = chunk == 1 ? element : llvm::FixedVectorType::get(element, chunk);
    auto address = [&](V of, unsigned r) {
      return sharedAt(memory, b_.CreateAdd(of, b_.getInt32(r / chunk * threads)), chunk * bytes);
    };
    for (unsigned r = 0; r < count; r += chunk) {
      V all = chunk == 1 ? toInteger(mine[r]) : llvm::PoisonValue::get(vector);
      for (unsigned i = 0; chunk > 1 && i < chunk; ++i)
        all = b_.CreateInsertElement(all, toInteger(mine[r + i]), i);
      in_->storeShared(address(thread, r), all);
    }
    barrier();
    for (unsigned r = 0; r < count; r += chunk) {
      V all = in_->loadShared(address(from, r), vector);
      for (unsigned i = 0; i < chunk; ++i)
        other[r + i] = fromInteger(chunk == 1 ? all : b_.CreateExtractElement(all, i), t);
    }
  }
  Regs out;
  for (unsigned r = 0; r < count; ++r) {
    V x = other[r ^ partner.inRegisters];
    out.push_back(partner.inLanes && !partner.inWarps ? shuffle(ShuffleMode::Bfly, x, b_.getInt32(partner.inLanes))
                                                      : x);
  }
  set(op.result(), std::move(out));
}

void Lowering::convert(const Op &op) {
  const Value *from = op.operands[0];
  const ir::Type &t = op.result()->type;
  unsigned bits = elementBits(t);
  ConversionOptions options = conversionOptions();
  options.maxBytes = static_cast<unsigned>(placeOf(op).size());
  const Scratch need = scratchNeed(m_, op, {NvTarget::lanes, options_.numWarps}, options_.numCtas, options, true);
  const ConversionPlan &plan = *need.plan;
  in_->setSite(siteOf(op));
  V memory = need.bytes ? scratch(op) : shared_;
  if (need.bytes > placeOf(op).size()) {
    fail(op, "it needs more shared memory than it was given");
    return;
  }
  PlanEmit emit{*this, memory, bits};
  std::vector<V> source;
  Regs out;
  if (plan.kind == layout::ConversionKind::Nothing || plan.kind == layout::ConversionKind::Registers) {
    for (uint16_t r : plan.registers)
      out.push_back(get(from)[r]);
    return set(op.result(), std::move(out));
  }
  for (V x : get(from))
    source.push_back(toInteger(x));
  for (V x : layout::followPlan(plan, std::span<const V>(source), emit))
    out.push_back(fromInteger(x, t));
  set(op.result(), std::move(out));
}

// ---- parts that the CTAs of a cluster send each other

/// In the order of PTX ISA 9.7.13.15: initialization, the fence, and only then what other CTAs may count down before
/// it.
void Lowering::openExchanges(const Op &op) {
  in_->setSite(siteOf(op));
  std::vector<Instr::MbarInit> bars;
  std::vector<V> bytes;
  for (const Op *gather : gpu::sendingGathers(*m_.kernel()->block())) {
    const SharedRange r = placeOf(*gather);
    bars.push_back({sharedAddress({r.begin, r.begin + 8}), 1});
    bytes.push_back(b_.getInt32(static_cast<uint32_t>(r.size() - gpu::SentParts::slots)));
  }
  byFirstThread([&](V pred) {
    in_->mbarInit(bars, pred);
    for (size_t i = 0; i < bars.size(); ++i)
      in_->mbarArriveExpect(bars[i].bar, bytes[i], pred);
  });
}

void Lowering::sendParts(const Op &op) {
  const gpu::SentParts sent = *gpu::sentParts(op);
  const ir::Type &part = op.operands[0]->type, &all = op.result()->type;
  const auto ctas = static_cast<unsigned>(all.shape[0]);
  const SharedRange r = placeOf(op);
  const unsigned bits = 8 * sent.element;
  in_->setSite(siteOf(op));
  V bar = sharedAddress({r.begin, r.begin + 8}), slots = sharedAddress({r.begin + gpu::SentParts::slots, r.end});
  V own = b_.CreateAdd(slots,
                       b_.CreateMul(in_->special(Special::ClusterRank), b_.getInt32(static_cast<uint32_t>(sent.part))));
  std::vector<V> values;
  for (V x : get(op.operands[0]))
    values.push_back(b_.CreateZExt(toInteger(x), b_.getIntNTy(bits)));
  auto rowMajor = [](const ir::Shape &shape) {
    layout::Extents order;
    for (unsigned a = shape.rank(); a-- > 0;)
      order.push(a);
    return layout::sharedLinear(shape, order);
  };
  ConversionOptions plain = conversionOptions();
  plain.stmatrix = plain.ldmatrix = false;
  if (part.isScalar()) { // one thread for each CTA
    V to = b_.CreateAnd(tid_, b_.getInt32(ctas - 1));
    in_->sendShared(in_->mapShared(own, to), values[0], in_->mapShared(bar, to),
                    b_.CreateICmpULT(tid_, b_.getInt32(ctas)));
  } else {
    PlanEmit emit{*this, own, bits};
    const SharedSide side = layout::planSharedAccess(layoutOf(op.operands[0]), rowMajor(part.shape), bits, true, plain);
    V owns = noneOf(side.guard);
    for (unsigned cta = 0; cta < ctas; ++cta)
      for (const SharedAccess &a : side.accesses) {
        Regs moved;
        for (uint16_t k : a.registers)
          moved.push_back(values[k]);
        in_->sendShared(in_->mapShared(emit.address(side, a), b_.getInt32(cta)), moved,
                        in_->mapShared(bar, b_.getInt32(cta)), owns);
      }
  }
  in_->mbarWait(bar, b_.getInt32(0));
  PlanEmit emit{*this, slots, bits};
  const LinearLayout &l = layoutOf(op.result());
  const SharedSide side = layout::planSharedAccess(l, rowMajor(all.shape), bits, false, plain);
  const std::vector<uint16_t> copyOf = layout::copiesOf(l);
  Regs out(copyOf.size(), nullptr);
  for (const SharedAccess &a : side.accesses) {
    std::vector<V> got = emit.load(side, a);
    for (size_t j = 0; j < got.size(); ++j)
      out[a.registers[j]] = fromInteger(b_.CreateTrunc(got[j], b_.getIntNTy(elementBits(all))), all);
  }
  for (size_t k = 0; k < out.size(); ++k)
    out[k] = out[copyOf[k]];
  set(op.result(), std::move(out));
}

} // namespace tegula::nvidia
