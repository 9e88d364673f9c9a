// Chunks between registers and memory: the cheapest access that the lane strides allow.
//
//   all lanes one address    scalar access, broadcast
//   lanes contiguous         one vector access (masked if there is a mask)
//   contiguous pieces        one vector access per piece, put together by shuffles (rows shorter than a vector,
//                            interleaved operands, lanes that repeat)
//   every other element      two vector loads for a vector
//   else                     gather / scatter
#include "gpu/Remarks.h"
#include "targets/Diagnostics.h"
#include "targets/cpu/emit/Emitter.h"
#include "targets/cpu/emit/NarrowMasks.h"
#include "llvm/Analysis/VectorUtils.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/IntrinsicsX86.h"
#include <bit>
#include <numeric>

namespace tegula::cpu {
using V = llvm::Value *;

namespace {
/// How lanes fall into contiguous pieces: bits of the lane number, by role.
struct Pieces {
  llvm::SmallVector<unsigned, 10> run;   // lane bits with strides bytes, 2*bytes, ... in this order
  llvm::SmallVector<unsigned, 10> across; // lane bits that select a piece
  llvm::SmallVector<unsigned, 10> same;  // lane bits that do not move the address
  unsigned runLanes() const { return 1u << run.size(); }
  unsigned count() const { return 1u << across.size(); }
};

Pieces piecesOf(const LaneAddress &a, int64_t bytes) {
  Pieces p;
  llvm::SmallVector<bool, 6> used(a.lane.size(), false);
  for (int64_t want = bytes;; want *= 2) {
    bool found = false;
    for (unsigned i = 0; i < a.lane.size() && !found; ++i)
      if (!used[i] && !a.lane[i].s && a.lane[i].k == want) {
        p.run.push_back(i);
        used[i] = found = true;
      }
    if (!found)
      break;
  }
  for (unsigned i = 0; i < a.lane.size(); ++i)
    if (!used[i])
      (a.lane[i].zero() ? p.same : p.across).push_back(i);
  return p;
}

/// The lane that holds element `e` of piece `piece`, repeating lanes zero.
unsigned laneOf(const Pieces &p, unsigned piece, unsigned e) {
  unsigned lane = 0;
  for (unsigned i = 0; i < p.run.size(); ++i)
    lane |= (e >> i & 1) << p.run[i];
  for (unsigned i = 0; i < p.across.size(); ++i)
    lane |= (piece >> i & 1) << p.across[i];
  return lane;
}

/// The lanes of a piece, of a vector of all of them.
V lanesOf(llvm::IRBuilder<> &b, V all, const Pieces &p, unsigned piece) {
  llvm::SmallVector<int, 32> pick;
  for (unsigned e = 0; e < p.runLanes(); ++e)
    pick.push_back(static_cast<int>(laneOf(p, piece, e)));
  return b.CreateShuffleVector(all, pick);
}

bool straight(const Pieces &p) {
  for (unsigned i = 0; i < p.run.size(); ++i)
    if (p.run[i] != i)
      return false;
  return p.across.empty() && p.same.empty();
}

/// Every lane as position in the concatenation of all pieces.
llvm::SmallVector<int, 32> lanesFromPieces(const Pieces &p, unsigned lanes) {
  llvm::SmallVector<int, 32> r(lanes, 0);
  for (unsigned lane = 0; lane < lanes; ++lane) {
    unsigned e = 0;
    for (unsigned i = 0; i < p.run.size(); ++i)
      e |= (lane >> p.run[i] & 1) << i;
    for (unsigned i = 0; i < p.across.size(); ++i)
      e |= (lane >> p.across[i] & 1) << (p.run.size() + i);
    r[lane] = static_cast<int>(e);
  }
  return r;
}
} // namespace

static unsigned bytesOf(const ir::Type &t) { return t.isPtr ? 8 : std::max(1u, ir::byteWidth(t.elem)); }

V FunctionEmitter::pointers(const LaneAddress &a) {
  V lanes = laneVector(a, b_.getInt64Ty());
  return lanes ? b_.CreateGEP(b_.getInt8Ty(), a.base, lanes) : broadcast(a.base, nest_->lanes());
}

/// A bit that switches all lanes of a mask off, as the condition of a row does in a mask of rows and columns; null:
/// there is none.
static V bitOfAll(V mask) {
  if (!mask->getType()->isVectorTy())
    return mask;
  if (V bit = llvm::getSplatValue(mask))
    return bit;
  auto *both = llvm::dyn_cast<llvm::BinaryOperator>(mask);
  if (!both || both->getOpcode() != llvm::Instruction::And)
    return nullptr;
  V bit = bitOfAll(both->getOperand(0));
  return bit ? bit : bitOfAll(both->getOperand(1));
}

// A vector access that is masked off as a whole does not fault, but on an unmapped page it takes hundreds of cycles on
// x86: rows after the end of a matrix. (Columns after the end of a row belong to another row. To test all lanes of a
// mask would cost kernels of short rows up to a third.)
V FunctionEmitter::whereOn(V at, V mask) {
  V on = mask ? bitOfAll(mask) : nullptr;
  if (!on)
    return at;
  if (!blank_) {
    llvm::BasicBlock &entry = function_->getEntryBlock();
    llvm::IRBuilder<> first(&entry, entry.getFirstInsertionPt());
    llvm::AllocaInst *blank = first.CreateAlloca(llvm::ArrayType::get(first.getInt8Ty(), 256));
    blank->setAlignment(llvm::Align(64));
    blank_ = blank;
  }
  return b_.CreateSelect(on, at, blank_);
}

V FunctionEmitter::anyOf(V mask) { return mask->getType()->isVectorTy() ? b_.CreateOrReduce(mask) : mask; }

// Chunks of a transposing nest: what is not done by whole vectors there goes lane by lane, in a loop.
bool FunctionEmitter::manyVectors(unsigned lanes, unsigned bytes) const {
  return lanes * bytes * 8 > 4 * state_.target.vectorBits;
}

V FunctionEmitter::gatherLanes(const LaneAddress &a, const ir::Type &t, V mask, V other) {
  unsigned lanes = nest_->lanes();
  auto *type = llvm::FixedVectorType::get(memType(t), lanes);
  V m = mask ? broadcast(mask, lanes) : nullptr;
  V o = other ? toMemory(broadcast(other, lanes), t) : llvm::Constant::getNullValue(type);
  const bool together = !nest_->apart && !manyVectors(lanes, bytesOf(t));
  if (together && state_.target.avx512 && bytesOf(t) < 4 && lanes >= 8)
    return fromMemory(gatherFromWords(pointers(a), type, m, o), t);
  if (!together || (lanes >= 32 && bytesOf(t) < 4))
    return fromMemory(gatherOneByOne(pointers(a), type, m, o), t);
  V x = b_.CreateMaskedGather(type, pointers(a), llvm::Align(bytesOf(t)), m ? m : broadcast(b_.getTrue(), lanes), o);
  return fromMemory(x, t);
}

// Gathers the aligned four-byte words that contain the elements. An aligned word is within one page, so reading the
// bytes beside an element does not fault.
V FunctionEmitter::gatherFromWords(V pointers, llvm::FixedVectorType *type, V mask, V other) {
  const unsigned lanes = type->getNumElements();
  auto *words = llvm::FixedVectorType::get(b_.getInt32Ty(), lanes);
  V at = b_.CreatePtrToInt(pointers, llvm::FixedVectorType::get(b_.getInt64Ty(), lanes));
  V from =
      b_.CreateIntToPtr(b_.CreateAnd(at, llvm::ConstantInt::get(at->getType(), ~uint64_t(3))), pointers->getType());
  V word = b_.CreateMaskedGather(words, from, llvm::Align(4), mask ? mask : broadcast(b_.getTrue(), lanes),
                                 llvm::Constant::getNullValue(words));
  V bits = b_.CreateShl(b_.CreateAnd(b_.CreateTrunc(at, words), llvm::ConstantInt::get(words, 3)),
                        llvm::ConstantInt::get(words, 3));
  V x = b_.CreateTrunc(b_.CreateLShr(word, bits), type);
  return mask ? b_.CreateSelect(mask, x, other) : x;
}

// No target gathers elements of one or two bytes, and LLVM would write the lanes out one by one, with a branch each if
// there is a mask (and many vectors one after the other): a loop over the lanes, through the stack. Masked-off lanes
// read the first bytes of the scratch.
V FunctionEmitter::gatherOneByOne(V pointers, llvm::FixedVectorType *type, V mask, V other) {
  unsigned lanes = type->getNumElements();
  if (mask)
    pointers = b_.CreateSelect(mask, pointers, broadcast(scratch_, lanes));
  V slots[2] = {onStack(pointers->getType()), onStack(type)};
  b_.CreateStore(pointers, slots[0]);
  const llvm::Align align(elementBits(type) / 8);
  eachLane(lanes, "gather", "gathered", [&](V i) {
    V from = b_.CreateLoad(b_.getPtrTy(), b_.CreateGEP(b_.getPtrTy(), slots[0], i));
    V x = b_.CreateAlignedLoad(type->getElementType(), from, align);
    b_.CreateAlignedStore(x, b_.CreateGEP(type->getElementType(), slots[1], i), align);
  });
  V all = b_.CreateLoad(type, slots[1]);
  return mask ? b_.CreateSelect(mask, all, other) : all;
}

// Where piece `i` starts; `starts` holds the starts of the pieces before it.
V FunctionEmitter::pieceStart(const LaneAddress &a, llvm::ArrayRef<unsigned> across, unsigned i,
                              std::vector<V> &starts) {
  V at = a.base;
  if (i) {
    unsigned bit = static_cast<unsigned>(std::countr_zero(i));
    at = b_.CreateGEP(b_.getInt8Ty(), starts[i & (i - 1)], coefValue(a.lane[across[bit]], b_.getInt64Ty()));
  }
  starts.push_back(at);
  return at;
}

static llvm::Intrinsic::ID maskload(llvm::Type *element, bool is256) {
  using namespace llvm::Intrinsic;
  if (element->isFloatTy())
    return is256 ? x86_avx_maskload_ps_256 : x86_avx_maskload_ps;
  if (element->isDoubleTy())
    return is256 ? x86_avx_maskload_pd_256 : x86_avx_maskload_pd;
  if (element->isIntegerTy(32))
    return is256 ? x86_avx2_maskload_d_256 : x86_avx2_maskload_d;
  return is256 ? x86_avx2_maskload_q_256 : x86_avx2_maskload_q;
}

/// A vector of eight bytes fills half of the smallest register, so a masked access needs a mask of 16 lanes whose upper
/// half is off. LLVM 19 computes it by kmovb, but its register allocator spills the unmodified operand (KMOVBkk folded
/// into a KMOVW to memory): the reload has the upper half on. This code emits a kmovb that the allocator cannot fold.
static bool isHalfMask(const CpuTarget &target, llvm::Type *type, unsigned bytes) {
  return target.avx512 && bytes == 1 && llvm::cast<llvm::FixedVectorType>(type)->getNumElements() == 8;
}
static V wholeMask(llvm::IRBuilder<> &b, V mask) {
  auto *wide = llvm::FixedVectorType::get(b.getInt1Ty(), 16);
  auto *type = llvm::FunctionType::get(wide, {mask->getType()}, false);
  return b.CreateCall(type, llvm::InlineAsm::get(type, "kmovb $1, $0", "=^Yk,^Yk", false), {mask});
}
static V eightAsSixteen(llvm::IRBuilder<> &b, V x) {
  return b.CreateShuffleVector(x, {0, 1, 2, 3, 4, 5, 6, 7, -1, -1, -1, -1, -1, -1, -1, -1});
}

static bool hasNarrowMasks(const CpuTarget &target, llvm::Type *type, unsigned bytes) {
  return target.avx2 && !target.avx512 &&
         hasNarrowMask(llvm::cast<llvm::FixedVectorType>(type)->getNumElements(), bytes);
}

V FunctionEmitter::narrowMaskedLoad(llvm::FixedVectorType *type, V at, V mask) {
  const NarrowRegisters r(type);
  V on = b_.CreateSExt(mask, type);
  std::vector<V> parts;
  for (unsigned i = 0; i < r.count; ++i) {
    V from = b_.CreateConstGEP1_64(b_.getInt8Ty(), at, i * r.bytes);
    const NarrowMask m = narrowMask(b_, r, r.part(b_, on, i));
    V x = loadWords(b_, r, from, m.words);
    parts.push_back(ifThen(b_.CreateIsNotNull(m.left), r.type, [&] { return loadLeft(b_, r, x, from, m.left); }, x));
  }
  V x = concatenate(b_, std::move(parts));
  llvm::SmallVector<int, 8> first(type->getNumElements());
  std::iota(first.begin(), first.end(), 0);
  return x->getType() == type ? x : b_.CreateShuffleVector(x, first);
}

void FunctionEmitter::narrowMaskedStore(V x, V at, V mask) {
  const NarrowRegisters r(llvm::cast<llvm::FixedVectorType>(x->getType()));
  V on = b_.CreateSExt(mask, x->getType());
  for (unsigned i = 0; i < r.count; ++i) {
    V to = b_.CreateConstGEP1_64(b_.getInt8Ty(), at, i * r.bytes), part = r.part(b_, x, i);
    const NarrowMask m = narrowMask(b_, r, r.part(b_, on, i));
    storeWords(b_, r, part, to, m.words);
    ifThen(b_.CreateIsNotNull(m.left), nullptr, [&]() -> V { return storeLeft(b_, r, part, to, m.left), nullptr; });
  }
}

// Without mask registers a mask is a vector of which the instruction looks at sign bits. LLVM 19
// (combineMaskedLoadConstantMask) takes lanes of a constant mask for on if they are not zero as a whole, and has such
// constants where it splits a mask: of `row < m & column < 2` all parts but the first became loads without a mask. So
// AVX2's loads are asked for by name, a register each.
V FunctionEmitter::maskedLoad(llvm::FixedVectorType *type, unsigned bytes, V at, V mask, V other) {
  llvm::Type *element = type->getElementType();
  if (isHalfMask(state_.target, type, bytes)) {
    V wide = other ? eightAsSixteen(b_, other) : nullptr;
    V x =
        b_.CreateMaskedLoad(llvm::FixedVectorType::get(element, 16), at, llvm::Align(bytes), wholeMask(b_, mask), wide);
    return b_.CreateShuffleVector(x, {0, 1, 2, 3, 4, 5, 6, 7});
  }
  if (hasNarrowMasks(state_.target, type, bytes)) {
    V x = narrowMaskedLoad(type, at, mask);
    auto *zero = llvm::dyn_cast<llvm::Constant>(other);
    return zero && zero->isNullValue() ? x : b_.CreateSelect(mask, x, other);
  }
  if (!state_.target.avx2 || state_.target.avx512 || bytes < 4)
    return b_.CreateMaskedLoad(type, at, llvm::Align(bytes), mask, other);
  if (element->isPointerTy())
    element = b_.getInt64Ty();
  unsigned lanes = type->getNumElements(), native = std::clamp(lanes, 16 / bytes, 32 / bytes);
  V none = llvm::Constant::getNullValue(mask->getType());
  std::vector<V> parts;
  for (unsigned from = 0; from < lanes; from += native) {
    llvm::SmallVector<int, 8> pick(native);
    for (unsigned i = 0; i < native; ++i)
      pick[i] = static_cast<int>(std::min(from + i, lanes)); // past the end: of `none`
    V on = b_.CreateSExt(b_.CreateShuffleVector(mask, none, pick),
                         llvm::FixedVectorType::get(b_.getIntNTy(bytes * 8), native));
    parts.push_back(b_.CreateIntrinsic(maskload(element, native * bytes == 32), {},
                                       {b_.CreateConstGEP1_64(b_.getInt8Ty(), at, from * bytes), on}));
  }
  V x = concatenate(b_, std::move(parts));
  if (native > lanes) {
    llvm::SmallVector<int, 4> first(lanes);
    std::iota(first.begin(), first.end(), 0);
    x = b_.CreateShuffleVector(x, first);
  }
  if (type->getElementType()->isPointerTy())
    x = b_.CreateIntToPtr(x, type);
  // What is off is zero already.
  auto *zero = llvm::dyn_cast<llvm::Constant>(other);
  return zero && zero->isNullValue() ? x : b_.CreateSelect(mask, x, other);
}

// A load of 64 bytes that crosses a line boundary is slow if the lines come from beyond L2: Zen 5 adds up rows of 777
// floats in memory at 54 GB/s, and at 105 GB/s with loads of 32 bytes. Elsewhere two half loads cost one instruction
// more. Whether rows are line-aligned is not known here, and half loads are not slower on aligned rows. Data that
// another nest has read is in a near cache.
bool FunctionEmitter::inHalves(llvm::FixedVectorType *type, unsigned bytes, const ir::Op *load) {
  if (!load || !state_.target.avx512 || bytes * type->getNumElements() != 64)
    return false;
  const Nest *first = firstReader_.try_emplace(load, nest_->nest).first->second;
  return first == nest_->nest || uint64_t(bytes) << bitCount(nest_->nest->space) > state_.target.l1Bytes;
}

// LLVM would make one load of two; it leaves this one alone, which is vmovdqu.
V FunctionEmitter::loadHalves(llvm::FixedVectorType *type, V at, llvm::Align align) {
  auto *half = llvm::FixedVectorType::get(type->getElementType(), type->getNumElements() / 2);
  V low = b_.CreateIntrinsic(llvm::Intrinsic::x86_avx_ldu_dq_256, {}, {at});
  V high = b_.CreateAlignedLoad(half, b_.CreateConstGEP1_64(b_.getInt8Ty(), at, 32), align);
  if (type->getElementType()->isPointerTy())
    return concatenate(
        b_, {b_.CreateIntToPtr(b_.CreateBitCast(low, llvm::FixedVectorType::get(b_.getInt64Ty(), 4)), half), high});
  return concatenate(b_, {b_.CreateBitCast(low, half), high});
}

/// Says why lanes go to memory one by one, if `op` is the user's.
static void remarkOneByOne(ModuleState &state, const ir::Op *op, const LaneAddress &a, int64_t bytes) {
  if (!op || !state.remarks || !state.remarked.insert(op).second)
    return;
  std::string why;
  const Coef *first = llvm::find_if(a.lane, [](const Coef &c) { return !c.zero(); });
  if (a.extra || a.late)
    why = "its addresses are computed element by element, from values or by more than sums and products with constants";
  else if (first == a.lane.end())
    why = "its addresses do not differ, but its mask may";
  else if (first->s)
    why = "the distance of its elements is known when it runs; a stride that is 1 at compile time helps";
  else
    why = "its elements are " + std::to_string(first->k) + " bytes apart, of " + std::to_string(bytes) +
          " bytes each; another order of the axes, or a copy that transposes, helps";
  state.remarks->report(diag::oneByOne, gpu::userLocation(state.source, *op),
                        op->kind == ir::OpKind::Store ? "store" : "load", why);
}

/// Lanes one after the other from a.base downwards.
static bool runsDown(const LaneAddress &a, unsigned bytes, unsigned lanes) {
  if (lanes < 2 || a.extra || a.late || a.noWrap || (size_t(1) << a.lane.size()) != lanes)
    return false;
  for (size_t i = 0; i < a.lane.size(); ++i)
    if (!(a.lane[i] == Coef{-(int64_t(bytes) << i)}))
      return false;
  return true;
}

/// The same places upwards.
static LaneAddress upwards(llvm::IRBuilder<> &b, LaneAddress a, unsigned bytes) {
  a.base = b.CreateConstGEP1_64(b.getInt8Ty(), a.base, -(int64_t(bytes) * ((int64_t(1) << a.lane.size()) - 1)));
  for (Coef &c : a.lane)
    c = Coef{-c.k};
  return a;
}

/// A scalar stays, as do parts of a mask that are the same for all lanes.
static V turned(llvm::IRBuilder<> &b, V x) {
  if (!x || !x->getType()->isVectorTy() || llvm::getSplatValue(x))
    return x;
  if (auto *both = llvm::dyn_cast<llvm::BinaryOperator>(x);
      both && both->getOpcode() == llvm::Instruction::And && bitOfAll(x))
    return b.CreateAnd(turned(b, both->getOperand(0)), turned(b, both->getOperand(1)));
  return b.CreateVectorReverse(x);
}

V FunctionEmitter::loadLanes(const LaneAddress &a, const ir::Type &t, V mask, V other, bool isVolatile,
                             const ir::Op *site) {
  unsigned bytes = bytesOf(t), lanes = nest_->lanes();
  const ir::Op *op = site;
  if (mask)
    if (auto *c = llvm::dyn_cast<llvm::ConstantInt>(mask); c && c->isOne())
      mask = nullptr;
  if (site && (state_.options.checked || !a.late)) { // else where all lanes are known
    LaneAddress whole = a;
    evaluateLate(whole);
    guardAccess(whole, bytes, mask, *site);
    site = nullptr;
  }
  if (a.uniform()) {
    bool perLane = mask && mask->getType()->isVectorTy();
    bool otherPerLane = other && other->getType()->isVectorTy();
    V any = mask ? anyOf(mask) : nullptr;
    V x = maskedScalarLoad(a.base, t, any, perLane || otherPerLane ? nullptr : other, isVolatile);
    if (!mask || !other || !(perLane || otherPerLane))
      return x;
    return b_.CreateSelect(mask, broadcast(x, lanes), broadcast(other, lanes));
  }
  if (runsDown(a, bytes, lanes))
    return turned(b_, loadLanes(upwards(b_, a, bytes), t, turned(b_, mask), turned(b_, other), isVolatile, nullptr));
  Pieces p = piecesOf(a, bytes);
  // A scalar mask covers all lanes; masked-off addresses may be wild, so the access stays masked.
  V m = mask ? broadcast(mask, lanes) : nullptr;
  bool wide = lanes * bytes * 8 > state_.target.vectorBits && p.same.empty() && !m; // several vectors: transposeLanes
  bool pieces = !a.extra && !a.late && !p.run.empty() && p.count() <= (wide ? 64 : 16) && !(m && !p.same.empty()) &&
                !(m && (manyVectors(lanes, bytes) || (nest_->apart && p.count() > 1)));
  if (!pieces && a.noWrap)
    return loadWithoutWrap(a, t, mask, other, isVolatile, site);
  // Every other element (one of each pair): what lies between is read, too, but nothing after the last one.
  bool everyOther = false;
  if (!pieces && !a.extra && !a.late && !m && !isVolatile && p.run.empty() && !nest_->apart &&
      !manyVectors(lanes, bytes)) {
    Pieces q = piecesOf(a, 2 * static_cast<int64_t>(bytes));
    if (q.runLanes() >= 4 && q.count() <= 4)
      p = q, pieces = everyOther = true, wide = false;
  }
  if (!pieces) {
    if (lanes > 1 && !nest_->apart && !(m && manyVectors(lanes, bytes))) // else it is the way for the edges of a tile
      remarkOneByOne(state_, op, a, bytes);
    return gatherLanes(a, t, mask, other);
  }
  bool plain = straight(p);
  if (wide && !plain)
    while (p.runLanes() * bytes * 8 > state_.target.vectorBits)
      p.across.insert(p.across.begin(), p.run.pop_back_val());
  auto *pieceType = llvm::FixedVectorType::get(memType(t), p.runLanes());
  llvm::Align align(bytes);
  V o = other ? toMemory(broadcast(other, lanes), t) : nullptr;
  std::vector<V> parts, starts;
  for (unsigned i = 0; i < p.count(); ++i) {
    V at = pieceStart(a, p.across, i, starts);
    if (everyOther) {
      const unsigned n = p.runLanes();
      llvm::SmallVector<int, 32> pick;
      for (unsigned e = 0; e < n; ++e)
        pick.push_back(static_cast<int>(e < n / 2 ? 2 * e : 2 * e + 1));
      V first = b_.CreateAlignedLoad(pieceType, at, align),
        last = b_.CreateAlignedLoad(pieceType, b_.CreateGEP(b_.getInt8Ty(), at, b_.getInt64((n - 1) * uint64_t(bytes))),
                                    align);
      parts.push_back(b_.CreateShuffleVector(first, last, pick));
      continue;
    }
    if (!m) {
      parts.push_back(inHalves(pieceType, bytes, isVolatile ? nullptr : op)
                          ? loadHalves(pieceType, at, align)
                          : b_.CreateAlignedLoad(pieceType, at, align, isVolatile));
      continue;
    }
    V pieceMask = m, pieceOther = o;
    if (!plain) {
      pieceMask = lanesOf(b_, m, p, i);
      pieceOther = o ? lanesOf(b_, o, p, i) : nullptr;
    }
    at = whereOn(at, mask);
    parts.push_back(
        maskedLoad(pieceType, bytes, at, pieceMask, pieceOther ? pieceOther : llvm::Constant::getNullValue(pieceType)));
  }
  if (wide && !plain)
    return fromMemory(transposeLanes(std::move(parts), p.run, p.across), t);
  V x = concatenate(b_, std::move(parts));
  if (!plain)
    x = b_.CreateShuffleVector(x, lanesFromPieces(p, lanes));
  return fromMemory(x, t);
}

V FunctionEmitter::loadWithoutWrap(const LaneAddress &a, const ir::Type &t, V mask, V other, bool isVolatile,
                                   const ir::Op *site) {
  LaneAddress flat, wrapped = a;
  flat.base = a.flatBase;
  flat.lane = a.flatLane;
  wrapped.noWrap = nullptr;
  auto gather = [&] {
    evaluateLate(wrapped);
    if (site)
      guardAccess(wrapped, bytesOf(t), mask, *site);
    return gatherLanes(wrapped, t, mask, other);
  };
  if (piecesOf(flat, bytesOf(t)).run.empty() && !flat.uniform())
    return gather();
  llvm::BasicBlock *blocks[2] = {llvm::BasicBlock::Create(context_, "flat", function_),
                                 llvm::BasicBlock::Create(context_, "wrapped", function_)};
  llvm::BasicBlock *after = splitHere("loaded");
  b_.CreateCondBr(a.noWrap, blocks[0], blocks[1]);
  V values[2];
  for (unsigned i = 0; i < 2; ++i) {
    b_.SetInsertPoint(blocks[i]);
    auto memo = nest_->memo; // what is evaluated on one way only is not there on the other
    auto addresses = nest_->addressMemo;
    values[i] = broadcast(i ? gather() : loadLanes(flat, t, mask, other, isVolatile, site), nest_->lanes());
    // Callers hold references to the maps themselves.
    for (size_t d = 0; d < memo.size(); ++d) {
      nest_->memo[d].swap(memo[d]);
      nest_->addressMemo[d].swap(addresses[d]);
    }
    blocks[i] = b_.GetInsertBlock();
    b_.CreateBr(after);
  }
  resumeAt(after);
  llvm::PHINode *phi = b_.CreatePHI(values[0]->getType(), 2);
  phi->addIncoming(values[0], blocks[0]);
  phi->addIncoming(values[1], blocks[1]);
  return phi;
}

// Of what is written through a tile of pointers.
LaneAddress FunctionEmitter::addressOf(const ir::Value *pointers, const Bits &at) {
  Lin l = lin(pointers);
  if (!l.self)
    return linAt(pointers, l, at, true);
  LaneAddress a;
  a.lane.resize(nest_->laneBits);
  a.base = eval(pointers, at);
  if (a.base->getType()->isVectorTy()) {
    a.extra = b_.CreatePtrToInt(a.base, llvm::FixedVectorType::get(b_.getInt64Ty(), nest_->lanes()));
    a.base = llvm::ConstantPointerNull::get(b_.getPtrTy());
  }
  return a;
}

void FunctionEmitter::storeLanes(const LaneAddress &a, V value, const ir::Type &t, V mask, bool isVolatile,
                                 const ir::Op *site, bool streams) {
  unsigned bytes = bytesOf(t), lanes = nest_->lanes();
  if (mask)
    if (auto *c = llvm::dyn_cast<llvm::ConstantInt>(mask); c && c->isOne())
      mask = nullptr;
  if (site)
    guardAccess(a, bytes, mask, *site);
  llvm::Align align(bytes);
  bool single =
      lanes == 1 || (a.uniform() && !value->getType()->isVectorTy() && !(mask && mask->getType()->isVectorTy()));
  if (single) {
    auto store = [&]() -> V {
      b_.CreateAlignedStore(toMemory(value, t), a.base, align, isVolatile);
      return nullptr;
    };
    if (mask)
      ifThen(mask, nullptr, store);
    else
      store();
    return;
  }
  if (runsDown(a, bytes, lanes))
    return storeLanes(upwards(b_, a, bytes), turned(b_, value), t, turned(b_, mask), isVolatile, nullptr);
  V x = toMemory(broadcast(value, lanes), t);
  Pieces p = piecesOf(a, bytes);
  V m = mask ? broadcast(mask, lanes) : nullptr;
  bool pieces = !a.extra && !p.run.empty() && p.count() <= (m ? 16 : 64) && !(m && !p.same.empty());
  if (!pieces) {
    if (!m && a.uniform()) // every lane writes one place: any of them
      b_.CreateAlignedStore(b_.CreateExtractElement(x, uint64_t(0)), a.base, align, isVolatile);
    else {
      remarkOneByOne(state_, site, a, bytes);
      b_.CreateMaskedScatter(x, pointers(a), align, m ? m : broadcast(b_.getTrue(), lanes));
    }
    return;
  }
  bool plain = straight(p);
  if (streams && plain && !m)
    return streamStore(x, a.base);
  for (unsigned i = 0; i < p.count(); ++i) {
    V at = a.base, part = x, pieceMask = m;
    for (unsigned k = 0; k < p.across.size(); ++k)
      if (i >> k & 1)
        at = b_.CreateGEP(b_.getInt8Ty(), at, coefValue(a.lane[p.across[k]], b_.getInt64Ty()));
    if (!plain) {
      part = lanesOf(b_, x, p, i);
      pieceMask = m ? lanesOf(b_, m, p, i) : nullptr;
    }
    at = whereOn(at, mask);
    if (pieceMask && isHalfMask(state_.target, part->getType(), bytes))
      b_.CreateMaskedStore(eightAsSixteen(b_, part), at, align, wholeMask(b_, pieceMask));
    else if (pieceMask && hasNarrowMasks(state_.target, part->getType(), bytes))
      narrowMaskedStore(part, at, pieceMask);
    else if (pieceMask)
      b_.CreateMaskedStore(part, at, align, pieceMask);
    else
      b_.CreateAlignedStore(part, at, align, isVolatile);
  }
}

} // namespace tegula::cpu
