// The register-blocked micro-kernel of dot: C[M][N] += A[M][K] * B[K][N] on operands that lie packed in scratch memory.
//
// The planner materializes both operands in the layouts that dotPlan() asks for (whatever produced them: loads with
// masks, casts, transposes run inside the packing nests), then emitDot() emits the loops over the packed panels. All
// sizes are compile-time constants.
#pragma once
#include "targets/cpu/Codegen.h"

namespace tegula::cpu {

/// How a dot of given sizes and types is computed.
struct DotPlan {
  ir::Elem aElem, bElem, accElem; // element kinds in the packed buffers and of the accumulator (F32, F64, I32)
  int64_t m, n, k;
  unsigned mr, nr; // register block: mr rows x nr columns (nr a multiple of the vector length, or n if n is small)
  unsigned kGroup; // consecutive k packed together: 1 (f32, f64, i32), 2 (bf16 with AVX512_BF16, i16), 4 (int8 with
                   // VNNI, or with AVX2 if B has no negative elements); divides k
  bool bUnsigned;  // int8 in fours: B has no negative elements, so it is the operand that instructions take as unsigned
  bool bBiased;    // or 128 is added to each of its elements when it is packed; what A's rows sum up to, times 128, is taken back
  // A is packed row-major [m][k] with row stride aRowStride elements (k contiguous, so kGroup needs nothing special); or, by takeColumns(), column behind column, aDepthStride elements apart.
  int64_t aRowStride, aDepthStride;
  // B is packed in column panels of nr: element (k, n) at ((n / nr) * (k_padded / kGroup) + k / kGroup) * nr * kGroup +
  // (n % nr) * kGroup + k % kGroup.
  int64_t bPanelStride;   // elements between panels
  int64_t kBlock;         // of k at a time: a panel of B that deep stays in L1
  // B is packed inside the loops, one panel of kBlock rows at a time, into a buffer that holds no more (emitDotPanel).
  bool byPanel;
  int64_t aElems, bElems; // sizes of the packed buffers in elements
  // C lies row-major [m][n], row stride cRowStride elements.
  int64_t cRowStride;
};

/// Element kinds: f16 and fp8 operands are widened to f32 when packed; bf16 too unless the target has AVX512_BF16
/// (whose instruction flushes subnormal products and operands) and a core that is fast at it; int8 stays with VNNI, else goes to i16 on x86 and to
/// i32 elsewhere. VNNI multiplies unsigned bytes by signed ones, so B is packed with 128 added.
/// If no element of an int8 B is negative (`bUnsigned`), that is not needed, and AVX2 has pmaddubsw, whose sums of two products then fit its 16 bits: 2 * 127 * -128 > -2^15. The accumulator of f16 results is F32. `precision` as in the dot op: "tf32" asks the packing nests to
/// apply truncTf32 to f32 operands; "tf32x3", "bf16x3" and "bf16x6" exist to come close to IEEE on units that lack it,
/// so they are computed as "ieee" (f32 multiply-add), which is more precise than each of them.
DotPlan dotPlan(const CpuTarget &target, ir::Elem a, ir::Elem b, ir::Elem acc, int64_t m, int64_t n, int64_t k,
                std::string_view precision, bool bUnsigned = false);

/// Makes `p` a plan by panels: one panel of B goes from the packing nest to the multiply-adds inside L1, and what was packed before it is not kept. The multiply-adds of
/// the first rows are in the packing loop itself. Not for few rows, unless both operands and C take more than half of L2, which a buffer for all of B would drive A and C out of.
void packByPanel(const CpuTarget &target, DotPlan &p);

/// A is packed column by column, for operands that lie so in memory (ColumnsOfA.h). Nothing is done where groups of k or vectors along k are multiplied.
void takeColumns(DotPlan &p);

/// Element offset of B(k, n) in the packed buffer, for constant k, n (tests) .
int64_t packedBOffset(const DotPlan &p, int64_t k, int64_t n);

/// float with its significand cut to tf32's ten bits (no rounding, as the hardware does); infinities and NaN stay.
llvm::Value *truncTf32(VecEmitter &v, llvm::Value *x);

/// Emits the loops at the builder's position; `a`, `b`, `c` are ptr values to 64-byte aligned scratch. If `accumulate`
/// is false C is overwritten (acc known to be zero). `aStride`: bytes between rows of A, an i64, if A is not packed but lies elsewhere. Leaves the builder after the loops.
void emitDot(VecEmitter &v, const CpuTarget &target, const DotPlan &p, llvm::Value *a, llvm::Value *bPacked,
             llvm::Value *c, bool accumulate, llvm::Value *aStride = nullptr);

class DotEmitter;
struct InPlace;

/// Lines that are fetched into L2 while a panel is multiplied: those of the next one. One in each row.
struct PanelFetch {
  llvm::Value *first = nullptr;                    // ptr: the first row's
  llvm::Value *stride = nullptr, *rows = nullptr;  // i64: bytes from row to row, how many there are, perhaps none
};

/// One panel of one block of k of a plan that packs by panel: C[M][nr] += A[M][kBlock] * panel[kBlock][nr]. The first block of rows may be multiplied
/// by the loop that packs the panel, which leaves arithmetic idle: begin() in front of it, step() in each trip, finish() behind it; rest() does the other rows.
class PanelDot {
public:
  PanelDot(VecEmitter &v, const CpuTarget &target, const DotPlan &p, llvm::Value *a, llvm::Value *aStride, bool accumulate);
  ~PanelDot();
  /// Sums A's rows for a plan that is biased, once in front of the panels; so many k as limit() says (a multiple of depthUnit(), null: all).
  void sumRows(llvm::Value *depth);
  /// The block of k begins so many bytes into rows of A (i64).
  void at(llvm::Value *kBytes);
  /// Accumulators of the first block of rows, all zero.
  llvm::SmallVector<llvm::Value *> begin();
  /// `carried` + A[rows][depth] * panel[depth][nr], `depth` a multiple of kGroup: k that are `kBytes` behind the block's first in A; `panel` points to them.
  llvm::SmallVector<llvm::Value *> step(llvm::ArrayRef<llvm::Value *> carried, int64_t depth, llvm::Value *kBytes, llvm::Value *panel);
  /// Adds them to C, or puts them there.
  void finish(llvm::ArrayRef<llvm::Value *> carried, llvm::Value *c);
  /// All rows, or without the first block; even then with it where `unless` (i1) holds, if it is not null.
  void rest(bool withoutFirst, llvm::Value *unless, llvm::Value *panel, llvm::Value *c);
  /// In the panel at hand only rows from `from` (not negative) to below `to` count, and only so many k, a multiple of depthUnit() (i64, null: all). More rows may be computed.
  void limit(llvm::Value *from, llvm::Value *to, llvm::Value *depth);
  /// rest() computes the first half of the panel's columns only. False: panels are too narrow for that to be worth its code.
  bool narrow(bool half);
  /// rest() fetches these, one in each trip of its loops over k, and those that are left at the end. So it does with rows of the next tile of A, or, where none comes, of the place of the result,
  /// panel after panel, this one's `number` given. `near`: any memory that is near, for where there is nothing to fetch.
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
