// The rest of a row: trips of the innermost loop all of whose elements are masked off. A row of 777 elements in a block
// of 1024 has seven such trips for each trip at its edge.
//
// After the end of a row nothing is stored, and all elements have one value, computed from the defaults of masked loads
// and selects and from values that are invariant along the row.
// So the masked loop ends with the first trip whose last element is after the end, if further such values leave
// reductions unchanged: an extremum is the same for one as for many; a sum requires zero (tested on the computed value,
// as `0 * scale` may be NaN). Stores fill buffers with the value, and buffers of scans with their final value.
#include "targets/cpu/emit/Emitter.h"

namespace tegula::cpu {
using ir::Op;
using ir::OpKind;
using V = llvm::Value *;

// The trip from whose last element on the mask, needed at `at`, is false to the end of the inner loop: i64; null if not
// known.
V FunctionEmitter::falseFrom(const ir::Value *mask, const Bits &at, unsigned &budget) {
  const NestState &n = *nest_;
  if (!mask->def || !mask->type.isTensor() || !budget)
    return nullptr;
  --budget;
  if (auto known = n.falseFrom.find(mask); known != n.falseFrom.end())
    return n.assumed.at(mask) == at ? known->second : nullptr;
  const Op &op = *mask->def;
  if (plan_.bufferFor(mask) >= 0 || !(op.kind == OpKind::And || isView(op)))
    return nullptr;
  V from = nullptr;
  for (unsigned i = 0; i < op.operands.size(); ++i)
    if (V one = falseFrom(op.operands[i], operandBits(op, i, mask->index, at), budget))
      from = from && from != one ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, from, one) : one;
  return from;
}

// Is `v`, needed at `at`, one value after the end of the row? The end is that of all masks this depends on, which are
// added to `rest`.
bool FunctionEmitter::sameBehind(const ir::Value *v, const Bits &at, Rest &rest) {
  const NestState &n = *nest_;
  auto varies = [&](BitSource s) { return n.isInRow(s); };
  if (!v->type.isTensor() || llvm::none_of(at, varies))
    return true;
  if (!v->def || v->type.isPtr || !rest.budget)
    return false;
  --rest.budget;
  const Op &op = *v->def; // what a buffer holds is what it says, too
  auto same = [&](unsigned i) { return sameBehind(op.operands[i], operandBits(op, i, v->index, at), rest); };
  auto masked = [&](const ir::Value *mask, const Bits &where) {
    V from = falseFrom(mask, where, rest.budget);
    if (from && llvm::is_contained(rest.masks, from))
      return true;
    if (from) {
      rest.masks.push_back(from);
      rest.from = rest.from ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, rest.from, from) : from;
    }
    return from != nullptr;
  };
  switch (op.kind) {
  case OpKind::Const: case OpKind::Splat:
    return true;
  case OpKind::Load:
    return op.operands.size() > 1 && masked(op.operands[1], at) &&
           (op.operands.size() < 3 || sameBehind(op.operands[2], at, rest));
  case OpKind::Select:
    if (op.operands[0]->type.isTensor() && masked(op.operands[0], operandBits(op, 0, v->index, at)))
      return same(2);
    break;
  case OpKind::And: case OpKind::CmpI:
    if (v->type.elem == ir::Elem::I1 && masked(v, at))
      return true;
    break;
  default:
    break;
  }
  // What several values are put together into (join, cat) is as many values.
  if (!op.has(ir::traits::Elementwise) && !(op.has(ir::traits::Shape) && op.operands.size() == 1))
    return false;
  for (unsigned i = 0; i < op.operands.size(); ++i)
    if (!same(i))
      return false;
  return true;
}

/// What a reduction takes any number of: one element again (any value is), or only a certain number.
enum class Repeats : uint8_t { No, Any, Zero, One };
static Repeats repeatsOf(OpKind kind) {
  switch (kind) {
  case OpKind::And: case OpKind::Or: case OpKind::SMax: case OpKind::SMin: case OpKind::UMax: case OpKind::UMin:
  case OpKind::MaxNum: case OpKind::MinNum: case OpKind::Maximum: case OpKind::Minimum:
    return Repeats::Any;
  case OpKind::Add: case OpKind::FAdd: case OpKind::Xor:
    return Repeats::Zero;
  case OpKind::Mul: case OpKind::FMul:
    return Repeats::One;
  default:
    return Repeats::No;
  }
}

/// The operand that `r` adds to the buffer which it writes, element by element; null: it does something else.
const ir::Value *FunctionEmitter::addedInPlace(const Root &r) const {
  const Op *op = r.value->def;
  if (!r.makes || !op || (op->kind != OpKind::FAdd && op->kind != OpKind::Add))
    return nullptr;
  for (unsigned i = 0; i < 2; ++i)
    if (plan_.bufferFor(op->operands[i]) == r.buffer && op->operands[i] != r.value)
      return op->operands[1 - i];
  return nullptr;
}

// May the loop under masks of this nest end with the row? Then `NestState::restFrom` says where.
void FunctionEmitter::findRest() {
  NestState &n = *nest_;
  n.restFrom = nullptr;
  if (n.panel || n.leftRows || n.leftDepth || n.tileDepth || n.copyFrom >= 0 || n.falseFrom.empty())
    return;
  Rest rest;
  bool apart = false; // bits of a trip are beside the axis that is reduced
  if (n.nest->axis >= 0) {
    const unsigned from = dimOffset(n.nest->space, static_cast<unsigned>(n.nest->axis)),
                   bits = dimBits(n.nest->space, static_cast<unsigned>(n.nest->axis));
    for (unsigned i = 0; i < n.loopOf.size(); ++i)
      apart |= n.loopOf[i] < 0 && (i < from || i >= from + bits);
  }
  const Bits space = spaceBits();
  for (const Root &r : n.nest->roots) {
    bool ends = false;
    switch (r.kind) {
    case RootKind::Update:
      if (plan_.bufferFor(r.op->results[0]) >= 0) // every element's old value is kept
        break;
      [[fallthrough]];
    case RootKind::Store: case RootKind::Histogram:
      if (const unsigned mask = r.kind == RootKind::Histogram ? 1 : 2;
          V from = r.op->operands.size() > mask ? falseFrom(r.op->operands[mask], space, rest.budget) : nullptr) {
        ends = true;
        rest.from =
            rest.from && rest.from != from ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, rest.from, from) : from;
        rest.masks.push_back(from);
      }
      break;
    case RootKind::Reduce:
      ends = r.op->operands.size() == 1 && identity(*r.op, 0) &&
             repeatsOf(r.op->regions[0]->block->ops[0]->kind) != Repeats::No &&
             sameBehind(r.op->operands[0], space, rest);
      break;
    case RootKind::Scan: // goes on with what it has come to
      ends = r.op->operands.size() == 1 && identity(*r.op, 0) &&
             repeatsOf(r.op->regions[0]->block->ops[0]->kind) != Repeats::No &&
             sameBehind(r.op->operands[0], space, rest);
      break;
    case RootKind::Materialize:
      if (const ir::Value *added = r.buffer >= 0 ? addedInPlace(r) : nullptr)
        ends = sameBehind(added, space, rest);
      else
        ends = r.buffer < 0 || sameBehind(r.value, space, rest);
      break;
    default:
      break;
    }
    if (!ends)
      return;
  }
  n.restFrom = n.restFromVector = rest.from;
  if (rest.from && n.inVectors)
    n.restFrom = b_.CreateLShr(rest.from, n.unrolled.size());
  // Where the elements of a trip go into results of their own, each of these has to take the value once: in the trip
  // after, all elements are behind the end.
  if (rest.from && apart) {
    n.restFrom = b_.CreateAdd(n.restFrom, b_.getInt64(1));
    n.restFromVector = b_.CreateAdd(n.restFromVector, b_.getInt64(1));
  }
}

// Of a nest that reads buffers alone: that many trips are before the end of a row that was loaded under a mask. Null if
// it says nothing of where the nest may end.
V FunctionEmitter::endOfBuffers(NestLoop &l, V trips) {
  NestState &n = *nest_;
  auto parts = n.ofTrip; // of addresses without masks, which runs go by, too
  V full = fullTrips(&l, l.bits, true);
  if (!full) {
    n.ofTrip = std::move(parts);
    return nullptr;
  }
  findRest();
  if (!n.restFrom)
    return fullTrips(&l, l.bits);
  return llvm::isa<llvm::Constant>(trips) ? full : b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, full, trips);
}

// i1, at the end of a trip under masks: what follows is the rest of the row, and it changes nothing. Buffers have been
// filled then.
V FunctionEmitter::endOfRow(V trips) {
  NestState &n = *nest_;
  NestLoop &l = n.loops.back();
  const Bits last = rootBits((1u << n.unrolled.size()) - 1);
  auto behind = [&](const ir::Value *v) {
    V x = eval(v, last);
    return x->getType()->isVectorTy() ? b_.CreateExtractElement(x, n.lanes() - 1) : x;
  };
  auto equals = [&](V x, int number) {
    if (x->getType()->isFloatingPointTy())
      return b_.CreateFCmpOEQ(x, llvm::ConstantFP::get(x->getType(), number));
    return b_.CreateICmpEQ(x, llvm::ConstantInt::get(x->getType(), static_cast<uint64_t>(number)));
  };
  V ends = b_.CreateICmpSGE(l.iv, n.restFrom, "ends");
  struct Filled {
    const ir::Value *value;
    int buffer;
    V x;
  };
  llvm::SmallVector<Filled, 4> filled;
  for (const Root &r : n.nest->roots) {
    if (r.kind == RootKind::Reduce || r.kind == RootKind::Scan) {
      const Repeats repeats = repeatsOf(r.op->regions[0]->block->ops[0]->kind);
      if (repeats != Repeats::Any)
        ends = b_.CreateAnd(ends, equals(behind(r.op->operands[0]), repeats == Repeats::One));
      if (r.kind == RootKind::Scan) {
        const ir::Value *result = r.op->results[0];
        const int buffer = plan_.bufferFor(result);
        filled.push_back({result, buffer, lastScanned(b_, n, *r.op, loadBuffer(buffer, result->type, last))});
      }
    } else if (r.kind == RootKind::Materialize && r.buffer >= 0) {
      if (const ir::Value *added = addedInPlace(r))
        ends = b_.CreateAnd(ends, equals(behind(added), 0));
      else
        filled.push_back({r.value, r.buffer, broadcast(behind(r.value), n.lanes())});
    }
  }
  if (filled.empty())
    return ends;
  auto *fill = llvm::BasicBlock::Create(context_, "fill", function_),
       *each = llvm::BasicBlock::Create(context_, "fill.trip", function_);
  auto *on = llvm::BasicBlock::Create(context_, "filled", function_);
  V iv = l.iv, next = b_.CreateAdd(iv, b_.getInt64(1));
  b_.CreateCondBr(b_.CreateAnd(ends, b_.CreateICmpSLT(next, trips)), fill, on);
  b_.SetInsertPoint(fill);
  b_.CreateBr(each);
  b_.SetInsertPoint(each);
  llvm::PHINode *trip = b_.CreatePHI(b_.getInt64Ty(), 2, "i");
  trip->addIncoming(next, fill);
  auto addresses = std::move(n.addressMemo.back());
  n.addressMemo.back().clear();
  l.iv = trip;
  for (unsigned copy = 0; copy < 1u << n.unrolled.size(); ++copy)
    for (const Filled &f : filled)
      storeBuffer(f.buffer, f.x, f.value->type, rootBits(copy), true);
  l.iv = iv;
  n.addressMemo.back() = std::move(addresses);
  V step = b_.CreateAdd(trip, b_.getInt64(1));
  trip->addIncoming(step, b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpSLT(step, trips), each, on);
  b_.SetInsertPoint(on);
  return ends;
}

// One trip: all masks hold in it (`full` is not 0), or it runs masked. All loops are open already, so each version
// computes the values that would be hoisted before them, under its own assumptions: a vector that all rows are
// multiplied by is loaded without its mask.
void FunctionEmitter::insideOrMasked(V full, llvm::function_ref<void()> body) {
  NestState &n = *nest_;
  auto *fast = llvm::BasicBlock::Create(context_, "inside", function_),
       *slow = llvm::BasicBlock::Create(context_, "masked", function_),
       *exit = llvm::BasicBlock::Create(context_, "done", function_);
  b_.CreateCondBr(b_.CreateICmpSGT(full, b_.getInt64(0)), fast, slow);
  n.oneTrip = true;
  for (bool inside : {true, false}) {
    b_.SetInsertPoint(inside ? fast : slow);
    n.assuming = inside;
    const auto memo = n.memo;
    const auto addresses = n.addressMemo;
    const auto loops = n.loops;
    auto *once = llvm::BasicBlock::Create(context_, "once", function_);
    llvm::Instruction *front = b_.CreateBr(once);
    b_.SetInsertPoint(once);
    for (NestLoop &l : n.loops)
      l.hoist = front;
    if (inside && !n.underMask)
      body();
    else
      apart(body);
    n.loops = loops;
    n.memo = memo;
    n.addressMemo = addresses;
    b_.CreateBr(exit);
  }
  n.assuming = n.oneTrip = false;
  b_.SetInsertPoint(exit);
}

} // namespace tegula::cpu
