// The register-blocked micro-kernel of dot: C[M][N] += A[M][K] * B[K][N] on operands that lie packed in scratch memory.
//
// The planner materializes both operands in the layouts that dotPlan() asks for (whatever produced them: loads with
// masks, casts, transposes run inside the packing nests), then emitDot() emits the loops over the packed panels. All
// sizes are compile-time constants.
#pragma once
#include "targets/cpu/Codegen.h"
#include "targets/cpu/plan/DotPlan.h"

namespace tegula::cpu {

/// float with its significand cut to tf32's ten bits (no rounding, as the hardware does); infinities and NaN stay.
llvm::Value *truncTf32(VecEmitter &v, llvm::Value *x);

/// Emits the loops at the builder's position; `a`, `b`, `c` are ptr values to 64-byte aligned scratch. If `accumulate`
/// is false C is overwritten (acc known to be zero). `aStride`: bytes between rows of A, an i64, if A is not packed but
/// lies elsewhere. Leaves the builder after the loops.
void emitDot(VecEmitter &v, const CpuTarget &target, const DotPlan &p, llvm::Value *a, llvm::Value *bPacked,
             llvm::Value *c, bool accumulate, llvm::Value *aStride = nullptr);

class DotEmitter;
struct InPlace;

/// Lines that are fetched into L2 while a panel is multiplied: those of the next one. One in each row.
struct PanelFetch {
  llvm::Value *first = nullptr;                    // ptr: the first row's
  llvm::Value *stride = nullptr, *rows = nullptr;  // i64: bytes from row to row, how many there are, perhaps none
};

/// One panel of one block of k of a plan that packs by panel: C[M][nr] += A[M][kBlock] * panel[kBlock][nr]. The first
/// block of rows may be multiplied by the loop that packs the panel, which leaves arithmetic idle: begin() before it,
/// step() in each trip, finish() after it; rest() does the other rows.
class PanelDot {
public:
  PanelDot(VecEmitter &v, const CpuTarget &target, const DotPlan &p, llvm::Value *a, llvm::Value *aStride,
           bool accumulate);
  ~PanelDot();
  /// Sums A's rows for a plan that is biased, once before the panels; so many k as limit() says (a multiple of
  /// depthUnit(), null: all).
  void sumRows(llvm::Value *depth);
  /// The block of k begins that many bytes into rows of A (i64).
  void at(llvm::Value *kBytes);
  /// Accumulators of the first block of rows, all zero.
  llvm::SmallVector<llvm::Value *> begin();
  /// `carried` + A[rows][depth] * panel[depth][nr], `depth` a multiple of kGroup: k that are `kBytes` after the block's
  /// first in A; `panel` points to them.
  llvm::SmallVector<llvm::Value *> step(llvm::ArrayRef<llvm::Value *> carried, int64_t depth, llvm::Value *kBytes,
                                        llvm::Value *panel);
  /// Adds them to C, or puts them there.
  void finish(llvm::ArrayRef<llvm::Value *> carried, llvm::Value *c);
  /// All rows, or without the first block; even then with it where `unless` (i1) holds, if it is not null.
  void rest(bool withoutFirst, llvm::Value *unless, llvm::Value *panel, llvm::Value *c);
  /// In the panel at hand only rows from `from` (not negative) to below `to` count, and only so many k, a multiple of
  /// depthUnit() (i64, null: all). More rows may be computed.
  void limit(llvm::Value *from, llvm::Value *to, llvm::Value *depth);
  /// rest() computes the first half of the panel's columns only. False: panels are too narrow for that to be worth its
  /// code.
  bool narrow(bool half);
  /// rest() fetches these, one in each trip of its loops over k, and those that are left at the end. So it does with
  /// rows of the next tile of A, or, where none comes, of the place of the result, panel after panel, this one's
  /// `number` given. `near`: any memory that is near, for where there is nothing to fetch.
  void fetch(llvm::ArrayRef<PanelFetch> lines, const InPlace &left, llvm::Value *number, llvm::Value *near);
  /// Does rest() have blocks of rows enough for that?
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
