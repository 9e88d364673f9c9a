// See DotChoice.h.
#include "targets/nvidia/DotChoice.h"
#include "layout/Constructors.h"
#include <algorithm>

namespace tegula::nvidia {

using ir::Elem;
using layout::SwizzleMode;
using layout::WarpGrid;

namespace {

/// Tensor-core type of an element; nothing if there is none.
std::optional<MmaType> mmaType(Elem e) {
  switch (e) {
  case Elem::F16:
    return MmaType::F16;
  case Elem::BF16:
    return MmaType::BF16;
  case Elem::F32:
    return MmaType::TF32;
  case Elem::I8:
    return MmaType::S8;
  case Elem::F8E4M3FN:
    return MmaType::E4M3;
  case Elem::F8E5M2:
    return MmaType::E5M2;
  default:
    return std::nullopt;
  }
}

/// Have the tensor cores such elements, and would they compute what the dot asks for?
bool hasMmaType(Elem e, std::string_view precision, const NvTarget &t) {
  return mmaType(e) && (e != Elem::F32 || precision == "tf32") && (!ir::isFp8(e) || t.sm >= 89);
}

/// Warps over an m x n result in units of what one instruction makes, the tile of a warp as square as can be.
WarpGrid spread(unsigned warps, int64_t m, int64_t n, int64_t batch, unsigned unitM, unsigned unitN) {
  WarpGrid g;
  for (unsigned left = warps; left > 1; left /= 2) {
    int64_t perM = m / g.m, perN = n / g.n;
    bool canM = perM > unitM, canN = perN > unitN;
    if (g.batch < batch)
      g.batch *= 2;
    else if (canM && (perM >= perN || !canN))
      g.m *= 2;
    else if (canN)
      g.n *= 2;
    else
      break; // the remaining warps hold copies
  }
  return g;
}

/// The first dot of its block with the same A.
const ir::Op &firstWithItsA(const ir::Op &dot) {
  if (dot.parent)
    for (const ir::Op *op : dot.parent->ops)
      if (op->kind == ir::OpKind::Dot && op->operands[0] == dot.operands[0])
        return *op;
  return dot;
}

/// Warps over the result of a dot of mma.sync. Those of another dot have read its A already where they share that one's
/// rows: then only B is left (2 x 2 warps of 16 x 32 read 48 rows and columns, 1 x 4 of 32 x 16 beside another dot of
/// theirs 16). H200, 512x8192x4096 with LoRA of 64, 32x128x64 by four warps: 199 -> 173 us.
WarpGrid spreadMma(const ir::Op &dot, unsigned warps, int64_t m, int64_t n, int64_t batch) {
  constexpr unsigned unitM = 16, unitN = 8;
  const WarpGrid own = spread(warps, m, n, batch, unitM, unitN);
  const ir::Op &first = firstWithItsA(dot);
  if (&first == &dot || batch > 1)
    return own;
  const WarpGrid shared = spread(warps, m, first.result()->type.shape[1], batch, unitM, unitN);
  const bool fits = n >= int64_t{unitN} * shared.n && shared.m * shared.n == warps;
  return fits && n / shared.n <= m / own.m + n / own.n ? shared : own;
}

/// Elements of the contraction that one instruction takes: 32 bytes.
unsigned depthOf(const ir::Type &a) { return 32 / ir::byteWidth(a.elem); }

} // namespace

static bool fitTiles(const ir::Op &dot, const NvTarget &target);
static bool wantsLoop(const ir::Op &dot, unsigned warps);

DotChoice chooseDot(const ir::Op &dot, const NvTarget &target, unsigned warps) {
  DotChoice c;
  const ir::Type &a = dot.operands[0]->type, &b = dot.operands[1]->type, &d = dot.result()->type;
  unsigned rank = d.shape.rank();
  int64_t m = d.shape[rank - 2], n = d.shape[rank - 1], k = a.shape[rank - 1], batch = rank == 3 ? d.shape[0] : 1;
  std::string_view precision = dot.precision();
  bool fp8Mix = ir::isFp8(a.elem) && ir::isFp8(b.elem);
  if (!hasMmaType(a.elem, precision, target) || !hasMmaType(b.elem, precision, target) ||
      (a.elem != b.elem && !fp8Mix) || k < depthOf(a) || n < 8 || m < 16 || d.elem == Elem::F64) {
    if (wantsLoop(dot, warps) && fitTiles(dot, target))
      c.kind = DotKind::FmaTiles;
    return c;
  }
  if (target.sm == 90 && target.archFeatures && rank == 2 && warps % 4 == 0 && m >= 64 &&
      (a.elem != Elem::I8 || n == 8 || n % 16 == 0)) {
    // Whole warpgroups: rows first, each then reads as much of B at once as an instruction takes. One of 16 columns
    // takes as long as one of 36 (docs/hopper.md, 1.8), which is less than mma.sync of that many warps takes to read
    // shared memory (2048x4096x4096 bf16, H200: 64x32 by eight warps 389 -> 311 us, 64x64 by sixteen 385 -> 220); but a
    // row of a few waits for its first one (32 of K, fp16: 874 -> 953).
    constexpr unsigned longRow = 4;
    const int64_t leastColumns = k >= longRow * depthOf(a) ? 16 : 32;
    unsigned groups = warps / 4, gm = 1, gn = 1;
    while (gm * gn < groups) {
      if (m / gm > 64)
        gm *= 2;
      else if (n / gn > leastColumns)
        gn *= 2;
      else
        break;
    }
    if (gm * gn == groups) {
      c.kind = DotKind::AsyncMma;
      c.grid = {4 * gm, gn, 1};
      return c;
    }
  }
  c.kind = DotKind::Mma;
  c.grid = spreadMma(dot, warps, m, n, batch);
  return c;
}

MatrixInstr matrixInstr(const DotChoice &c, const ir::Op &dot) {
  const ir::Type &a = dot.operands[0]->type, &b = dot.operands[1]->type;
  int64_t columns = dot.result()->type.shape[dot.result()->type.shape.rank() - 1];
  unsigned n = c.kind == DotKind::Mma ? 8 : static_cast<unsigned>(std::min<int64_t>(columns / c.grid.n, 256));
  return {*mmaType(a.elem), *mmaType(b.elem), a.elem == Elem::I8 ? MmaType::S32 : MmaType::F32, n, depthOf(a)};
}

static LinearLayout forWarps(LinearLayout l, unsigned warps) {
  return l.growIn(layout::Dim::Warp, layout::log2Exact(warps));
}

LinearLayout accumulatorLayout(const DotChoice &c, const ir::Op &dot, unsigned warps) {
  const ir::Shape &s = dot.result()->type.shape;
  switch (c.kind) {
  case DotKind::Fma:
  case DotKind::FmaTiles:
    return layout::fmaAccumulator(s, {NvTarget::lanes, warps});
  case DotKind::Mma:
    return forWarps(layout::mmaAccumulator(s, c.grid), warps);
  case DotKind::AsyncMma:
    return forWarps(layout::wgmmaAccumulator(s, c.grid), warps);
  }
  return {};
}

LinearLayout dotOperandLayout(const DotChoice &c, const ir::Op &dot, unsigned operand, unsigned warps) {
  const ir::Type &t = dot.operands[operand]->type;
  if (c.kind == DotKind::Fma || c.kind == DotKind::FmaTiles)
    return layout::fmaOperand(layout::fmaAccumulator(dot.result()->type.shape, {NvTarget::lanes, warps}), operand,
                              t.shape[t.shape.rank() - 1 - operand]);
  unsigned bits = ir::bitWidth(t.elem);
  if (c.kind == DotKind::AsyncMma)
    return forWarps(layout::wgmmaOperandA(t.shape, c.grid, bits), warps);
  return forWarps(operand == 0 ? layout::mmaOperandA(t.shape, c.grid, bits, c.run)
                               : layout::mmaOperandB(t.shape, c.grid, bits, c.run),
                  warps);
}

/// Multiply-adds of a thread, and elements it holds of both operands, up to which a dot is unrolled.
constexpr int64_t mostUnrolled = 512, mostHeld = 128;

/// Do both operands fit shared memory beside what else a kernel has there?
static bool fitTiles(const ir::Op &dot, const NvTarget &target) {
  return slotBytes(dot.operands[0]->type) + slotBytes(dot.operands[1]->type) <= target.sharedLimit() / 4 * 3;
}

static bool wantsLoop(const ir::Op &dot, unsigned warps) {
  const ir::Type &a = dot.operands[0]->type;
  LinearLayout sums = layout::fmaAccumulator(dot.result()->type.shape, {NvTarget::lanes, warps});
  auto registers = [](const LinearLayout &l) { return int64_t{1} << l.inBits(layout::Dim::Register); };
  const int64_t depth = a.shape[a.shape.rank() - 1];
  return registers(sums) * depth > mostUnrolled ||
         registers(layout::fmaOperand(sums, 0, depth)) + registers(layout::fmaOperand(sums, 1, depth)) > mostHeld;
}

unsigned fmaStep(const ir::Type &a, const ir::Type &b, unsigned sums) {
  // As many as one access brings of the wider operand, if the text stays short.
  constexpr int64_t mostProducts = 1024, fewest = 4;
  int64_t wide = 16 / std::max(ir::byteWidth(a.elem), ir::byteWidth(b.elem));
  int64_t step = std::min(std::max(wide, fewest), std::max<int64_t>(1, mostProducts / sums));
  return static_cast<unsigned>(std::min(step, a.shape[a.shape.rank() - 1]));
}

SharedOperand sharedOperand(const ir::Type &t, bool isA, unsigned fastest) {
  SharedOperand s;
  unsigned kAxis = isA ? 1 : 0, rowAxis = 1 - kAxis;
  s.elemBytes = ir::byteWidth(t.elem);
  s.transposed = s.elemBytes == 2 && fastest == rowAxis;
  unsigned contiguous = s.transposed ? rowAxis : kAxis, other = 1 - contiguous;
  s.mode = *layout::widestSwizzle(t.shape[contiguous] * s.elemBytes);
  s.memory = layout::sharedSwizzled(t.shape, layout::Extents{contiguous, other}, 8 * s.elemBytes, s.mode);
  s.rows = static_cast<unsigned>(t.shape[other]);
  s.bytes = static_cast<uint64_t>(t.numel()) * s.elemBytes;
  auto width = static_cast<uint32_t>(s.mode);
  // Eight rows of an atom, and the next column of atoms. In unswizzled MN-major tiles the two fields change roles.
  uint32_t rowStep = 8 * width, columnStep = width * s.rows;
  bool swapped = s.mode == SwizzleMode::None && s.transposed;
  s.stride = swapped ? columnStep : rowStep;
  s.leading = swapped ? rowStep : columnStep;
  return s;
}

uint32_t SharedOperand::offset(unsigned r, unsigned k) const {
  auto width = static_cast<uint32_t>(mode);
  uint32_t along = (transposed ? r : k) * elemBytes, across = transposed ? k : r;
  return across * width + along % width + along / width * width * rows;
}

DotRounds dotRounds(const MatrixInstr &c, const SharedOperand &a, const SharedOperand &b, unsigned depth,
                    bool isAlone) {
  // With 128 columns attention lost an eighth of its speed where a softmax ran beside them; and the text is shorter
  // anyway.
  constexpr unsigned rounds = 4, leastColumns = 256;
  DotRounds straight{.rounds = 1, .products = depth};
  if ((c.n < leastColumns && !isAlone) || depth < rounds)
    return straight;
  // Neighbours in one round; or, where a tile is wider than the swizzle's span, one of each span.
  for (DotRounds r :
       {DotRounds{rounds, depth / rounds, depth / rounds, 1}, DotRounds{rounds, depth / rounds, 1, rounds}}) {
    auto growsEvenly = [&](const SharedOperand &s) {
      auto at = [&](unsigned i, unsigned j) { return s.offset(0, r.at(i, j) * c.k); };
      for (unsigned i = 0; i < r.rounds; ++i)
        for (unsigned j = 0; j < r.products; ++j)
          if (at(i, j) != at(0, j) + i * (at(1, 0) - at(0, 0)))
            return false;
      return true;
    };
    if (growsEvenly(a) && growsEvenly(b))
      return r;
  }
  return straight;
}

} // namespace tegula::nvidia
