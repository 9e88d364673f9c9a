// Emits a dot: shared by Dot.cpp (loops and multiply-adds) and DotFetch.cpp (prefetches meanwhile).
#pragma once
#include "targets/cpu/emit/Dot.h"
#include "targets/cpu/emit/NestState.h"
#include <optional>
#include <utility>

namespace tegula::cpu {

/// The lines that a block of rows prefetches, in slots: each trip of a slot advances by one row of memory. First come
/// the lines of the next panel, then, if fetched, those of A's next tile, one column of lines after the other,
/// continuing from panel to panel; then any line in a near cache.
struct Slots {
  llvm::SmallVector<PanelFetch, 4> right;
  // i64: number of slots with a line to fetch
  llvm::Value *rightSlots = nullptr;
  // of the left operand: this panel's first slot, and the total number of slots; null: none
  llvm::Value *leftFrom = nullptr, *leftSlots = nullptr, *leftFirst = nullptr, *leftStride = nullptr;
  // i64; groupBits: log2 of the slots of one column of lines
  llvm::Value *trips = nullptr, *near = nullptr, *groupBits = nullptr;
  unsigned perEntry = 1, atOnce = 1; // slots for all rows of one entry of `right`; slots per block
};

/// One emission of emitDot or of a PanelDot.
class DotEmitter {
  using V = llvm::Value *;

public:
  DotEmitter(VecEmitter &v, const CpuTarget &target, const DotPlan &p, V aStride)
      : v(v), target(target), b(v.b), p(p), aStride(aStride), lanes(lanesOfAcc(target, p)) {
    vectors = std::max(1u, p.nr / lanes);
    accType = v.vecType(p.accElem, lanes);
    if (aStride)
      strides = {aStride, unrelated(rowsOf(2)), unrelated(rowsOf(3))};
  }
  void run(V a, V bPacked, V c, bool accumulate);
  void rows(int64_t k, V a, V panel, V c, bool accumulate, bool withoutFirst = false, V unless = nullptr);
  unsigned firstRows() const;
  VecEmitter &v;
  const CpuTarget &target;
  /// Initial accumulators of an outer block, then, if A is biased, sums of the columns of B. `sums`: points to the row
  /// sum of the block's first row, if B is biased.
  llvm::SmallVector<V> starts(unsigned rows, V sums);
  void sumRows(V a, V depth);
  V rowSums = nullptr; // ptr: for each row of A, -128 times its sum, i32, if B is biased
  /// `a`: rowPointers() of the block.
  void multiplyStep(unsigned rows, int64_t step, llvm::ArrayRef<V> a, V bp, llvm::SmallVectorImpl<V> &acc);
  llvm::SmallVector<V> rowPointers(V a, unsigned rows);
  V inRow(llvm::ArrayRef<V> a, unsigned row, int64_t bytes);
  V unrelated(V x);
  V rowsOf(unsigned count) { return b.CreateMul(aStride, b.getInt64(count)); }
  void addToC(unsigned rows, llvm::ArrayRef<V> acc, V c, bool accumulate);
  int64_t stepBytesA() const { return p.kGroup * p.aDepthStride * aBytes(); }
  /// Vectors of columns in a block of rows: a whole panel, or half of it. Loops for half panels are unrolled less, to
  /// save compile time, and do not prefetch.
  unsigned vectors = 1;
  void setHalf(bool half);
  unsigned lanesOfRow() const { return lanes; }
  /// For outer blocks: the rows that count, and the number of k, a multiple of the k per trip. Null: all.
  V rowsFrom = nullptr, rowsTo = nullptr, depth = nullptr;
  llvm::SmallVector<PanelFetch, 2> fetches; // before parts of loops over k
  void planSlots(llvm::ArrayRef<PanelFetch> right, const InPlace &left, V a, V panel, V near);
  void fetchRight(llvm::ArrayRef<PanelFetch> all, V near), fetchLeft(V a, const InPlace &left, V panel, V near);
  /// A's tile of a block of k in memory: `count` rows or columns of `bytes` each, `stride` bytes apart.
  struct Pieces {
    V first, stride;
    int64_t count, bytes;
  };
  Pieces piecesOfLeft(V a, const InPlace &left) const;
  static int64_t unrolled(int64_t steps) { return std::min<int64_t>(4, steps); }
  int64_t stepBytesB() const { return p.kGroup * p.nr * bBytes(); }

private:
  llvm::IRBuilder<> &b;
  const DotPlan &p;
  V aStride;                     // bytes between rows of A, or null: as packed
  llvm::SmallVector<V, 3> strides; // once, twice, three times that
  unsigned lanes;
  llvm::Type *accType;

  int64_t aBytes() const { return ir::byteWidth(p.aElem); }
  int64_t bBytes() const { return ir::byteWidth(p.bElem); }
  int64_t cBytes() const { return ir::byteWidth(p.accElem); }
  V at(V base, int64_t bytes) { return bytes ? b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), base, bytes) : base; }
  V load(llvm::Type *t, V pointer, unsigned align) { return b.CreateAlignedLoad(t, pointer, llvm::Align(align)); }

  /// for (i = 0; i < count; ++i) with each pointer (or integer) advancing by its step, in bytes for pointers. `body`
  /// gets the current pointers and the carried values and returns the new carried values. Returns the final ones.
  struct Pointer {
    V start;
    int64_t step;
    V by = nullptr; // in place of `step`
  };
  using Body = llvm::function_ref<llvm::SmallVector<V>(llvm::ArrayRef<V> pointers, llvm::ArrayRef<V> carried)>;
  llvm::SmallVector<V> loop(int64_t count, llvm::ArrayRef<Pointer> pointers, llvm::ArrayRef<V> carried, Body body) {
    return loop(count, nullptr, pointers, carried, body);
  }
  /// `counted`: i64 that replaces `count` if not null. It may be zero only if nothing is carried.
  llvm::SmallVector<V> loop(int64_t count, V counted, llvm::ArrayRef<Pointer> pointers, llvm::ArrayRef<V> carried,
                            Body body);

  V multiplyAdd(V acc, V x, V y);
  V groupOf(V scalarOrVector, unsigned accLanes, bool isA);
  /// int8 with VNNI: the instruction takes one operand as unsigned. Unless B is unsigned or has 128 added, 128 is added
  /// to A, and 128 times the sum of each column of B is subtracted at the end.
  bool biased() const { return p.aElem == ir::Elem::I8 && !p.bUnsigned; }
  V bias(llvm::Type *type) const { return llvm::ConstantInt::get(type, 0x80808080); }
  void prefetch(V at);
  void outerBlock(unsigned rows, int64_t k, V a, V bp, V c, V sums, bool accumulate, llvm::ArrayRef<V> lines);
  void innerBlock(unsigned rows, int64_t k, V a, V bp, V c, bool accumulate);
  void panels(int64_t k, V a, V bp, V c, bool accumulate);
  std::optional<Slots> slots;
  bool isHalf = false;
  int64_t unrolledHere(int64_t steps) const { return isHalf ? std::min<int64_t>(2, steps) : unrolled(steps); }
  void fetch(const PanelFetch &lines, V from, V count);
  /// Loops over k are split into parts, with prefetches before each: at most this many at once, as they delay loads.
  static constexpr int64_t mostLines = 32;
  int64_t tripsOfPart() const, linesPerPart() const;
  V partsOf(V depth);
  std::pair<V, V> lineOf(V slot);
  void fetch(V number);
  /// Lines to prefetch into L2, in order: line i is in row i / 2^rowBits of the last part with from <= i. Rows of a
  /// part are at first + row * stride.
  struct LineSequence {
    struct Part {
      V from, first, stride;
    };
    llvm::SmallVector<Part, 2> parts;
    V last;
    unsigned rowBits = 0;
  };
  int64_t tripsOfPanel() const;
  llvm::SmallVector<LineSequence, 2> sequences; // each trip of loops over k fetches one line of each
  struct {
    llvm::SmallVector<PanelFetch, 2> fetches;
    std::optional<Slots> slots;
    llvm::SmallVector<LineSequence, 2> sequences;
  } aside; // saved while isHalf, when nothing is fetched
};

} // namespace tegula::cpu
