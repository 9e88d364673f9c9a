// Operations on elements, one after the other or in groups: what many registers of a thread have in common is computed
// once.
#include "gpu/LowerBound.h"
#include "passes/UniformSteps.h"
#include "passes/SignificantBits.h"
#include "targets/common/AsmText.h"
#include "targets/common/VecUtil.h"
#include "targets/nvidia/lower/LowerPart.h"
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <map>

namespace tegula::nvidia {

using ir::Elem;
using ir::OpKind;
using layout::Dim;

struct Lowering::Elementwise : Part {
  using Part::Part;
  Regs lower(const Op &op), addPointers(const Op &op);
  V element(const Op &op, llvm::ArrayRef<V> args);
  bool dividesApproximately(const Op &op) const, isStoredOnce(const Op &pointer) const,
      isTakenOneByOne(const Op &pointer) const, copiesManyMaskedRows(const Op &pointer) const;
  std::optional<Regs> divideByShared(const Op &op), divideByLarge(const Op &op), positionBits(const Op &op),
      stepPointers(const Op &op);
  struct Steps;
  Steps stepsOfBits(const UniformSteps &steps, const LinearLayout &l, bool constantsAlone);
  V accurateReciprocal(V y);
};

Regs Lowering::elementwise(const Op &op) { return Elementwise(*this).lower(op); }

V Lowering::Elementwise::element(const Op &op, llvm::ArrayRef<V> args) {
  if (op.kind == OpKind::Asm)
    return targets::emitAsm(b_, op, args, targets::AsmKind::Ptx)[0];
  const ir::Type &a = op.operands[0]->type, &r = op.result()->type;
  switch (op.kind) {
  case OpKind::AddPtr: {
    // i1 and narrower pointees are bytes in memory.
    V offset = args[1]->getType()->isIntegerTy(64) ? args[1] : b_.CreateSExt(args[1], b_.getInt64Ty());
    return b_.CreateGEP(frame_.memType(a.scalarType().isPtr ? ir::Type::scalar(a.elem) : a), args[0], offset);
  }
  case OpKind::IntToPtr:
    return b_.CreateIntToPtr(args[0], b_.getPtrTy());
  case OpKind::PtrToInt:
    return b_.CreatePtrToInt(args[0], b_.getInt64Ty());
  case OpKind::Select:
    return b_.CreateSelect(args[0], args[1], args[2]);
  case OpKind::Bitcast:
    if (a.isPtr || r.isPtr)
      return args[0];
    break;
  case OpKind::CmpI:
    if (a.isPtr)
      return vec_->elementwise(
          op, {b_.CreatePtrToInt(args[0], b_.getInt64Ty()), b_.CreatePtrToInt(args[1], b_.getInt64Ty())}, Elem::I64,
          Elem::I1);
    break;
  default:
    break;
  }
  return vec_->elementwise(op, args, a.elem, r.elem);
}

bool Lowering::Elementwise::dividesApproximately(const Op &op) const {
  return !target_.simulate && op.kind == OpKind::FDiv && op.approx() && op.result()->type.elem == Elem::F32;
}

/// x / y within 2 ulp where one y divides many elements (a row's sum): one reciprocal, then products. A division takes
/// three instructions an element, and a kernel like softmax is near the rate at which they are issued. Null if the op
/// is no such division. The simulator divides exactly, so that cases compare bits there.
std::optional<Regs> Lowering::Elementwise::divideByShared(const Op &op) {
  if (!dividesApproximately(op))
    return std::nullopt;
  const Regs &x = get(op.operands[0]), &y = get(op.operands[1]);
  llvm::DenseMap<V, V> reciprocal;
  for (V v : y)
    reciprocal[v] = nullptr;
  if (reciprocal.size() * 4 > y.size())
    return std::nullopt;
  Regs out;
  for (size_t i = 0; i < x.size(); ++i) {
    V &r = reciprocal[y[i]];
    if (!r)
      r = accurateReciprocal(y[i]);
    out.push_back(b_.CreateFMul(x[i], r));
  }
  return out;
}

/// x / y within 2 ulp where y is 1/2 or more, as 1 + exp(-x) is. A division compares |y| with 2^-126 and 2^126, scales
/// what is outside, and multiplies by a reciprocal; that of y / 4 is a normal number or that of infinity.
/// (Quotients below 2^-123 are within 2^-149.) Null if the op is no such division.
std::optional<Regs> Lowering::Elementwise::divideByLarge(const Op &op) {
  if (!dividesApproximately(op) || op.fast() || !(gpu::lowerBound(op.operands[1]) >= 0.5))
    return std::nullopt;
  const Regs &x = get(op.operands[0]), &y = get(op.operands[1]);
  V quarter = llvm::ConstantFP::get(b_.getFloatTy(), 0.25);
  const auto quarterOf = [&](V v) -> V { // of a sum with a constant in one operation
    if (auto *sum = llvm::dyn_cast<llvm::BinaryOperator>(v); sum && sum->getOpcode() == llvm::Instruction::FAdd)
      for (unsigned i : {0u, 1u})
        if (llvm::isa<llvm::ConstantFP>(sum->getOperand(i)))
          return b_.CreateIntrinsic(llvm::Intrinsic::fma, {v->getType()},
                                    {sum->getOperand(1 - i), quarter, b_.CreateFMul(sum->getOperand(i), quarter)});
    return b_.CreateFMul(v, quarter);
  };
  Regs out;
  for (size_t i = 0; i < x.size(); ++i)
    out.push_back(b_.CreateFMul(b_.CreateFMul(x[i], quarter),
                                b_.CreateIntrinsic(llvm::Intrinsic::nvvm_rcp_approx_ftz_f, {}, {quarterOf(y[i])})));
  return out;
}

/// 1 / y within 0.51 ulp, of 1 / subnormal and of subnormal results within what the instruction gives. Not the exact
/// division: the assembler makes a call of it, and a function that calls gets a third more registers.
V Lowering::Elementwise::accurateReciprocal(V y) {
  V r = in_->rcpApprox(y), one = llvm::ConstantFP::get(y->getType(), 1);
  V error = b_.CreateIntrinsic(llvm::Intrinsic::fma, {y->getType()}, {b_.CreateFNeg(y), r, one});
  V better = b_.CreateIntrinsic(llvm::Intrinsic::fma, {y->getType()}, {error, r, r});
  // Zero, infinity and NaN have an error that is none.
  V known = b_.CreateFCmpOLT(b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, error), one);
  return b_.CreateSelect(known, better, r);
}

/// For each register of `v` the first one that must hold the same value, by the axis facts; empty if nothing is known.
/// A mask of a row whose length 16 divides is so computed once per vector.
llvm::SmallVector<unsigned, 16> Lowering::equalRegisters(const Value *v) {
  if (v->type.isScalar())
    return {};
  if (!facts_)
    facts_.emplace(*source_);
  const ValueFacts &f = facts_->of(v);
  if (llvm::none_of(f.axes, [](const AxisFact &a) { return a.constancy > 1; }))
    return {};
  const LinearLayout &l = layoutOf(v);
  llvm::SmallVector<unsigned, 16> first;
  std::map<std::vector<uint64_t>, unsigned> groups;
  for (unsigned r = 0; r < registersOf(v->type); ++r) {
    // Coordinates are thread part XOR register part, so equal register parts above the group's bits mean one group in
    // every thread.
    std::vector<uint64_t> group;
    for (unsigned d = 0; d < f.axes.size(); ++d)
      group.push_back(l.outs().part(l.apply(r), layout::tensorDim(d)) / static_cast<uint64_t>(f.axes[d].constancy));
    first.push_back(groups.try_emplace(std::move(group), r).first->second);
  }
  return first;
}

/// Registers with consecutive elements, from the first on.
static unsigned consecutiveRegisters(const LinearLayout &l) {
  unsigned bits = 0;
  while (bits < l.inBits(Dim::Register) && l.basis(Dim::Register, bits) == l.basis(Dim::Register, 0) << bits &&
         l.basis(Dim::Register, bits))
    ++bits;
  return 1u << bits;
}

/// Addresses that loops step through are better kept as they are: rows in front, one offset for all inside.
bool Lowering::Elementwise::isStoredOnce(const Op &pointer) const {
  const Op *only = nullptr; // user in the same block
  for (const Op *user : frame_.users_.of(pointer.result()))
    if (user->parent == pointer.parent && std::exchange(only, user))
      return false;
  return only && only->kind == OpKind::Store && only->operands[0] == pointer.result();
}

/// Does an access take the elements at these addresses one by one?
bool Lowering::Elementwise::isTakenOneByOne(const Op &pointer) const {
  return std::ranges::any_of(frame_.users_.of(pointer.result()), [&](const Op *user) {
    return (user->kind == OpKind::Load || user->kind == OpKind::Store) && user->operands[0] == pointer.result() &&
           user->get(ir::attr::vec, 1) == 1;
  });
}

/// base + a[r] + b[r] where fewer b than a differ (rows of a tile and their first column): base + b is one sum for many
/// registers then, and adding a row's offset to it is the instruction that multiplies with the size of an element. Only
/// the first of `lanes` consecutive elements counts; the others' addresses are not used.
static bool addsOffsetsFirst(const Regs &pointers, const Regs &offsets, unsigned lanes) {
  llvm::SmallPtrSet<V, 16> a, b;
  for (size_t r = 0; r < pointers.size(); r += lanes) {
    auto *gep = llvm::dyn_cast<llvm::GetElementPtrInst>(pointers[r]);
    if (!gep || gep->getNumIndices() != 1)
      return false;
    a.insert(gep->getOperand(1));
    b.insert(offsets[r]);
  }
  return b.size() < a.size();
}

Regs Lowering::Elementwise::addPointers(const Op &op) {
  const Regs &pointers = get(op.operands[0]), &offsets = get(op.operands[1]);
  Regs out;
  std::map<std::pair<V, V>, V> sums;
  for (size_t r = 0; r < pointers.size(); ++r) {
    auto *gep = llvm::dyn_cast<llvm::GetElementPtrInst>(pointers[r]);
    if (!gep) { // not one of those that count
      out.push_back(element(op, {pointers[r], offsets[r]}));
      continue;
    }
    V &sum = sums[{gep->getPointerOperand(), offsets[r]}];
    if (!sum)
      sum = element(op, {gep->getPointerOperand(), offsets[r]});
    out.push_back(b_.CreateGEP(gep->getSourceElementType(), sum, gep->getOperand(1)));
  }
  return out;
}

/// Of each bit of a register's number: what it adds to an address, in elements. Null for nothing.
struct Lowering::Elementwise::Steps {
  llvm::SmallVector<V, 8> ofBit;
  unsigned known = 0; // the bits of which that is known
};

Lowering::Elementwise::Steps Lowering::Elementwise::stepsOfBits(const UniformSteps &steps, const LinearLayout &l,
                                                                bool constantsAlone) {
  Steps out;
  uint64_t once = 0, twice = 0; // bits of coordinates that inputs reach
  for (Dim d : {Dim::Register, Dim::Lane, Dim::Warp})
    for (unsigned b = 0; b < l.inBits(d); ++b) {
      twice |= once & l.basis(d, b);
      once |= l.basis(d, b);
    }
  for (unsigned b = 0; b < l.inBits(Dim::Register); ++b) {
    V sum = nullptr;
    bool isKnown = !(l.basis(Dim::Register, b) & twice);
    for (unsigned d = 0; isKnown && d < steps.axes.size(); ++d) {
      const UniformStep &s = steps.axes[d];
      const auto coordinate = static_cast<int64_t>(l.basis(Dim::Register, b, layout::tensorDim(d)));
      isKnown = !coordinate || (s.isKnown && !(constantsAlone && s.scalar));
      if (!isKnown || !(coordinate * s.constant))
        continue;
      V constant = b_.getInt64(static_cast<uint64_t>(coordinate * s.constant));
      V part = s.scalar ? b_.CreateMul(b_.CreateSExt(get(s.scalar)[0], b_.getInt64Ty()), constant) : constant;
      sum = sum ? b_.CreateAdd(sum, part) : part;
    }
    out.ofBit.push_back(isKnown ? sum : nullptr);
    out.known |= unsigned{isKnown} << b;
  }
  return out;
}

/// Would a producer's threads spill with an address for each row that they copy? They have 88 registers: 16 addresses
/// for each of two tiles take 64, and masks of rows need the rest. Steps cost multiplications, which the assembler puts
/// into the loop, where they take issue slots of the warps that compute: without masks, or with half the rows,
/// 0.90-1.09 of the speed (H200), with both 1.00-1.27.
bool Lowering::Elementwise::copiesManyMaskedRows(const Op &pointer) const {
  constexpr unsigned many = 16;
  const ir::Region *r = pointer.parent->parent;
  while (r && r->op && r->op->kind != OpKind::Partitions)
    r = r->op->parent->parent;
  if (!r || !r->op || r == r->op->regions.front())
    return false;
  return llvm::any_of(frame_.users_.of(pointer.result()), [&](const Op *user) {
    return user->kind == OpKind::AsyncCopy && user->operands.size() > 2 &&
           registersOf(pointer.result()->type) >= many * static_cast<unsigned>(user->vec());
  });
}

/// Addresses by additions from others of the thread. All from the first register's, where they are computed in 64 bits,
/// as a product and an extension for each row are some seven instructions and this is two, and those of vectors along a
/// line, as what they lie apart is an offset of the access, and one address takes the registers of all (single elements
/// of odd rows gained nothing by it, on an H200). Of tiles with several rows in a thread that are accessed element by
/// element those of a row, where they lie constants apart: else each access waits until the one before has read the
/// pair of registers that the next address goes to. Null where steps are not known, or a register's place is no sum of
/// bits.
std::optional<Regs> Lowering::Elementwise::stepPointers(const Op &op) {
  const ir::Type &t = op.result()->type;
  const unsigned n = registersOf(t);
  if (op.kind != OpKind::AddPtr || t.isScalar() || n == 1)
    return std::nullopt;
  const bool inProducer = t.shape.rank() == 2 && copiesManyMaskedRows(op);
  const UniformSteps steps = uniformSteps(op.result(), inProducer);
  const LinearLayout &l = layoutOf(op.result());
  const bool isLine = steps.axes.size() == 1, areVectors = isLine && steps.axes[0].isKnown && !steps.axes[0].scalar &&
                                                           steps.axes[0].constant == 1 &&
                                                           l.basis(Dim::Register, 0) == 1;
  const bool all = steps.allKnown() && (steps.isWide || areVectors || inProducer);
  if (!all && (isLine || !isTakenOneByOne(op)))
    return std::nullopt;
  const Steps step = stepsOfBits(steps, l, !all);
  if (all ? step.known != n - 1 : step.known == 0)
    return std::nullopt;
  llvm::Type *pointee = frame_.memType(ir::Type::scalar(t.elem));
  Regs out;
  for (unsigned r = 0; r < n; ++r) {
    if (!(r & step.known)) {
      out.push_back(element(op, {get(op.operands[0])[r], get(op.operands[1])[r]}));
      continue;
    }
    // Constants last, where they are offsets of the access itself.
    unsigned bit = llvm::countr_zero(r & step.known);
    for (unsigned b = 0; b < step.ofBit.size(); ++b)
      if (r >> b & 1 && step.ofBit[b] && llvm::isa<llvm::ConstantInt>(step.ofBit[b]))
        bit = b;
    V from = out[r & ~(1u << bit)];
    out.push_back(step.ofBit[bit] ? b_.CreateGEP(pointee, from, step.ofBit[bit]) : from);
  }
  return out;
}

/// Bits of an element's position: a constant for each register, and what the thread adds. Steps of a sort ask for many
/// of them in every register.
std::optional<Regs> Lowering::Elementwise::positionBits(const Op &op) {
  if (op.kind != OpKind::And && op.kind != OpKind::LShr && op.kind != OpKind::AShr && op.kind != OpKind::Xor)
    return std::nullopt;
  if (op.result()->type.isScalar() || op.result()->type.elem != ir::Elem::I32 || !frame_.indexBits_.of(op.result()))
    return std::nullopt;
  const gpu::BitMap &bits = *frame_.indexBits_.of(op.result());
  const LinearLayout &l = layoutOf(op.result());
  uint64_t mask;
  V thread = frame_.gatherBits(l, [&](uint64_t flat) { return bits.imageOf(flat); }, mask);
  std::map<uint32_t, V> made;
  Regs out;
  for (unsigned r = 0; r < registersOf(op.result()->type); ++r) {
    uint32_t constant = bits.constant ^ bits.imageOf(l.apply(r));
    V &v = made[constant];
    if (!v)
      v = mask ? frame_.combineIndex(thread, mask, constant) : b_.getInt32(constant);
    out.push_back(v);
  }
  return out;
}

Regs Lowering::Elementwise::lower(const Op &op) {
  if (std::optional<Regs> bits = positionBits(op))
    return *bits;
  if (std::optional<Regs> addresses = stepPointers(op))
    return *addresses;
  if (std::optional<Regs> quotients = divideByShared(op))
    return *quotients;
  if (std::optional<Regs> quotients = divideByLarge(op))
    return *quotients;
  if (std::optional<Regs> words = frame_.inWords(op))
    return *words;
  if (std::optional<Regs> waves = frame_.sineOrCosine(op))
    return *waves;
  if (std::optional<Regs> quotients = frame_.divideWide(op))
    return *quotients;
  Regs out;
  unsigned n = registersOf(op.result()->type);
  llvm::SmallVector<const Regs *, 3> in;
  for (const Value *v : op.operands)
    in.push_back(&get(v));
  if (op.kind == OpKind::AddPtr && n > 1 && isStoredOnce(op) &&
      addsOffsetsFirst(*in[0], *in[1], consecutiveRegisters(m_.layoutOf(op.result()->type))))
    return addPointers(op);
  llvm::SmallVector<unsigned, 16> equal = frame_.equalRegisters(op.result());
  bool isDisjoint = addsDisjointBits(op);
  for (unsigned i = 0; i < n; ++i) {
    if (!equal.empty() && equal[i] != i) {
      out.push_back(V(out[equal[i]]));
      continue;
    }
    llvm::SmallVector<V, 3> args;
    for (const Regs *r : in)
      args.push_back((*r)[i]);
    // Splats and copies give runs of registers one value: computed once.
    bool same = i > 0;
    for (const Regs *r : in)
      same &= i > 0 && (*r)[i] == (*r)[i - 1];
    // LLVM takes constants out of an address through sign extensions of sums that do not overflow: the registers of a
    // tile share one address.
    out.push_back(same         ? V(out.back())
                  : isDisjoint ? b_.CreateAdd(args[0], args[1], "", true, true)
                               : element(op, args));
  }
  return out;
}

} // namespace tegula::nvidia
