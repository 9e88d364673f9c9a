// See DotPlan.h.
#include "targets/cpu/plan/DotPlan.h"
#include <algorithm>
#include <bit>

namespace tegula::cpu {
using ir::Elem;

static bool isX86(const CpuTarget &t) { return t.triple.starts_with("x86_64"); }

/// One line per trip keeps prefetches in flight all the time, but few at once; bursts would queue if the last-level
/// cache is far. A trip takes 48 cycles with AVX-512; the 24 cycles of a trip with AVX2 have room for an address that
/// advances by a stride, not for instructions that select one. (With AVX-512 and twelve rows there are no registers for
/// it.) With a far last level A comes from L2 as well, so its elements should be loaded less often: each is multiplied
/// by 64 columns instead of 32. (Sums of bytes with A biased leave no registers for four vectors of B.)
BlockShape blockShape(const CpuTarget &t, const DotPlan &p) {
  if (t.avx512 && t.lastLevelIsFar()) {
    constexpr unsigned wide = 4;
    const bool isWide = ((p.accElem == Elem::F32 && p.kGroup == 1) || p.bBiased) &&
                        p.n >= t.vectorBits / ir::bitWidth(p.accElem) * wide;
    return isWide ? BlockShape{6, 4, wide, Fetches::ByNumber} : BlockShape{12, 8, 2, Fetches::ByNumber};
  }
  if (t.avx512)
    return {12, 8, 2}; // 24 accumulators, 2 of B, the rest for broadcasts
  if (t.avx2)
    return {6, 4, 2, Fetches::ByStride}; // 12 of 16 registers
  if (isX86(t))
    return {4, 4, 2};
  return {8, 8, 2}; // NEON: 16 of 32
}

llvm::SmallVector<RowBlock, 2> rowBlocks(const DotPlan &p, unsigned lowRows) {
  if (p.m <= lowRows)
    return {{static_cast<unsigned>(p.m), 1}};
  for (int64_t rest = 0; rest <= p.m; rest += lowRows)
    if ((p.m - rest) % p.mr == 0) {
      llvm::SmallVector<RowBlock, 2> blocks;
      if (p.m != rest)
        blocks.push_back({p.mr, (p.m - rest) / p.mr});
      if (rest)
        blocks.push_back({lowRows, rest / lowRows});
      return blocks;
    }
  return {{lowRows, p.m / lowRows}};
}

int64_t blocksOfRows(const CpuTarget &t, const DotPlan &p) {
  int64_t blocks = 0;
  for (RowBlock block : rowBlocks(p, blockShape(t, p).lowRows))
    blocks += block.count;
  return blocks;
}

unsigned lanesOfAcc(const CpuTarget &t, const DotPlan &p) {
  unsigned native = t.vectorBits / ir::bitWidth(p.accElem);
  return std::min(native, p.nr);
}

/// k per block: at most two thirds of L1 for a panel of B, the rest for the rows of A and C streamed through.
static int64_t blockOf(const CpuTarget &t, uint64_t rowBytes) {
  return static_cast<int64_t>(std::bit_floor(std::max<uint64_t>(64, t.l1Bytes * 2 / 3 / rowBytes)));
}

DotPlan dotPlan(const CpuTarget &t, Elem aElem, Elem bElem, Elem acc, int64_t m, int64_t n, int64_t k,
                std::string_view precision, bool bUnsigned) {
  DotPlan p{};
  p.m = m;
  p.n = n;
  p.k = k;
  p.kGroup = 1;
  bool fewColumns = n <= 4;
  // The grouped instructions need at least four groups of k if vectors run along k.
  bool canGroup = k >= (fewColumns ? 8 : 2), canGroupBy4 = k >= (fewColumns ? 16 : 4);
  if (acc == Elem::I32 || ir::isInt(aElem)) {
    p.accElem = Elem::I32;
    bool pairs = isX86(t) && canGroup && aElem == Elem::I8 && bElem == Elem::I8;
    bool fours = pairs && canGroupBy4 && (t.multipliesBytes() || (t.avx2 && bUnsigned));
    p.bUnsigned = fours && bUnsigned;
    p.aElem = p.bElem = fours ? Elem::I8 : pairs ? Elem::I16 : Elem::I32;
    p.kGroup = fours ? 4 : pairs ? 2 : 1;
    constexpr int64_t leastOfVector = 16; // bytes
    p.bBiased = fours && !bUnsigned && !fewColumns && k >= leastOfVector && k <= blockOf(t, 4 * t.vectorBits / 32);
    p.bUnsigned |= p.bBiased;
  } else if (aElem == Elem::F64) {
    p.aElem = p.bElem = p.accElem = Elem::F64;
  } else {
    p.accElem = Elem::F32;
    bool bf16 = aElem == Elem::BF16 && bElem == Elem::BF16 && t.avx512Bf16 && !t.slowPairsOfBf16 && canGroup;
    p.aElem = p.bElem = bf16 ? Elem::BF16 : Elem::F32;
    p.kGroup = bf16 ? 2 : 1;
  }
  BlockShape shape = blockShape(t, p);
  unsigned native = t.vectorBits / ir::bitWidth(p.accElem);
  if (fewColumns) {
    p.nr = 1;
    p.mr = static_cast<unsigned>(std::min<int64_t>(m, 4));
  } else {
    // Few rows: wider panels keep as many multiply-adds in flight.
    unsigned vectors = shape.vectors;
    for (int64_t rows = m; rows < shape.lowRows && vectors < 8; rows *= 2)
      vectors *= 2;
    p.nr = static_cast<unsigned>(std::min<int64_t>(n, native * vectors));
    p.mr = static_cast<unsigned>(std::min<int64_t>(m, shape.rows));
    if (m <= shape.lowRows)
      p.mr = static_cast<unsigned>(m);
  }
  // Rows of A a multiple of 2 KiB apart would conflict in the same few cache sets.
  int64_t aBytes = ir::byteWidth(p.aElem);
  p.aRowStride = k * aBytes >= 2048 ? k + 64 / aBytes : k, p.aDepthStride = 1;
  p.bPanelStride = k * p.nr;
  p.aElems = (m - 1) * p.aRowStride + k;
  p.bElems = n * k;
  p.cRowStride = n;
  p.kBlock = std::min(k, blockOf(t, uint64_t(p.nr) * ir::byteWidth(p.bElem)));
  if (p.bBiased && p.kBlock < k) // sums are of all k
    p.bBiased = p.bUnsigned = false;
  return p;
}

void packByPanel(const CpuTarget &t, DotPlan &p) {
  constexpr int64_t leastDepth = 16; // less is no loop worth to be entered for each panel
  constexpr int64_t fewRows = 16;    // so few are as fast as B comes from memory, best in long rows
  int64_t bytes =
      p.aElems * ir::byteWidth(p.aElem) + p.bElems * ir::byteWidth(p.bElem) + p.m * p.n * ir::byteWidth(p.accElem);
  if (p.nr == 1 || p.k < leastDepth || (p.m < fewRows && static_cast<uint64_t>(bytes) <= t.l2Bytes / 2))
    return;
  p.byPanel = true;
  p.bElems = p.kBlock * p.nr;
}

void takeColumns(DotPlan &p) {
  constexpr int64_t inLine = 64;
  if (p.nr == 1 || p.kGroup > 1 || p.k == 1)
    return;
  const int64_t bytes = ir::byteWidth(p.aElem), lines = divideUp(p.m * bytes, inLine);
  // An odd number of lines: of all sets of a cache.
  p.aRowStride = 1, p.aDepthStride = (lines | 1) * inLine / bytes;
  p.aElems = (p.k - 1) * p.aDepthStride + p.m;
}

int64_t packedBOffset(const DotPlan &p, int64_t k, int64_t n) {
  int64_t g = p.kGroup;
  return n / p.nr * p.bPanelStride + (k / g * p.nr + n % p.nr) * g + k % g;
}

} // namespace tegula::cpu
