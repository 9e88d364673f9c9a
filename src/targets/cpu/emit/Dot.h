// The register-blocked micro-kernel of dot: C[M][N] += A[M][K] * B[K][N] on operands that lie packed in scratch memory.
//
// The planner materializes both operands in the layouts that dotPlan() chooses (the packing nests compute whatever
// produces them: masked loads, casts, transposes), then emitDot() emits the loops over the packed panels. All sizes are
// compile-time constants.
#pragma once
#include "targets/cpu/Codegen.h"
#include "targets/cpu/plan/DotPlan.h"

namespace tegula::cpu {

/// Truncates float significands to tf32's ten bits (no rounding, like the hardware); keeps infinities and NaN.
llvm::Value *truncTf32(VecEmitter &v, llvm::Value *x);

/// Emits the loops at the builder's position; `a`, `b`, `c` are ptr values to 64-byte aligned scratch. If `accumulate`
/// is false C is overwritten (acc known to be zero). `aStride`: bytes between rows of A, an i64, if A is read in place,
/// not packed. Leaves the builder after the loops.
void emitDot(VecEmitter &v, const CpuTarget &target, const DotPlan &p, llvm::Value *a, llvm::Value *bPacked,
             llvm::Value *c, bool accumulate, llvm::Value *aStride = nullptr);

class DotEmitter;
struct InPlace;

/// Lines of the next panel that are prefetched into L2 while a panel is multiplied. One line per row.
struct PanelFetch {
  llvm::Value *first = nullptr;                    // ptr: the first row's
  llvm::Value *stride = nullptr, *rows = nullptr;  // i64: bytes from row to row; number of rows, may be 0
};

/// One panel of one block of k of a plan that packs by panel: C[M][nr] += A[M][kBlock] * panel[kBlock][nr]. The first
/// block of rows may be multiplied by the loop that packs the panel, as packing leaves the arithmetic units idle:
/// begin() before that loop, step() in each trip, finish() after it; rest() does the other rows.
class PanelDot {
public:
  PanelDot(VecEmitter &v, const CpuTarget &target, const DotPlan &p, llvm::Value *a, llvm::Value *aStride,
           bool accumulate);
  ~PanelDot();
  /// Sums A's rows for a biased plan, once before the panels. `depth`: that many k, as for limit() (a multiple of
  /// depthUnit(), null: all).
  void sumRows(llvm::Value *depth);
  /// Sets the offset of the block of k in the rows of A, in bytes (i64).
  void at(llvm::Value *kBytes);
  /// Accumulators of the first block of rows, all zero.
  llvm::SmallVector<llvm::Value *> begin();
  /// Returns `carried` + A[rows][depth] * panel[depth][nr]. `depth` is a multiple of kGroup, `kBytes` the offset in A
  /// from the block's first k, and `panel` points to the same k of the panel.
  llvm::SmallVector<llvm::Value *> step(llvm::ArrayRef<llvm::Value *> carried, int64_t depth, llvm::Value *kBytes,
                                        llvm::Value *panel);
  /// Adds the accumulators to C, or stores them if the dot does not accumulate.
  void finish(llvm::ArrayRef<llvm::Value *> carried, llvm::Value *c);
  /// Multiplies all rows, or all but the first block. If `unless` (i1, may be null) holds, the first block as well.
  void rest(bool withoutFirst, llvm::Value *unless, llvm::Value *panel, llvm::Value *c);
  /// In the current panel only rows in [`from`, `to`) count (`from` is not negative), and only the first `depth` k, a
  /// multiple of depthUnit() (i64, null: all). More rows may be computed.
  void limit(llvm::Value *from, llvm::Value *to, llvm::Value *depth);
  /// With `half`, rest() computes the first half of the panel's columns only. Returns false if panels are too narrow
  /// for that to be worth its code size.
  bool narrow(bool half);
  /// rest() prefetches `lines`, one in each trip of its loops over k, and the remaining ones at the end. Across panels
  /// (`number` is this one's) it also prefetches rows of the next tile of A or, if there is none, of the result's
  /// destination. `near`: any memory that is in a near cache, fetched when nothing else is left.
  void fetch(llvm::ArrayRef<PanelFetch> lines, const InPlace &left, llvm::Value *number, llvm::Value *near);
  /// Does rest() have enough blocks of rows for that?
  static bool fetches(const CpuTarget &target, const DotPlan &p);
  static bool fetchesLeft(const CpuTarget &target, const DotPlan &p);
  static int64_t depthUnit(const DotPlan &p);

private:
  std::unique_ptr<DotEmitter> emitter_;
  const DotPlan &p_;
  bool accumulate_;
  llvm::Value *a_;
  llvm::SmallVector<llvm::Value *> rows_;
};

} // namespace tegula::cpu
