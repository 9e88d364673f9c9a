// GPU IR to LLVM IR: one function per kernel, executed by every thread of a block.
//
// A tensor is a list of LLVM values, one per register of its layout; a scalar is one value that all threads hold.
// Everything the hardware has special instructions for goes through Instr. Control flow of the kernel is uniform
// (scalars are equal in all threads), so barriers may stand anywhere but inside the regions of reductions.
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

/// Lowers the kernel of `module` into `out`; fills everything of `meta` but what codegen adds and what is asked for
/// with the blocks (Compile.cpp), which marks the function as an entry point, too (markKernel). False after a report.
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
  // Families of operations, each in its file (LowerPart.h).
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
  /// Of 8- and 16-bit elements, a word of them at once (LowerWords.cpp). Nullopt where they are no words, or the
  /// operation is none that words can do.
  std::optional<Regs> inWords(const Op &op);
  /// The two words of f16 that four fp8 in a word are, exactly.
  std::array<V, 2> fp8ToHalves(V word, ir::Elem from);
  /// The word of four bytes that stand in one word or in two; null if they do not.
  V wordOfBytes(llvm::ArrayRef<V> elements);
  /// What FAdd or FMul makes of the first halves of the words that these f16 or bf16 elements are in, and of the second
  /// halves. Nullopt where they are no whole words in order.
  std::optional<std::array<V, 2>> foldWords(ir::OpKind kind, ir::Elem e, const Regs &elements);
  /// `x` as an integer of its size, and back. Pointers become i64, i1 i1.
  V bitsOf(V x), fromBits(V bits, llvm::Type *type);

  // Coordinates.
  /// What lane and warp contribute to coordinate `axis` of a tensor in this layout (i32; computed once, in the entry
  /// block).
  V threadPart(uint16_t layout, unsigned axis);
  /// The same for the row-major index of the element.
  V threadFlat(uint16_t layout);
  /// Coordinate of register r along axis: thread part combined with a constant.
  V coordinate(uint16_t layout, unsigned axis, unsigned r);
  V flatIndex(uint16_t layout, unsigned r);
  /// i1: this thread holds the first copy of its elements; null if every thread does.
  V ownsElements(uint16_t layout);
  /// i32 zero, of which assemblers know neither that nor that all threads have the same. Made in the entry block.
  V zeroOfThread();
  V combineIndex(V thread, uint64_t threadMask, uint64_t constant);
  V gatherBits(const LinearLayout &l, const std::function<uint64_t(uint64_t flat)> &project, uint64_t &mask);
  /// Registers of `have` that hold the elements with these register-flat images (same thread parts).
  Regs pick(const Regs &have, const LinearLayout &l, unsigned count, const std::function<uint64_t(unsigned)> &flatOf);

  // Shape (LowerShape.cpp).
  Regs renamed(const Op &op);
  Regs joined(const Op &op);
  void split(const Op &op);

  // Tensors that change hands (LowerShared.cpp).
  struct PlanEmit;
  void convert(const Op &op), exchange(const Op &op);
  /// Of any value, by words of 32 bits.
  V shuffle(ShuffleMode mode, V x, V lane);
  /// Stores a tensor (its registers and its type with layout) to a tile in shared memory at `base`, whose layout maps
  /// offset (in elements) to coordinates and is invertible: by vectors or stmatrix, as wide as both layouts allow. No
  /// barrier or fence comes with it.
  void storeShared(const LinearLayout &memory, V base, const Regs &regs, const ir::Type &t) {
    storeShared(memory, base, regs, m_.layoutOf(t), t);
  }
  void storeShared(const LinearLayout &memory, V base, const Regs &regs, const LinearLayout &from, const ir::Type &t);
  /// And back, all registers.
  Regs loadShared(const LinearLayout &memory, V base, const ir::Type &t);
  /// Starts copies (cp.async) of what `pointers` point to, in registers as `from` says, to a tile; `vec` neighbours at
  /// once; if `isDone`.
  void copyToShared(const LinearLayout &memory, V base, const ir::Type &t, const Regs &pointers,
                    const LinearLayout &from, const Regs *mask, unsigned vec, AccessHints hints, V isDone);
  layout::ConversionOptions conversionOptions() const;
  /// Numbers and bits that depend on the thread; `mask`: all bits that some thread sets.
  V threadValue(const layout::ThreadMap &map, uint64_t &mask);
  /// `sum` (null: 0) with the images of the bits of `index`, all of which are among `all`; adds what it may set to
  /// `mask`.
  V movedBits(std::span<const uint32_t> images, V index, uint32_t all, V sum, uint64_t &mask);
  V threadBit(const layout::ThreadBit &bit);
  /// True in threads whose index has none of these bits; null if there are no bits.
  V noneOf(const layout::ThreadBit &bits);
  /// Element of a register as an integer of its size in memory, and back.
  V toInteger(V x);
  V fromInteger(V x, const ir::Type &t);

  // Shared memory. Which bytes an operation has, and which barriers and waits stand between operations, has been
  // decided (gpu/shared/AllocateShared.h, gpu/shared/OrderMemory.h).
  /// All threads of the block that compute; of the program.
  void barrier(), meet();
  bool isCluster() const { return options_.numCtas > 1; }
  /// The operation's bytes; none: it was given none.
  /// Address of the operation's scratch, which nobody uses any more.
  V scratch(const Op &op);
  /// Does this CTA do what is done once for the cluster? Null if each CTA does its part, or there is but one.
  V isDoneHere(const Op &op) {
    return isCluster() && op.whole() ? b_.CreateICmpEQ(in_->special(Special::ClusterRank), b_.getInt32(0)) : nullptr;
  }
  V sharedAddress(SharedRange r) {
    return r.begin ? b_.CreateAdd(shared_, b_.getInt32(static_cast<uint32_t>(r.begin))) : shared_;
  }
  void toShared(const Op &op), sharedAlloc(const Op &op), asyncCopy(const Op &op), tmaCopy(const Op &op);
  /// Which thread announces the bytes of TMA copies; null in a partition that one thread runs.
  V isCopier() { return isElected_ ? nullptr : isFirstThread(); }
  /// Copies between one announcement of bytes and the next are shared by the first warps, box by box. Each box is one
  /// instruction in one thread, with some for its operands.
  struct Copiers {
    unsigned warps = 1; // a power of two
    unsigned first = 0; // which of them has the first box of a copy
    bool inRing = false; // they wait for the stage first
  };
  void findCopiers(const ir::Block &b, unsigned warpsOfBlock);
  Copiers copiersOf(const Op &op) const { return isElected_ ? Copiers() : copiers_.lookup(&op); }
  void partitions(const Op &op);
  void partition(const Op &op, unsigned n, unsigned begin, llvm::BasicBlock *run, llvm::BasicBlock *end);
  V isFirstThread() { return b_.CreateICmpEQ(tid_, b_.getInt32(0)); }
  std::vector<Instr::MbarInit> begun_; // of the row of barrier_alloc that the last one initializes
  void openExchanges(const Op &op), sendParts(const Op &op);
  void barrierAlloc(const Op &op), barrierWait(const Op &op), barrierArrive(const Op &op), barrierFree(const Op &op);
  /// The maps that the copies need, each once; before the kernel's signature is made.
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
  const BulkStore *bulkPlan(const Op &op); // null: the layout has none
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
  /// Values known to the owners only, given to every thread that holds a copy. `memory`: the operation's scratch.
  Regs fromOwners(const Op &op, const Regs &x, const ir::Type &t, V memory);
  /// The same of an operation's result; nothing to do if nobody else holds a copy.
  Regs fromOwners(const Op &op, const Regs &x);

  // LowerDot.cpp, LowerFma.cpp.
  void dot(const Op &op);
  struct FmaMath;
  Regs fma(const Op &op), fmaLoop(const Op &op);
  void dotWait(const Op &op);
  /// A dot of which a part runs at a time (gpu/loops/SumParts.h), from its start to its wait.
  struct DotInParts {
    Instr::Wgmma w;
    llvm::SmallVector<Instr::WgmmaStep, 16> steps; // of tiles in shared memory; a part has one tile of sums or several
    V a, b;                                        // descriptors
    gpu::PartsOfSum sum;
    Regs zeros; // of all parts
    size_t registers() const { return zeros.size() / sum.parts; }
    Regs start(Instr &in, unsigned part) const;
  };
  std::map<const Op *, DotInParts> dotsInParts_; // those that run, by their waits
  /// The wait, and what is done with its result up to a sum, for one part after the other.
  void sumInParts(const Op &wait);
  llvm::DenseSet<const Op *> isLowered_; // what an operation before it was lowered with
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
  /// Neither LLVM nor the assembler unrolls the loop that this branch closes.
  void keepRolled(llvm::BranchInst *branch);
  /// Runs `body` in the threads where `pred` holds (null: all). No barrier may stand in it.
  void ifThen(V pred, const std::function<void()> &body);
  /// By the first thread alone; `body` gives the predicate to what it emits.
  void byFirstThread(const std::function<void(V pred)> &body);

  const ir::Module &m_;
  const NvTarget &target_;
  const Options &options_;
  const ir::Function *source_;
  llvm::Module &out_;
  GpuKernelMeta &meta_;
  DiagEngine &diag_;
  llvm::IRBuilder<> b_;
  Users users_; // in all of the kernel
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
  /// A word of four bytes that are known to be `base`'s bytes, each less than `end`, minus `bias`, modulo 256
  /// (LowerWords.cpp).
  struct NarrowBytes {
    V base = nullptr;
    uint32_t bias = 0, end = 256;
  };
  llvm::DenseMap<V, NarrowBytes> narrowBytes_;
  llvm::DenseMap<std::pair<unsigned, unsigned>, V> threadPart_; // (layout, axis)
  targets::ReducedTile lastAngles_; // of the tile whose sine or cosine was lowered last
  llvm::DenseMap<unsigned, V> owners_;
  V zeroOfThread_ = nullptr;
  std::map<std::tuple<const ir::Block *, const Value *, int64_t, ir::OpKind>, llvm::SmallVector<V, 8>> extrema_;
  llvm::DenseMap<const Op *, int> sites_;
  bool ok_ = true;
  const Op *partitions_ = nullptr; // of the kernel's warps; null: all of them run all of it
  std::optional<unsigned> partition_; // the one at hand
  bool isElected_ = false;           // one thread runs it
  std::optional<AxisFacts> facts_; // found when they are first asked for
  llvm::DenseMap<const Op *, std::unique_ptr<BulkStore>> bulkPlans_;
  llvm::DenseMap<const Op *, unsigned> maps_; // of copies: index of their tensor map
  llvm::DenseMap<const Op *, Copiers> copiers_; // of tma_copy and of the barrier_wait before them
  V uniformWarp_ = nullptr; // warp_, which the assembler knows to be the same in all lanes; if copies need it
};

} // namespace tegula::nvidia
