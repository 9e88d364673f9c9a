// How a dot of given sizes and types is computed on a CPU: element kinds, blocks of registers, how its operands are
// packed. Dot.h emits it.
#pragma once
#include "targets/cpu/Cpu.h"
#include "llvm/ADT/SmallVector.h"

namespace tegula::cpu {

/// How a dot of given sizes and types is computed.
struct DotPlan {
  ir::Elem aElem, bElem, accElem; // element kinds in the packed buffers and of the accumulator (F32, F64, I32)
  int64_t m, n, k;
  unsigned mr, nr; // register block: mr rows x nr columns (nr a multiple of the vector length, or n if n is small)
  unsigned kGroup; // consecutive k packed together: 1 (f32, f64, i32), 2 (bf16 with AVX512_BF16, i16), 4 (int8 with
                   // VNNI, or with AVX2 if B has no negative elements); divides k
  bool bUnsigned;  // int8 in fours: B has no negative elements, so it is the operand that instructions take as unsigned
  // int8 in fours: 128 is added to each element of B when it is packed, and 128 times the sum of A's row is subtracted
  bool bBiased;
  // A is packed row-major [m][k] with row stride aRowStride elements (k contiguous, so kGroup needs nothing special);
  // or, by takeColumns(), column after column, aDepthStride elements apart.
  int64_t aRowStride, aDepthStride;
  // B is packed in column panels of nr: element (k, n) at ((n / nr) * (k_padded / kGroup) + k / kGroup) * nr * kGroup +
  // (n % nr) * kGroup + k % kGroup.
  int64_t bPanelStride;   // elements between panels
  int64_t kBlock;         // k per block: a panel of B of this depth stays in L1
  // B is packed inside the loops, one panel of kBlock rows at a time, into a buffer that holds no more (emitDotPanel).
  bool byPanel;
  int64_t aElems, bElems; // sizes of the packed buffers in elements
  // C lies row-major [m][n], row stride cRowStride elements.
  int64_t cRowStride;
};

/// Element kinds: f16 and fp8 operands are widened to f32 when packed; bf16 too unless the target has AVX512_BF16
/// (whose instruction flushes subnormal products and operands) and a core that is fast at it; int8 stays with VNNI,
/// else goes to i16 on x86 and to i32 elsewhere. VNNI multiplies unsigned bytes by signed ones, so B is packed with 128
/// added. If no element of an int8 B is negative (`bUnsigned`), that is not needed, and AVX2 has pmaddubsw, whose sums
/// of two products then fit its 16 bits: 2 * 127 * -128 > -2^15. The accumulator of f16 results is F32. `precision` as
/// in the dot op: "tf32" asks the packing nests to apply truncTf32 to f32 operands; "tf32x3", "bf16x3" and "bf16x6"
/// exist to come close to IEEE on units that lack it, so they are computed as "ieee" (f32 multiply-add), which is more
/// precise than each of them.
DotPlan dotPlan(const CpuTarget &target, ir::Elem a, ir::Elem b, ir::Elem acc, int64_t m, int64_t n, int64_t k,
                std::string_view precision, bool bUnsigned = false);

/// Makes `p` a plan by panels: each panel of B goes from the packing nest to the multiply-adds through L1, and
/// overwrites the panel before it. The packing loop itself does the multiply-adds of the first rows. Leaves `p`
/// unchanged if there are few rows, unless both operands and C take more than half of L2: a buffer for all of B would
/// evict A and C.
void packByPanel(const CpuTarget &target, DotPlan &p);

/// A is packed column by column, for operands that are column-major in memory (ColumnsOfA.h). No effect where groups of
/// k or vectors along k are multiplied.
void takeColumns(DotPlan &p);

/// Element offset of B(k, n) in the packed buffer, for constant k, n (tests).
int64_t packedBOffset(const DotPlan &p, int64_t k, int64_t n);

/// How the next panel is prefetched while one is multiplied. Bursts: a few lines before each part of the loops over k.
/// ByStride: in each trip of these loops one line, a constant stride after the last one. ByNumber: in each trip one
/// line, computed from the trip's number. The latter two prefetch A's next tile as well.
enum class Fetches : uint8_t { Bursts, ByStride, ByNumber };

/// The register blocks of C, and how the next panel is prefetched meanwhile.
struct BlockShape {
  unsigned rows, lowRows; // preferred height and the one that covers the rest; lowRows divides powers of two
  unsigned vectors;       // vectors of columns per row
  Fetches fetches = Fetches::Bursts;
};
BlockShape blockShape(const CpuTarget &t, const DotPlan &p);
/// `count` blocks of `rows` rows each.
struct RowBlock {
  unsigned rows;
  int64_t count;
};
/// m rows as blocks of DotPlan::mr and then of `lowRows`; for m below lowRows one block of m.
llvm::SmallVector<RowBlock, 2> rowBlocks(const DotPlan &p, unsigned lowRows);
/// Number of blocks that cover the rows of C.
int64_t blocksOfRows(const CpuTarget &t, const DotPlan &p);
/// Lanes of an accumulator vector for a panel of nr columns.
unsigned lanesOfAcc(const CpuTarget &t, const DotPlan &p);
inline int64_t divideUp(int64_t x, int64_t by) { return (x + by - 1) / by; }

} // namespace tegula::cpu
