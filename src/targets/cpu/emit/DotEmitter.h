// How a dot is emitted: shared by Dot.cpp (loops and multiply-adds) and DotFetch.cpp (what is fetched meanwhile).
#pragma once
#include "targets/cpu/emit/Dot.h"
#include "targets/cpu/emit/NestState.h"
#include <optional>
#include <utility>

namespace tegula::cpu {

/// Which lines a block of rows fetches, a slot of so many for each line of its trips: a trip moves on by one row of
/// memory. First come those of the next panel, then, if it has that, those of A's next tile, column of lines by column,
/// which go on from panel to panel; after these some line that is near.
struct Slots {
  llvm::SmallVector<PanelFetch, 4> right;
  // i64: as many as there is something to fetch for
  llvm::Value *rightSlots = nullptr;
  // of the left operand: the first one of this panel, and how many there are in all; null: none
  llvm::Value *leftFrom = nullptr, *leftSlots = nullptr, *leftFirst = nullptr, *leftStride = nullptr;
  // i64: slots for one column of lines are a power of two
  llvm::Value *trips = nullptr, *near = nullptr, *groupBits = nullptr;
  unsigned perEntry = 1, atOnce = 1; // slots for all rows of one of `right`; so many slots in a block
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
  /// Accumulators of an outer block, and after them, if A is biased, sums of the columns of B. `sums`: of the first
  /// row, if B is biased.
  llvm::SmallVector<V> starts(unsigned rows, V sums);
  void sumRows(V a, V depth);
  V rowSums = nullptr; // ptr: of each row of A -128 times its sum, i32, if B is biased
  /// `a`: rowPointers() of the block.
  void multiplyStep(unsigned rows, int64_t step, llvm::ArrayRef<V> a, V bp, llvm::SmallVectorImpl<V> &acc);
  llvm::SmallVector<V> rowPointers(V a, unsigned rows);
  V inRow(llvm::ArrayRef<V> a, unsigned row, int64_t bytes);
  V unrelated(V x);
  V rowsOf(unsigned count) { return b.CreateMul(aStride, b.getInt64(count)); }
  void addToC(unsigned rows, llvm::ArrayRef<V> acc, V c, bool accumulate);
  int64_t stepBytesA() const { return p.kGroup * p.aDepthStride * aBytes(); }
  /// Of columns, in a block of rows: all of a panel, or half as many in loops that are as short as they can be, as code
  /// costs time to compile; nothing is fetched there.
  unsigned vectors = 1;
  void setHalf(bool half);
  unsigned lanesOfRow() const { return lanes; }
  /// Rows that count; so many k, a multiple of what a trip of the loop over k does. Null: all. For outer blocks.
  V rowsFrom = nullptr, rowsTo = nullptr, depth = nullptr;
  llvm::SmallVector<PanelFetch, 2> fetches; // before parts of loops over k
  void planSlots(llvm::ArrayRef<PanelFetch> right, const InPlace &left, V a, V panel, V near);
  void fetchRight(llvm::ArrayRef<PanelFetch> all, V near), fetchLeft(V a, const InPlace &left, V panel, V near);
  /// A's tile of a block of k as it lies in memory, rows or columns one after the other.
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

  /// for (i = 0; i < count; ++i) with each pointer advancing by its step in bytes (or number, by its step); the body
  /// gets the current pointers and the carried values and returns the new ones. Gives the final carried values.
  struct Pointer {
    V start;
    int64_t step;
    V by = nullptr; // in place of `step`
  };
  using Body = llvm::function_ref<llvm::SmallVector<V>(llvm::ArrayRef<V> pointers, llvm::ArrayRef<V> carried)>;
  llvm::SmallVector<V> loop(int64_t count, llvm::ArrayRef<Pointer> pointers, llvm::ArrayRef<V> carried, Body body) {
    return loop(count, nullptr, pointers, carried, body);
  }
  /// `counted`: i64 in place of `count`. It may be zero if nothing is carried.
  llvm::SmallVector<V> loop(int64_t count, V counted, llvm::ArrayRef<Pointer> pointers, llvm::ArrayRef<V> carried,
                            Body body);

  V multiplyAdd(V acc, V x, V y);
  V groupOf(V scalarOrVector, unsigned accLanes, bool isA);
  /// int8 by VNNI: the instruction wants one operand unsigned. Unless B is, or has 128 added, A is taken with 128
  /// added, and 128 times the sum of each column of B is subtracted at the end.
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
  /// Loops over k are in parts, before which lines are fetched: that many at once at most, as they hold up loads.
  static constexpr int64_t mostLines = 32;
  int64_t tripsOfPart() const, linesPerPart() const;
  V partsOf(V depth);
  std::pair<V, V> lineOf(V slot);
  void fetch(V number);
  /// Lines to fetch into L2, one after the other: line i is in row i / 2^rowBits of the last part with from <= i, whose
  /// first line with that number is at first + row * stride.
  struct LineSequence {
    struct Part {
      V from, first, stride;
    };
    llvm::SmallVector<Part, 2> parts;
    V last;
    unsigned rowBits = 0;
  };
  int64_t tripsOfPanel() const;
  llvm::SmallVector<LineSequence, 2> sequences; // a line of each in each trip of loops over k
  struct {
    llvm::SmallVector<PanelFetch, 2> fetches;
    std::optional<Slots> slots;
    llvm::SmallVector<LineSequence, 2> sequences;
  } aside; // what is not fetched while isHalf
};

} // namespace tegula::cpu
