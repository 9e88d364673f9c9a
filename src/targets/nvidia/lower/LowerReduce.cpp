// Reductions and scans: inside a thread, then across lanes by shuffles, then across warps through shared memory.
//
// assignLayouts gives operands in layouts whose bits step along one axis each, so every register, lane and warp bit
// either belongs to the axis or does not. Scans get layout::dealtAlong: along the axis registers count fastest, then
// lanes, then warps.
#include "gpu/BlockEdit.h"
#include "gpu/Work.h"
#include "targets/common/NvptxOps.h"
#include "targets/nvidia/lower/LowerReduce.h"

namespace tegula::nvidia {

using ir::OpKind;
using layout::Dim;

void Lowering::reduce(const Op &op) { Reductions(*this).reduce(op); }
void Lowering::scan(const Op &op) { Reductions(*this).scan(op); }

/// The region applied to two tuples; its operations are scalar.
Regs Lowering::Reductions::combine(const Op &op, llvm::ArrayRef<V> left, llvm::ArrayRef<V> right) {
  const ir::Block &body = *op.region(0);
  size_t n = left.size();
  for (size_t i = 0; i < n; ++i) {
    set(body.args[i], {left[i]});
    set(body.args[n + i], {right[i]});
  }
  frame_.block(body);
  Regs out;
  if (frame_.ok_)
    for (const Value *v : body.terminator()->operands)
      out.push_back(scalar(v));
  else
    out.assign(left.begin(), left.end());
  return out;
}

V Lowering::shuffle(ShuffleMode mode, V x, V lane) {
  V bits = bitsOf(x);
  unsigned width = bits->getType()->getIntegerBitWidth();
  if (width == 64) {
    V low = in_->shuffle(mode, b_.CreateTrunc(bits, b_.getInt32Ty()), lane);
    V high = in_->shuffle(mode, b_.CreateTrunc(b_.CreateLShr(bits, 32), b_.getInt32Ty()), lane);
    bits = b_.CreateOr(b_.CreateZExt(low, b_.getInt64Ty()), b_.CreateShl(b_.CreateZExt(high, b_.getInt64Ty()), 32));
  } else {
    bits = b_.CreateTrunc(in_->shuffle(mode, b_.CreateZExt(bits, b_.getInt32Ty()), lane), bits->getType());
  }
  return fromBits(bits, x->getType());
}

Regs Lowering::Reductions::select(V cond, const Regs &a, const Regs &b) {
  Regs out;
  for (size_t i = 0; i < a.size(); ++i)
    out.push_back(b_.CreateSelect(cond, a[i], b[i]));
  return out;
}

namespace {

/// What the bits of one input dimension do along an axis.
uint32_t bitsAlong(const LinearLayout &l, Dim in, unsigned axis) {
  uint32_t bits = 0;
  for (unsigned i = 0; i < l.inBits(in); ++i)
    bits |= (l.basis(in, i, layout::tensorDim(axis)) != 0 ? 1u : 0u) << i;
  return bits;
}

/// Register image with the axis removed: the row-major index in the reduced tensor.
uint64_t withoutAxis(uint64_t flat, const ir::Shape &shape, unsigned axis) {
  uint64_t inner = 1, extent = static_cast<uint64_t>(shape[axis]);
  for (unsigned k = axis + 1; k < shape.rank(); ++k)
    inner *= static_cast<uint64_t>(shape[k]);
  return flat / (inner * extent) * inner + flat % inner;
}

} // namespace

/// Minimum or maximum of bf16 values that were widened before: two at a time in the words they were loaded in, which is
/// exact and half the instructions. Null where it is something else.
std::optional<Regs> Lowering::Reductions::reduceBf16Words(const Op &op, llvm::ArrayRef<unsigned> registers) {
  const Value *wide = op.operands[0];
  // registers under other coordinates
  while (wide->def && (wide->def->kind == OpKind::Reshape || wide->def->kind == OpKind::Permute) &&
         get(wide->def->operands[0]) == get(wide))
    wide = wide->def->operands[0];
  const Op *widened = wide->def;
  const ir::Block &body = *op.region(0);
  if (target_.simulate || op.operands.size() != 1 || !widened || widened->kind != OpKind::FpExt ||
      body.ops.size() != 2 || registers.size() < 4 || registers.size() % 2)
    return std::nullopt;
  OpKind kind = body.ops[0]->kind;
  bool isMinMax =
      kind == OpKind::MinNum || kind == OpKind::MaxNum || kind == OpKind::Minimum || kind == OpKind::Maximum;
  if (!isMinMax || body.ops[0]->operands[0] == body.ops[0]->operands[1] ||
      body.terminator()->operands[0] != body.ops[0]->result() || body.ops[0]->operands[0]->def ||
      body.ops[0]->operands[1]->def || widened->operands[0]->type.elem != ir::Elem::BF16 ||
      op.operands[0]->type.elem != ir::Elem::F32)
    return std::nullopt;
  const Regs &narrow = get(widened->operands[0]);
  V word = nullptr;
  for (size_t i = 0; i < registers.size(); i += 2) {
    auto [low, lowHalf] = targets::halfOfWord(narrow[registers[i]]);
    auto [high, highHalf] = targets::halfOfWord(narrow[registers[i + 1]]);
    if (!low || low != high || lowHalf != 0 || highHalf != 1)
      return std::nullopt;
    word = word ? targets::nvptxMinMaxBf16x2(*vec_, kind, word, low) : low;
  }
  V first = b_.CreateBitCast(b_.CreateShl(word, 16), b_.getFloatTy());
  V second = b_.CreateBitCast(b_.CreateAnd(word, 0xFFFF0000), b_.getFloatTy());
  return combine(op, {first}, {second});
}

namespace {

/// select(mask, x, c), or the square of one; c is +0.
struct Masked {
  V mask = nullptr, x = nullptr;
  llvm::Instruction *square = nullptr; // select * select
};

Masked maskedZero(V v) {
  Masked out;
  auto *product = llvm::dyn_cast<llvm::Instruction>(v);
  if (product && product->getOpcode() == llvm::Instruction::FMul && product->getOperand(0) == product->getOperand(1)) {
    out.square = product;
    v = product->getOperand(0);
  }
  auto *select = llvm::dyn_cast<llvm::SelectInst>(v);
  auto *zero = select ? llvm::dyn_cast<llvm::ConstantFP>(select->getFalseValue()) : nullptr;
  if (zero && zero->isExactlyValue(0.0)) {
    out.mask = select->getCondition();
    out.x = select->getTrueValue();
  }
  return out;
}

} // namespace

/// The sum of floats that are zero where a mask is off, one mask for all: the sum is selected, not its parts. Null if
/// they are none.
V Lowering::Reductions::maskedSum(const Op &op, llvm::ArrayRef<unsigned> registers) {
  const ir::Block &body = *op.region(0);
  bool isSum = op.operands.size() == 1 && body.ops.size() == 2 && body.ops[0]->kind == OpKind::FAdd &&
               !body.ops[0]->operands[0]->def && !body.ops[0]->operands[1]->def &&
               body.ops[0]->operands[0] != body.ops[0]->operands[1] &&
               body.terminator()->operands[0] == body.ops[0]->result();
  if (!isSum || registers.size() < 2)
    return nullptr;
  llvm::SmallVector<Masked, 16> parts;
  for (unsigned r : registers) {
    parts.push_back(maskedZero(get(op.operands[0])[r]));
    if (!parts.back().mask || parts.back().mask != parts[0].mask)
      return nullptr;
  }
  V sum = nullptr;
  for (const Masked &m : parts) {
    V x = m.square ? b_.CreateFMulFMF(m.x, m.x, m.square) : m.x;
    sum = sum ? combine(op, {sum}, {x})[0] : x;
  }
  return b_.CreateSelect(parts[0].mask, sum, llvm::ConstantFP::get(sum->getType(), 0));
}

/// Sums and products of f16 and bf16, two at a time in the words they are in. Nullopt where it is something else.
std::optional<Regs> Lowering::Reductions::reduceHalves(const Op &op, llvm::ArrayRef<unsigned> registers) {
  const ir::Elem e = op.operands[0]->type.elem;
  const std::optional<OpKind> kind = onlyOperation(op);
  if ((kind != OpKind::FAdd && kind != OpKind::FMul) || op.operands[0]->type.isPtr ||
      (e != ir::Elem::F16 && e != ir::Elem::BF16) || registers.size() < 4 || registers.size() % 2)
    return std::nullopt;
  Regs elements;
  for (unsigned r : registers)
    elements.push_back(get(op.operands[0])[r]);
  std::optional<std::array<V, 2>> halves = frame_.foldWords(*kind, e, elements);
  return halves ? std::optional(combine(op, {(*halves)[0]}, {(*halves)[1]})) : std::nullopt;
}

/// A few chains side by side: one of 64 dependent additions would take as long as the memory. Not pairs, as a sum of
/// products is one fused instruction an element only along a chain.
Regs Lowering::Reductions::reduceInThread(const Op &op, llvm::ArrayRef<unsigned> registers) {
  if (std::optional<Regs> done = reduceBf16Words(op, registers))
    return *done;
  if (std::optional<Regs> done = reduceHalves(op, registers))
    return *done;
  size_t chains = registers.size() >= 32 ? 4 : registers.size() >= 16 ? 2 : 1;
  llvm::SmallVector<Regs, 4> sums;
  for (size_t c = 0, at = 0; c < chains; ++c) {
    Regs sum;
    size_t end = registers.size() * (c + 1) / chains;
    if (V masked = maskedSum(op, registers.slice(at, end - at))) {
      sums.push_back({masked});
      at = end;
      continue;
    }
    for (; at < end; ++at) {
      Regs x;
      for (const Value *v : op.operands)
        x.push_back(get(v)[registers[at]]);
      sum = sum.empty() ? x : combine(op, sum, x);
      // Instruction selection carries the constants of a chain of integer sums to its end, in time that grows with the
      // square of the length.
      if (at % 64 == 63)
        for (V &v : sum)
          v = in_->unknown(v);
    }
    sums.push_back(std::move(sum));
  }
  return reducePairs(op, sums);
}

Regs Lowering::Reductions::reducePairs(const Op &op, llvm::ArrayRef<Regs> parts) {
  if (parts.size() == 1)
    return parts[0];
  size_t half = parts.size() / 2;
  Regs left = reducePairs(op, parts.take_front(half)), right = reducePairs(op, parts.drop_front(half));
  return combine(op, left, right);
}

/// Lanes differ in `lanes`, in order of the axis.
Regs Lowering::Reductions::acrossLanes(const Op &op, const MaybeArg &arg, Regs part, uint32_t lanes, bool repeat) {
  V found = nullptr;
  if (arg)
    return winner(op, *arg, {part}, lanes, repeat, found);
  if (std::optional<OpKind> kind = onlyOperation(op))
    if (V all = reduxLanes(*kind, part[0], lanes, repeat))
      return {all};
  for (uint32_t bits = lanes; bits; bits &= bits - 1) {
    Regs other;
    for (V x : part)
      other.push_back(frame_.shuffle(ShuffleMode::Bfly, x, b_.getInt32(bits & -bits)));
    part = combine(op, part, other);
  }
  return part;
}

/// LLVM's strength reduction knows sums and extrema of integers. Where a result is added to a loop's counter (argmin
/// and the first column of a tile) it writes all of it anew, one by one, in the 64 bits of the counter: a loop of
/// k-means had 882 instructions for 586. It does not look behind this.
void Lowering::Reductions::hideIntegers(llvm::MutableArrayRef<Regs> parts) {
  std::map<V, V> hidden;
  for (Regs &part : parts)
    for (V &v : part)
      if (v->getType()->isIntegerTy() && !v->getType()->isIntegerTy(1)) {
        V &h = hidden[v];
        if (!h)
          h = b_.CreateFreeze(v);
        v = h;
      }
}

void Lowering::Reductions::reduce(const Op &op) {
  const ir::Type &t = op.operands[0]->type;
  const LinearLayout &l = m_.layoutOf(t);
  auto axis = static_cast<unsigned>(op.axis());
  Dim along = layout::tensorDim(axis);
  size_t n = op.operands.size();
  // In a thread: elements of one result, in the order of their coordinate.
  std::map<uint64_t, std::map<uint64_t, unsigned>> groups; // result image -> coordinate -> register
  for (unsigned r = 0; r < registersOf(t); ++r)
    groups[withoutAxis(l.apply(r), t.shape, axis)].try_emplace(l.outs().part(l.apply(r), along), r);
  std::map<uint64_t, unsigned> partOf;
  llvm::SmallVector<Regs, 8> parts;
  llvm::SmallVector<size_t, 8> inThread; // parts that are still to be combined across lanes
  uint32_t lanes = bitsAlong(l, Dim::Lane, axis);
  MaybeArg arg = argExtremumOf(op);
  const bool ascend = arg && indicesAscend(op);
  llvm::SmallVector<V, 8> *found = findExtrema(op, arg, groups.size());
  for (auto &[image, registers] : groups) {
    size_t p = partOf[image] = static_cast<unsigned>(parts.size());
    llvm::SmallVector<unsigned, 32> ordered;
    for (auto [coordinate, r] : registers)
      ordered.push_back(r);
    if (arg) {
      llvm::SmallVector<Regs, 32> pairs;
      for (unsigned r : ordered)
        pairs.push_back({get(op.operands[0])[r], get(op.operands[1])[r]});
      V none = nullptr;
      parts.push_back(winner(op, *arg, pairs, lanes, /*repeat=*/false, found ? (*found)[p] : none, ascend));
    } else if (found && (*found)[p]) {
      parts.push_back({(*found)[p]});
    } else {
      parts.push_back(reduceInThread(op, ordered));
      inThread.push_back(p);
    }
  }
  // After what threads do alone: the assembler keeps the order, and has nothing to do beside the shuffles of one part
  // but those of the next (softmax of attention: 6 %).
  for (size_t p : inThread) {
    parts[p] = acrossLanes(op, arg, parts[p], lanes, /*repeat=*/false);
    if (found)
      (*found)[p] = parts[p][0];
  }
  if (bitsAlong(l, Dim::Warp, axis))
    reduceWarps(op, arg, parts);
  if (tegula::gpu::isInLoop(op))
    hideIntegers(parts);
  for (size_t k = 0; k < n; ++k) {
    Regs out;
    const ir::Type &rt = op.results[k]->type;
    for (unsigned r = 0; r < registersOf(rt); ++r)
      out.push_back(parts[partOf.at(rt.isScalar() ? 0 : m_.layoutOf(rt).apply(r))][k]);
    set(op.results[k], std::move(out));
  }
}

static constexpr unsigned fewWays = 8; // measured: beyond it, reading vectors of parts takes the time

/// Across how many lane bits the parts of a result are best exchanged, of those in which lanes may differ that want the
/// same result: none is for all threads that put all parts together, as many as there are `ways` for each lane to have
/// one. A sum of eight is seven additions beside three and three shuffles; seven steps of Welford's would be a hundred
/// instructions more than three (mean and variance of 1024 columns by eight warps on an H200: 184 us beside Triton's
/// 162). With fewer lane bits each puts some together first: columns that lanes share out (those of 16 columns in 256
/// rows by 16 warps: 131 us beside Triton's 75 while every thread did all of the eight columns it has).
static unsigned laneSteps(const ir::Op &op, bool isArg, unsigned ways, unsigned available) {
  constexpr int64_t shuffle = 4, perVector = 4; // instructions, and what waiting for it is worth; parts of 32 bits
  const auto steps = static_cast<unsigned>(std::countr_zero(ways)), most = std::min(steps, available);
  if (isArg || (most == steps && ways > fewWays))
    return ways > fewWays ? most : 0;
  const auto n = static_cast<int64_t>(op.operands.size()), step = gpu::instructionsOf(op);
  auto cost = [&](unsigned lanes) {
    const int64_t each = ways >> lanes;
    return (each - 1) * step + n * std::max<int64_t>(1, each / perVector) + lanes * (step + n * shuffle);
  };
  if (most == steps)
    return cost(0) <= cost(most) ? 0 : most;
  unsigned best = 0;
  for (unsigned lanes = 1; lanes <= most; ++lanes)
    if (cost(lanes) < cost(best))
      best = lanes;
  return best;
}

/// Every warp that shares a result leaves its part in shared memory; every warp puts all parts together, so that one
/// barrier is enough. Slot of a part: (row-major index of the result) * (warps along the axis) + which of them.
void Lowering::Reductions::reduceWarps(const Op &op, const MaybeArg &arg, llvm::SmallVectorImpl<Regs> &parts) {
  const ir::Type &t = op.operands[0]->type;
  const LinearLayout &l = m_.layoutOf(t);
  auto axis = static_cast<unsigned>(op.axis());
  uint32_t warpBits = bitsAlong(l, Dim::Warp, axis);
  unsigned ways = 1u << std::popcount(warpBits);
  // Which of the ways: the selected bits of the warp index, packed.
  V way = b_.getInt32(0);
  unsigned to = 0;
  for (uint32_t bits = warpBits; bits; bits &= bits - 1, ++to)
    way = b_.CreateOr(way, b_.CreateShl(b_.CreateAnd(b_.CreateLShr(frame_.warp_, std::countr_zero(bits)), 1), to));
  // Result index contributed by the thread, and by each part's registers.
  uint64_t mask;
  V thread = frame_.gatherBits(l, [&](uint64_t flat) {
    uint64_t clean = flat; // bits along the axis fall away
    return l.outs().part(flat, layout::tensorDim(axis)) ? uint64_t{0} : withoutAxis(clean, t.shape, axis);
  }, mask);
  std::map<uint64_t, unsigned> order;
  for (unsigned r = 0; r < registersOf(t); ++r)
    order.try_emplace(withoutAxis(l.apply(r), t.shape, axis), 0);
  V owns = frame_.ownsElements(t.layout);
  if (uint32_t lanes = bitsAlong(l, Dim::Lane, axis))
    owns = frame_.conjunction(owns, b_.CreateICmpEQ(b_.CreateAnd(frame_.lane_, lanes), b_.getInt32(0)));
  std::vector<uint64_t> base = exchangedParts(m_, op);
  V memory = frame_.scratch(op);
  auto address = [&](uint64_t image, size_t k, V way) {
    unsigned bytes = op.operands[k]->type.isPtr ? 8 : ir::byteWidth(op.operands[k]->type.elem);
    V slot = b_.CreateAdd(b_.CreateMul(frame_.combineIndex(thread, mask, image), b_.getInt32(ways)), way);
    return b_.CreateAdd(frame_.sharedAt(memory, slot, bytes), b_.getInt32(static_cast<uint32_t>(base[k])));
  };
  size_t p = 0;
  for (auto &[image, unused] : order) {
    for (size_t k = 0; k < op.operands.size(); ++k)
      frame_.storeElement(address(image, k, way), parts[p][k], op.operands[k]->type, owns);
    ++p;
  }
  frame_.barrier();
  p = 0;
  constexpr uint32_t allLanes = NvTarget::lanes - 1;
  // lanes that differ in these want the same result
  const uint32_t alike = (bitsAlong(l, Dim::Lane, axis) | static_cast<uint32_t>(l.freeMask(Dim::Lane))) & allLanes;
  const unsigned steps = laneSteps(op, arg.has_value(), ways, static_cast<unsigned>(std::popcount(alike)));
  uint32_t lanes = 0;
  V at = b_.getInt32(0);
  for (uint32_t bits = alike; static_cast<unsigned>(std::popcount(lanes)) < steps; bits &= bits - 1) {
    const auto to = static_cast<unsigned>(std::popcount(lanes)), from = static_cast<unsigned>(std::countr_zero(bits));
    lanes |= bits & -bits;
    at = lanes == (2u << to) - 1
             ? b_.CreateAnd(frame_.lane_, lanes)
             : b_.CreateOr(at, b_.CreateShl(b_.CreateAnd(b_.CreateLShr(frame_.lane_, from), 1), to));
  }
  const unsigned each = ways >> steps;
  at = each == 1 ? at : b_.CreateMul(at, b_.getInt32(each));
  for (auto &[image, unused] : order)
    parts[p++] = partsOfLanes(op, arg, each, lanes, alike == allLanes, [&](size_t k, unsigned w) {
      return address(image, k, b_.CreateAdd(at, b_.getInt32(w)));
    });
}

/// All parts of a result that warps have left, as vectors.
llvm::SmallVector<Regs, 16> Lowering::Reductions::loadParts(const Op &op, unsigned ways,
                                                            llvm::function_ref<V(size_t k, unsigned way)> address) {
  llvm::SmallVector<Regs, 16> all(ways);
  for (size_t k = 0; k < op.operands.size(); ++k) {
    const ir::Type &part = op.operands[k]->type;
    unsigned vec = std::min(ways, 16 / (part.isPtr ? 8 : ir::byteWidth(part.elem)));
    llvm::Type *memory = frame_.memType(part.scalarType());
    for (unsigned w = 0; w < ways; w += vec) {
      V got = in_->loadShared(address(k, w), vec == 1 ? memory : llvm::FixedVectorType::get(memory, vec));
      for (unsigned i = 0; i < vec; ++i)
        all[w + i].push_back(frame_.fromMemory(vec == 1 ? got : b_.CreateExtractElement(got, i), part));
    }
  }
  return all;
}

/// Every lane reads `each` parts, puts them together, and the warp exchanges them. A vector read by all lanes moves 512
/// bytes, which takes four times as long as a shuffle: 16 warps that read 16 parts each would wait 256 cycles for
/// shared memory.
Regs Lowering::Reductions::partsOfLanes(const Op &op, const MaybeArg &arg, unsigned each, uint32_t lanes, bool repeat,
                                        llvm::function_ref<V(size_t k, unsigned way)> address) {
  llvm::SmallVector<Regs, 16> all = loadParts(op, each, address);
  V found = nullptr;
  if (arg)
    return winner(op, *arg, all, lanes, repeat, found);
  Regs sum = reducePairs(op, all);
  return lanes ? acrossLanes(op, arg, std::move(sum), lanes, repeat) : sum;
}

void Lowering::Reductions::scan(const Op &op) {
  const ir::Type &t = op.operands[0]->type;
  const LinearLayout &l = m_.layoutOf(t);
  auto axis = static_cast<unsigned>(op.axis());
  bool reverse = op.reverse();
  size_t n = op.operands.size();
  unsigned laneBits = static_cast<unsigned>(std::popcount(bitsAlong(l, Dim::Lane, axis)));
  unsigned warpBits = static_cast<unsigned>(std::popcount(bitsAlong(l, Dim::Warp, axis)));
  unsigned perThread = static_cast<unsigned>(t.shape[axis]) >> (laneBits + warpBits);
  V laneAt = b_.CreateAnd(frame_.lane_, (1u << laneBits) - 1),
    warpAt = b_.CreateAnd(frame_.warp_, (1u << warpBits) - 1);
  auto ordered = [&](Regs older, Regs newer) { return combine(op, older, newer); };
  auto first = [&](V at, unsigned distance, unsigned bits) { // has a predecessor at this distance
    return reverse ? b_.CreateICmpULT(b_.CreateAdd(at, b_.getInt32(distance)), b_.getInt32(1u << bits))
                   : b_.CreateICmpUGE(at, b_.getInt32(distance));
  };
  std::vector<Regs> out(n, Regs(registersOf(t), nullptr));
  unsigned groups = registersOf(t) / perThread;
  std::vector<Regs> totals(groups), inclusive(groups), before(groups);
  V hasBefore = nullptr;
  auto at = [&](unsigned g, unsigned i) { return g * perThread + (reverse ? perThread - 1 - i : i); };
  for (unsigned g = 0; g < groups; ++g) {
    Regs sum;
    for (unsigned i = 0; i < perThread; ++i) {
      Regs x;
      for (const Value *v : op.operands)
        x.push_back(get(v)[at(g, i)]);
      sum = i ? ordered(sum, x) : x;
      for (size_t k = 0; k < n; ++k)
        out[k][at(g, i)] = sum[k];
    }
    totals[g] = inclusive[g] = sum;
    ShuffleMode towards = reverse ? ShuffleMode::Down : ShuffleMode::Up;
    for (unsigned d = 0; d < laneBits; ++d) {
      Regs other;
      for (V x : inclusive[g])
        other.push_back(frame_.shuffle(towards, x, b_.getInt32(1u << d)));
      inclusive[g] = select(first(laneAt, 1u << d, laneBits), ordered(other, inclusive[g]), inclusive[g]);
    }
    if (laneBits) {
      for (V x : inclusive[g])
        before[g].push_back(frame_.shuffle(towards, x, b_.getInt32(1)));
      hasBefore = first(laneAt, 1, laneBits);
    }
  }
  if (warpBits) {
    // Totals of the warps, combined in order up to this warp.
    unsigned ways = 1u << warpBits;
    std::vector<uint64_t> base = exchangedParts(m_, op);
    uint64_t mask;
    V thread = frame_.gatherBits(l, [&](uint64_t flat) {
      return l.outs().part(flat, layout::tensorDim(axis)) ? uint64_t{0} : withoutAxis(flat, t.shape, axis);
    }, mask);
    V memory = frame_.scratch(op);
    auto address = [&](unsigned g, size_t k, V way) {
      uint64_t image = withoutAxis(l.apply(g * perThread), t.shape, axis);
      V slot = b_.CreateAdd(b_.CreateMul(frame_.combineIndex(thread, mask, image), b_.getInt32(ways)), way);
      return b_.CreateAdd(frame_.sharedAt(memory, slot, ir::byteWidth(op.operands[k]->type.elem)),
                          b_.getInt32(static_cast<uint32_t>(base[k])));
    };
    V last = b_.CreateICmpEQ(laneAt, b_.getInt32(reverse ? 0 : (1u << laneBits) - 1));
    V owns = frame_.conjunction(frame_.ownsElements(t.layout), last);
    for (unsigned g = 0; g < groups; ++g)
      for (size_t k = 0; k < n; ++k)
        frame_.storeElement(address(g, k, warpAt), inclusive[g][k], op.operands[k]->type, owns);
    frame_.barrier();
    V hasWarp = first(warpAt, 1, warpBits);
    for (unsigned g = 0; g < groups; ++g) {
      Regs sum;
      const llvm::SmallVector<Regs, 16> all =
          loadParts(op, ways, [&](size_t k, unsigned w) { return address(g, k, b_.getInt32(w)); });
      for (unsigned i = 0; i + 1 < ways; ++i) {
        unsigned w = reverse ? ways - 1 - i : i;
        const Regs &x = all[w];
        V earlier = reverse ? b_.CreateICmpUGT(b_.getInt32(w), warpAt) : b_.CreateICmpULT(b_.getInt32(w), warpAt);
        sum = sum.empty() ? x : select(earlier, ordered(sum, x), sum);
      }
      before[g] = before[g].empty() ? sum
                                    : select(hasWarp, select(hasBefore, ordered(sum, before[g]), sum), before[g]);
    }
    hasBefore = hasBefore ? b_.CreateOr(hasBefore, hasWarp) : hasWarp;
  }
  for (unsigned g = 0; hasBefore && g < groups; ++g)
    for (unsigned i = 0; i < perThread; ++i) {
      Regs x;
      for (size_t k = 0; k < n; ++k)
        x.push_back(out[k][at(g, i)]);
      Regs with = select(hasBefore, ordered(before[g], x), x);
      for (size_t k = 0; k < n; ++k)
        out[k][at(g, i)] = with[k];
    }
  for (size_t k = 0; k < n; ++k)
    set(op.results[k], std::move(out[k]));
}

} // namespace tegula::nvidia
