// Lowers GPU IR to LLVM IR: one function per kernel, executed by every thread of a block.
//
// A tensor becomes a list of LLVM values, one per register of its layout; a scalar is one value, equal in all threads.
// Instr emits every special hardware instruction. Control flow of the kernel is uniform, because scalars are equal in
// all threads, so barriers are legal anywhere except inside the regions of reductions.
//
//   Lower.cpp         function frame, dispatch, scalars, coordinates     LowerControl.cpp  for, while, if
//   LowerElementwise.cpp  operations on elements
//   LowerShape.cpp    operations that rename coordinates                  LowerReduce.cpp   reduce, scan
//                                                                      LowerExtremum.cpp extrema of lanes, argmax
//   LowerShared.cpp   convert, tiles in shared memory                     LowerAtomic.cpp   atomics, histogram, gather
//   LowerTiles.cpp    barriers, tiles, mbarriers, copies to tiles         LowerBulk.cpp     stores and reductions by TMA
//   LowerMemory.cpp   load, store                                        LowerDebug.cpp    print, assert, sites
//   LowerDot.cpp, LowerFma.cpp  dot; LowerAngles.cpp  sin, cos           LowerWords.cpp    8- and 16-bit elements, a word at a time
//   LowerDivision.cpp  quotients of 64 bits
#pragma once
#include "gpu/layouts/IndexBits.h"
#include "gpu/Layouts.h"
#include "gpu/loops/SumParts.h"
#include "gpu/shared/SharedNeeds.h"
#include "layout/Conversion.h"
#include "passes/ArgumentAccess.h"
#include "passes/AxisFacts.h"
#include "passes/Extremum.h"
#include "passes/Users.h"
#include "targets/common/Angles.h"
#include "targets/common/DebugInfo.h"
#include "targets/nvidia/BulkStores.h"
#include "targets/nvidia/instr/Instr.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include <functional>
#include <map>

namespace tegula::nvidia {

/// Lowers the kernel of `module` into `out` and fills `meta`. Codegen and askForBlocks (Compile.cpp) fill the rest of
/// `meta`; the latter also marks the function as an entry point (markKernel). False after a report.
bool lower(const ir::Module &module, const NvTarget &target, const Options &options, llvm::Module &out,
           GpuKernelMeta &meta, DiagEngine &diag);

class Lowering {
public:
  Lowering(const ir::Module &m, const NvTarget &target, const Options &options, llvm::Module &out, GpuKernelMeta &meta,
           DiagEngine &diag);
  bool run();

private:
  using Op = ir::Op;
  using Value = ir::Value;
  // Families of operations, each in its own file (LowerPart.h).
  struct Part;
  struct Elementwise;
  struct Words;
  struct Reductions;
  struct Control;
  struct Atomics;
  struct BlockCopies;
  struct MatrixDots;
  struct Fma;

  // Frame (Lower.cpp).
  void beginKernel(), arguments();
  void block(const ir::Block &b);
  void lowerOp(const Op &op);
  bool fail(const Op &op, std::string why);

  // Values.
  const LinearLayout &layoutOf(const Value *v) const { return m_.layoutOf(v->type); }
  unsigned registersOf(const ir::Type &t) const {
    return t.isScalar() || t.isShared ? 1u : 1u << m_.layoutOf(t).inBits(layout::Dim::Register);
  }
  llvm::Type *regType(const ir::Type &t);          // element in a register
  const Regs &get(const Value *v) const;
  V scalar(const Value *v) const { return get(v)[0]; }
  void set(const Value *v, Regs r) { values_[v] = std::move(r); }
  Regs elementwise(const Op &op);
  std::optional<Regs> sineOrCosine(const Op &op), divideWide(const Op &op);
  llvm::BasicBlock *divideInTurn(ir::OpKind kind, llvm::ArrayRef<std::pair<V, V>> pairs, llvm::BasicBlock *done,
                                 llvm::SmallVectorImpl<V> &results);
  llvm::SmallVector<unsigned, 16> equalRegisters(const Value *v);
  /// Lowers an operation on 8- and 16-bit elements one word at a time (LowerWords.cpp). Nullopt if the elements do not
  /// form words, or no word instruction computes the operation.
  std::optional<Regs> inWords(const Op &op);
  /// Converts the four fp8 elements of a word to two words of f16, exactly.
  std::array<V, 2> fp8ToHalves(V word, ir::Elem from);
  /// The word of four bytes that come from one word or two; null if they do not.
  V wordOfBytes(llvm::ArrayRef<V> elements);
  /// Folds the first halves of the words of these f16 or bf16 elements by FAdd or FMul, and likewise the second halves.
  /// Nullopt if the elements are not whole words in order.
  std::optional<std::array<V, 2>> foldWords(ir::OpKind kind, ir::Elem e, const Regs &elements);
  /// `x` as an integer of its size, and back. Pointers become i64, i1 i1.
  V bitsOf(V x), fromBits(V bits, llvm::Type *type);

  // Coordinates.
  /// The part of coordinate `axis` that lane and warp determine, for a tensor in this layout (i32; computed once, in
  /// the entry block).
  V threadPart(uint16_t layout, unsigned axis);
  /// The same for the row-major index of the element.
  V threadFlat(uint16_t layout);
  /// Coordinate of register r along axis: thread part combined with a constant.
  V coordinate(uint16_t layout, unsigned axis, unsigned r);
  V flatIndex(uint16_t layout, unsigned r);
  /// i1: this thread holds the first copy of its elements; null if every thread does.
  V ownsElements(uint16_t layout);
  /// An i32 zero that assemblers can prove neither zero nor uniform. Emitted in the entry block.
  V zeroOfThread();
  V combineIndex(V thread, uint64_t threadMask, uint64_t constant);
  V gatherBits(const LinearLayout &l, const std::function<uint64_t(uint64_t flat)> &project, uint64_t &mask);
  /// The registers of `have` that hold the elements with these register-flat images (same thread parts).
  Regs pick(const Regs &have, const LinearLayout &l, unsigned count, const std::function<uint64_t(unsigned)> &flatOf);

  // Shape (LowerShape.cpp).
  Regs renamed(const Op &op);
  Regs joined(const Op &op);
  void split(const Op &op);

  // Layout conversions and shared memory (LowerShared.cpp).
  struct PlanEmit;
  void convert(const Op &op), exchange(const Op &op);
  /// Shuffles a value of any type, by 32-bit words.
  V shuffle(ShuffleMode mode, V x, V lane);
  /// Stores a tensor (its registers and its type with layout) to a tile in shared memory at `base`. The tile's layout
  /// `memory` maps offset (in elements) to coordinates and is invertible. The stores are vectors or stmatrix, as wide
  /// as both layouts allow. Emits no barrier or fence.
  void storeShared(const LinearLayout &memory, V base, const Regs &regs, const ir::Type &t) {
    storeShared(memory, base, regs, m_.layoutOf(t), t);
  }
  void storeShared(const LinearLayout &memory, V base, const Regs &regs, const LinearLayout &from, const ir::Type &t);
  /// The inverse of storeShared: loads all registers.
  Regs loadShared(const LinearLayout &memory, V base, const ir::Type &t);
  /// Starts copies (cp.async) to a tile from the addresses `pointers`, whose registers have layout `from`; `vec`
  /// adjacent elements per copy; under the predicate `isDone`.
  void copyToShared(const LinearLayout &memory, V base, const ir::Type &t, const Regs &pointers,
                    const LinearLayout &from, const Regs *mask, unsigned vec, AccessHints hints, V isDone);
  layout::ConversionOptions conversionOptions() const;
  /// The number that `map` assigns to this thread; `mask`: all bits that some thread sets.
  V threadValue(const layout::ThreadMap &map, uint64_t &mask);
  /// `sum` (null: 0) combined with the images of the set bits of `index`, all of which are in `all`; adds the bits that
  /// it may set to `mask`.
  V movedBits(std::span<const uint32_t> images, V index, uint32_t all, V sum, uint64_t &mask);
  V threadBit(const layout::ThreadBit &bit);
  /// True in threads whose index has none of these bits; null if there are no bits.
  V noneOf(const layout::ThreadBit &bits);
  /// Element of a register as an integer of its size in memory, and back.
  V toInteger(V x);
  V fromInteger(V x, const ir::Type &t);

  // Shared memory. Earlier passes allocated the bytes of each operation, and placed barriers and waits between
  // operations (gpu/shared/AllocateShared.h, gpu/shared/OrderMemory.h).
  /// barrier() synchronizes the computing threads of the block, meet() those of the program.
  void barrier(), meet();
  bool isCluster() const { return options_.numCtas > 1; }
  /// Address of the operation's scratch, after all earlier accesses to it.
  V scratch(const Op &op);
  /// i1: this CTA executes what the cluster executes once. Null if each CTA does its part, or there is one CTA.
  V isDoneHere(const Op &op) {
    return isCluster() && op.whole() ? b_.CreateICmpEQ(in_->special(Special::ClusterRank), b_.getInt32(0)) : nullptr;
  }
  V sharedAddress(SharedRange r) {
    return r.begin ? b_.CreateAdd(shared_, b_.getInt32(static_cast<uint32_t>(r.begin))) : shared_;
  }
  void toShared(const Op &op), sharedAlloc(const Op &op), asyncCopy(const Op &op), tmaCopy(const Op &op);
  /// i1: this thread announces the bytes of TMA copies; null in a partition that one thread runs.
  V isCopier() { return isElected_ ? nullptr : isFirstThread(); }
  /// The first warps divide the copies between two announcements of bytes, box by box. Each box takes one copy
  /// instruction in one thread, and a few for its operands.
  struct Copiers {
    unsigned warps = 1; // a power of two
    unsigned first = 0; // the warp that issues the first box of a copy
    bool inRing = false; // the warps first wait for the stage
  };
  void findCopiers(const ir::Block &b, unsigned warpsOfBlock);
  Copiers copiersOf(const Op &op) const { return isElected_ ? Copiers() : copiers_.lookup(&op); }
  void partitions(const Op &op);
  void partition(const Op &op, unsigned n, unsigned begin, llvm::BasicBlock *run, llvm::BasicBlock *end);
  V isFirstThread() { return b_.CreateICmpEQ(tid_, b_.getInt32(0)); }
  std::vector<Instr::MbarInit> begun_; // of consecutive barrier_allocs; the last one initializes all
  void openExchanges(const Op &op), sendParts(const Op &op);
  void barrierAlloc(const Op &op), barrierWait(const Op &op), barrierArrive(const Op &op), barrierFree(const Op &op);
  /// Collects the maps that the copies need, without duplicates. Runs before the kernel's signature is built.
  void findTensorMaps(const ir::Block &b);
  V mapAddress(unsigned map);
  V plus(V x, uint32_t n);
  Regs boxAt(std::span<Value *const> offsets, const std::vector<uint32_t> &at);
  V sharedAt(V base, V index, unsigned bytes);
  void storeElement(V address, V x, const ir::Type &t, V pred);
  V loadElement(V address, const ir::Type &t, V pred = nullptr, V other = nullptr);
  llvm::Type *memType(const ir::Type &t); // i1 takes a byte
  V toMemory(V x);
  V fromMemory(V x, const ir::Type &t);

  // Stores and reductions by TMA (LowerBulk.cpp).
  const BulkStore *bulkPlan(const Op &op); // null: the layout has no plan
  void bulkStore(const Op &op);
  void writeInFront(const Op &op, const BulkStore &plan, V buffer, const Regs &start, const std::vector<uint32_t> &at);
  V isInFront(const Op &op);

  // Memory (LowerMemory.cpp).
  void load(const Op &op), store(const Op &op);
  AccessHints hints(const Op &op) const;
  V conjunction(V a, V b) { return !a ? b : !b ? a : b_.CreateAnd(a, b); }

  void reduce(const Op &op), scan(const Op &op);

  // Atomics, gather, histogram (LowerAtomic.cpp).
  void atomic(const Op &op), gather(const Op &op), histogram(const Op &op);
  static AtomOp atomOp(std::string_view rmw);
  /// A desc_reduce of one element.
  void reduceElement(const Op &op, V pointer, V x, V pred);
  /// Broadcasts values from the owners to every thread that holds a copy. `memory`: the operation's scratch.
  Regs fromOwners(const Op &op, const Regs &x, const ir::Type &t, V memory);
  /// The same for an operation's result; returns `x` if no other thread holds a copy.
  Regs fromOwners(const Op &op, const Regs &x);

  // LowerDot.cpp, LowerFma.cpp.
  void dot(const Op &op);
  struct FmaMath;
  Regs fma(const Op &op), fmaLoop(const Op &op);
  void dotWait(const Op &op);
  /// A dot whose parts run one after the other (gpu/loops/SumParts.h), from its start to its wait.
  struct DotInParts {
    Instr::Wgmma w;
    llvm::SmallVector<Instr::WgmmaStep, 16> steps; // on tiles in shared memory; a part has one or more tiles of sums
    V a, b;                                        // descriptors
    gpu::PartsOfSum sum;
    Regs zeros; // of all parts
    size_t registers() const { return zeros.size() / sum.parts; }
    Regs start(Instr &in, unsigned part) const;
  };
  std::map<const Op *, DotInParts> dotsInParts_; // dots in flight, by their waits
  /// Lowers the wait and the uses of its result, up to a sum, for one part after the other.
  void sumInParts(const Op &wait);
  llvm::DenseSet<const Op *> isLowered_; // operations that were lowered together with an earlier one
  /// 8- and 16-bit elements packed into 32-bit registers, lowest first; 32-bit ones as integers.
  Regs packed(const Regs &x, unsigned first, unsigned count);

  // LowerDebug.cpp; of Lower.cpp: assembly.
  int siteOf(const Op &op);
  void print(const Op &op), assembly(const Op &op);
  std::pair<std::string, V> printable(const targets::Site &site, size_t operand, V x);
  void assertion(const Op &op);
  void failAssertions();

  // LowerControl.cpp.
  void forLoop(const Op &op), whileLoop(const Op &op), ifElse(const Op &op);
  llvm::BasicBlock *newBlock(const char *name);
  /// Forbids LLVM and the assembler to unroll the loop whose back edge is `branch`.
  void keepRolled(llvm::BranchInst *branch);
  /// Runs `body` in the threads where `pred` holds (null: all). `body` must not emit a barrier.
  void ifThen(V pred, const std::function<void()> &body);
  /// Runs `body` in the first thread only; `body` passes the predicate on to the instructions that it emits.
  void byFirstThread(const std::function<void(V pred)> &body);

  const ir::Module &m_;
  const NvTarget &target_;
  const Options &options_;
  const ir::Function *source_;
  llvm::Module &out_;
  GpuKernelMeta &meta_;
  DiagEngine &diag_;
  llvm::IRBuilder<> b_;
  Users users_; // of the whole kernel
  gpu::IndexBits indexBits_;
  llvm::Function *function_ = nullptr;
  std::optional<Instr> in_;
  // by lane, warp, block
  llvm::DenseMap<std::tuple<const llvm::BasicBlock *, uint32_t, uint32_t, uint32_t>, V> threadBits_;
  targets::VecTarget vecTarget_;
  std::optional<targets::VecEmitter> vec_;
  std::optional<targets::DebugEmitter> lines_;
  llvm::PHINode *failedSite_ = nullptr; // of failAssertions()
  V tid_ = nullptr, lane_ = nullptr, warp_ = nullptr, shared_ = nullptr, record_ = nullptr;
  llvm::DenseMap<const Value *, Regs> values_;
  /// A fact about a word of four bytes: they equal `base`'s bytes, each less than `end`, minus `bias`, modulo 256
  /// (LowerWords.cpp).
  struct NarrowBytes {
    V base = nullptr;
    uint32_t bias = 0, end = 256;
  };
  llvm::DenseMap<V, NarrowBytes> narrowBytes_;
  llvm::DenseMap<std::pair<unsigned, unsigned>, V> threadPart_; // (layout, axis)
  targets::ReducedTile lastAngles_; // the angles of the tile whose sine or cosine was lowered last
  llvm::DenseMap<unsigned, V> owners_;
  V zeroOfThread_ = nullptr;
  std::map<std::tuple<const ir::Block *, const Value *, int64_t, ir::OpKind>, llvm::SmallVector<V, 8>> extrema_;
  llvm::DenseMap<const Op *, int> sites_;
  bool ok_ = true;
  const Op *partitions_ = nullptr; // partitions of the kernel's warps; null: every warp runs the whole kernel
  std::optional<unsigned> partition_; // the partition that is being lowered
  bool isElected_ = false;           // a single thread runs that partition
  std::optional<AxisFacts> facts_; // computed at the first query
  llvm::DenseMap<const Op *, std::unique_ptr<BulkStore>> bulkPlans_;
  llvm::DenseMap<const Op *, unsigned> maps_; // of copies: index of their tensor map
  llvm::DenseMap<const Op *, Copiers> copiers_; // of tma_copy and of the barrier_wait before them
  V uniformWarp_ = nullptr; // warp_ in a form that the assembler proves uniform in a warp; only if copies need it
};

} // namespace tegula::nvidia
