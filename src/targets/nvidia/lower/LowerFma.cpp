// Dot products by multiply-adds. Small ones take their operands from registers, one instruction after the other. Large
// ones are a loop over the contraction that reads a few of its steps at a time from tiles in shared memory
// (DotChoice::readsTiles): the text then does not grow with K, and a thread holds the operands of one round instead of
// all. Rows and columns stay unrolled, as accumulators have to be registers.
#include "targets/nvidia/DotChoice.h"
#include "targets/nvidia/lower/LowerPart.h"
#include <algorithm>

namespace tegula::nvidia {

using ir::Elem;
using layout::Dim;

/// Elements as they are multiplied and summed: integers in 32 bits, narrow floats in float (both exact products).
struct Lowering::Fma : Part {
  using Part::Part;
  Regs fma(const Op &op), fmaLoop(const Op &op);
  std::vector<Regs> fmaElements(const struct FmaTile &tile, const Value *operand, unsigned step, V k);
};

Regs Lowering::fma(const Op &op) { return Fma(*this).fma(op); }
Regs Lowering::fmaLoop(const Op &op) { return Fma(*this).fmaLoop(op); }

struct Lowering::FmaMath {
  Lowering &l;
  const Op &op;
  ir::Type result;
  llvm::Type *sum;
  bool isInt, isNarrow; // isNarrow: the accumulator's type is not what is summed in

  FmaMath(Lowering &lowering, const Op &dot)
      : l(lowering), op(dot), result(dot.result()->type), sum(l.regType(ir::Type::scalar(result.elem))) {
    isInt = ir::isInt(result.elem);
    isNarrow = !isInt && sum->isIntegerTy();
    if (isNarrow)
      sum = l.b_.getFloatTy();
  }
  V widen(V x, Elem e) {
    if (isInt)
      return l.b_.CreateSExtOrTrunc(x, sum);
    V w = l.vec_->widen(x, e);
    if (e == Elem::F32 && op.precision() == "tf32") // what the tensor cores see
      w = l.b_.CreateBitCast(l.b_.CreateAnd(l.bitsOf(w), l.b_.getInt32(0xFFFFE000)), w->getType());
    return w->getType() == sum ? w : l.b_.CreateFPCast(w, sum);
  }
  V multiplyAdd(V x, V y, V acc) {
    if (isInt)
      return l.b_.CreateAdd(acc, l.b_.CreateMul(x, y));
    return l.b_.CreateIntrinsic(llvm::Intrinsic::fma, {sum}, {x, y, acc});
  }
  V begin(V c) { return isNarrow ? l.vec_->widen(c, result.elem) : c; }
  V end(V acc) { return isNarrow ? l.vec_->narrow(acc, result.elem) : acc; }
};

/// A thread holds its rows of A and columns of B for all of K (layout::fmaOperand).
Regs Lowering::Fma::fma(const Op &op) {
  const ir::Type &ta = op.operands[0]->type, &tb = op.operands[1]->type, &tc = op.result()->type;
  const LinearLayout &la = m_.layoutOf(ta), &lb = m_.layoutOf(tb), &lc = m_.layoutOf(tc);
  unsigned rank = tc.shape.rank();
  auto depth = static_cast<uint64_t>(ta.shape[rank - 1]), columns = static_cast<uint64_t>(tc.shape[rank - 1]),
       rows = static_cast<uint64_t>(tc.shape[rank - 2]);
  FmaMath math(frame_, op);
  auto widened = [&](const Value *v) {
    Regs out;
    for (V x : get(v))
      out.push_back(math.widen(x, v->type.elem));
    return out;
  };
  Regs a = widened(op.operands[0]), b = widened(op.operands[1]), out;
  const Regs &c = get(op.operands[2]);
  for (unsigned r = 0; r < c.size(); ++r) {
    uint64_t flat = lc.apply(r), n = flat % columns, m = flat / columns % rows, batch = flat / columns / rows;
    auto count = static_cast<unsigned>(depth);
    Regs x = frame_.pick(a, la, count, [&](unsigned k) { return (batch * rows + m) * depth + k; });
    Regs y = frame_.pick(b, lb, count, [&](unsigned k) { return (batch * depth + k) * columns + n; });
    V acc = math.begin(c[r]);
    for (unsigned k = 0; k < count; ++k)
      acc = math.multiplyAdd(x[k], y[k], acc);
    out.push_back(math.end(acc));
  }
  return out;
}

/// Where a thread's part of an operand lies in its tile. Offsets in elements; a place is the XOR of what thread,
/// register and k contribute.
struct FmaTile {
  unsigned bits = 0;                // of an element
  layout::ThreadMap thread;
  std::vector<uint32_t> registers;  // images of the bits of the number of a row (column)
  std::vector<uint32_t> depth;      // and of k
  std::vector<uint64_t> flat;       // of `registers`: which element of the operand they select, row-major, at k = 0

  FmaTile(const LinearLayout &own, const LinearLayout &tile, const ir::Type &t, unsigned kAxis)
      : bits(8 * ir::byteWidth(t.elem)) {
    LinearLayout to = own.invertAndCompose(tile);
    for (auto [dim, images] : {std::pair(Dim::Lane, &thread.lane), std::pair(Dim::Warp, &thread.warp)})
      for (uint64_t image : to.bases(dim))
        images->push_back(static_cast<uint32_t>(image));
    for (unsigned i = 0; i < own.inBits(Dim::Register); ++i) {
      auto image = static_cast<uint32_t>(to.basis(Dim::Register, i));
      if (own.basis(Dim::Register, i, layout::tensorDim(kAxis))) {
        depth.push_back(image);
      } else {
        registers.push_back(image);
        flat.push_back(own.basis(Dim::Register, i));
      }
    }
  }
};

namespace {

uint32_t imageOf(std::span<const uint32_t> images, uint32_t index) {
  uint32_t sum = 0;
  for (size_t i = 0; i < images.size(); ++i)
    sum ^= index >> i & 1 ? images[i] : 0;
  return sum;
}

uint32_t unionOf(std::span<const uint32_t> images) {
  uint32_t all = 0;
  for (uint32_t image : images)
    all |= image;
  return all;
}

} // namespace

/// The elements of one operand for the `step` contraction indices from `k` on: [register][index].
std::vector<Regs> Lowering::Fma::fmaElements(const FmaTile &tile, const Value *operand, unsigned step, V k) {
  unsigned stepBits = layout::log2Exact(step), bytes = tile.bits / 8;
  // What varies within one round: rows, then contraction indices; and what varies between threads and rounds.
  std::vector<uint32_t> inside = tile.registers, outside;
  inside.insert(inside.end(), tile.depth.begin(), tile.depth.begin() + stepBits);
  std::vector<uint32_t> rounds(tile.depth.begin() + stepBits, tile.depth.end());
  for (std::span<const uint32_t> images :
       {std::span(tile.thread.lane), std::span(tile.thread.warp), std::span<const uint32_t>(rounds)})
    outside.insert(outside.end(), images.begin(), images.end());
  // A vector: elements whose offsets differ in the lowest bits, which nothing else touches.
  std::vector<unsigned> lanes; // bits of the number inside a round
  while ((bytes << lanes.size()) < 16) {
    uint32_t bit = 1u << lanes.size();
    auto at = std::find(inside.begin(), inside.end(), bit);
    if (at == inside.end() || unionOf(outside) & bit ||
        std::count_if(inside.begin(), inside.end(), [&](uint32_t i) { return i & bit; }) > 1)
      break;
    lanes.push_back(static_cast<unsigned>(at - inside.begin()));
  }
  uint64_t mask = 0;
  V dynamic = frame_.threadValue(tile.thread, mask);
  if (k) {
    std::vector<uint32_t> images(stepBits);
    images.insert(images.end(), rounds.begin(), rounds.end());
    dynamic = frame_.movedBits(images, k, ~0u, dynamic, mask);
  }
  unsigned count = 1u << inside.size(), width = 1u << lanes.size(), vectorBits = 0;
  for (unsigned lane : lanes)
    vectorBits |= 1u << lane;
  llvm::Type *element = b_.getIntNTy(tile.bits),
             *type = width > 1 ? llvm::FixedVectorType::get(element, width) : element;
  std::map<uint32_t, V> starts; // by the part of a constant offset that cannot simply be added
  std::vector<Regs> out(1u << tile.registers.size(), Regs(step, nullptr));
  for (unsigned i = 0; i < count; ++i) {
    if (i & vectorBits)
      continue;
    uint32_t offset = imageOf(inside, i), flipped = offset & static_cast<uint32_t>(mask), added = offset & ~flipped;
    V &start = starts[flipped];
    if (!start)
      start =
          b_.CreateAdd(scalar(operand), b_.CreateMul(flipped ? b_.CreateXor(dynamic, b_.getInt32(flipped)) : dynamic,
                                                     b_.getInt32(bytes)));
    V got = in_->loadShared(frame_.plus(start, added * bytes), type);
    for (unsigned j = 0; j < width; ++j) {
      unsigned number = i;
      for (size_t lane = 0; lane < lanes.size(); ++lane)
        number |= (j >> lane & 1) << lanes[lane];
      V x = width > 1 ? b_.CreateExtractElement(got, j) : got;
      out[number & ((1u << tile.registers.size()) - 1)][number >> tile.registers.size()] =
          frame_.fromInteger(x, ir::Type::scalar(operand->type.elem));
    }
  }
  return out;
}

/// Which registers of A's rows (or B's columns) belong to each register of the result.
static std::vector<unsigned> rowsOf(const LinearLayout &result, const FmaTile &tile, const ir::Shape &operand,
                                    bool isA) {
  unsigned rank = operand.rank();
  std::map<uint64_t, unsigned> at;
  for (unsigned r = 0; r < 1u << tile.registers.size(); ++r) {
    uint64_t flat = 0;
    for (size_t i = 0; i < tile.flat.size(); ++i)
      flat ^= r >> i & 1 ? tile.flat[i] : 0;
    at[flat] = r;
  }
  std::vector<unsigned> out;
  for (unsigned r = 0; r < 1u << result.inBits(Dim::Register); ++r) {
    uint64_t image = result.apply(r), flat = 0;
    for (unsigned d = 0; d < rank; ++d)
      flat = flat * static_cast<uint64_t>(operand[d]) +
             (d == (isA ? rank - 1 : rank - 2) ? 0 : result.outs().part(image, layout::tensorDim(d)));
    out.push_back(at.at(flat));
  }
  return out;
}

Regs Lowering::Fma::fmaLoop(const Op &op) {
  const ir::Type &ta = op.operands[0]->type, &tb = op.operands[1]->type;
  in_->setSite(frame_.siteOf(op));
  const LinearLayout &result = layoutOf(op.result());
  unsigned rank = ta.shape.rank();
  auto depth = static_cast<unsigned>(ta.shape[rank - 1]);
  FmaTile a(layout::fmaOperand(result, 0, depth), layoutOf(op.operands[0]), ta, rank - 1);
  FmaTile b(layout::fmaOperand(result, 1, depth), layoutOf(op.operands[1]), tb, rank - 2);
  std::vector<unsigned> rowOf = rowsOf(result, a, ta.shape, true), columnOf = rowsOf(result, b, tb.shape, false);
  FmaMath math(frame_, op);
  Regs acc;
  for (V x : get(op.operands[2]))
    acc.push_back(math.begin(x));
  unsigned step = fmaStep(ta, tb, static_cast<unsigned>(acc.size()));
  auto round = [&](V k) {
    auto elements = [&](const FmaTile &tile, const Value *v) {
      std::vector<Regs> all = fmaElements(tile, v, step, k);
      for (Regs &row : all)
        for (V &x : row)
          x = math.widen(x, v->type.elem);
      return all;
    };
    std::vector<Regs> x = elements(a, op.operands[0]), y = elements(b, op.operands[1]);
    for (unsigned i = 0; i < step; ++i)
      for (size_t r = 0; r < acc.size(); ++r)
        acc[r] = math.multiplyAdd(x[rowOf[r]][i], y[columnOf[r]][i], acc[r]);
  };
  if (step == depth) {
    round(nullptr);
  } else {
    llvm::BasicBlock *before = b_.GetInsertBlock(), *body = frame_.newBlock("dot"), *after = frame_.newBlock("dot.end");
    b_.CreateBr(body);
    b_.SetInsertPoint(body);
    llvm::PHINode *k = b_.CreatePHI(b_.getInt32Ty(), 2);
    llvm::SmallVector<llvm::PHINode *, 64> sums;
    for (V &x : acc) {
      sums.push_back(b_.CreatePHI(math.sum, 2));
      sums.back()->addIncoming(x, before);
      x = sums.back();
    }
    round(k);
    V next = b_.CreateAdd(k, b_.getInt32(step));
    frame_.keepRolled(b_.CreateCondBr(b_.CreateICmpULT(next, b_.getInt32(depth)), body, after));
    llvm::BasicBlock *end = b_.GetInsertBlock();
    k->addIncoming(b_.getInt32(0), before);
    k->addIncoming(next, end);
    for (size_t r = 0; r < acc.size(); ++r)
      sums[r]->addIncoming(acc[r], end);
    b_.SetInsertPoint(after);
  }
  for (V &x : acc)
    x = math.end(x);
  return acc;
}

} // namespace tegula::nvidia
