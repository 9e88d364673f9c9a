// See Tiles.h.
#include "gpu/shared/Tiles.h"
#include "gpu/Layouts.h"
#include "gpu/shared/SharedMemory.h"
#include "layout/Constructors.h"
#include <algorithm>

namespace tegula::gpu {

using ir::Elem;
using ir::OpKind;
using layout::Dim;
using layout::SwizzleMode;

/// The number of register or lane bits that step 1, 2, 4 ... along the axis, in any order: log2 of the length of the
/// consecutive run.
static unsigned runAlong(const LinearLayout &l, layout::Dim in, unsigned axis) {
  unsigned run = 0;
  auto has = [&](uint64_t step) {
    for (unsigned i = 0; i < l.inBits(in); ++i)
      if (l.basis(in, i, layout::tensorDim(axis)) == step && !l.basis(in, i, layout::tensorDim(1 - axis)))
        return true;
    return false;
  };
  while (has(uint64_t{1} << run))
    ++run;
  return run;
}

unsigned contiguousAxis(const LinearLayout &l, unsigned elemBytes) {
  Dim in = l.ins()[0].dim; // Register, or Offset of a tile
  // After a join a thread has two elements along one axis and sixteen along the other: the longer run makes wide
  // accesses. Beyond the widest access there is nothing to gain, and what was loaded as vectors stays together.
  unsigned widest = layout::log2Exact(16 / elemBytes);
  if (in == Dim::Register) {
    const unsigned runs[2] = {std::min(widest, runAlong(l, Dim::Register, 0)),
                              std::min(widest, runAlong(l, Dim::Register, 1))};
    if (runs[0] != runs[1]) {
      const unsigned longer = runs[1] > runs[0], other = 1 - longer;
      // Eight bytes a thread that neighbouring lanes continue form lines without bank conflicts; the longer runs of
      // those lanes begin in different rows (words of eight weights along k, four words along n).
      const bool goesOn = (elemBytes << runs[other]) >= 8 && l.hasIn(Dim::Lane) && l.inBits(Dim::Lane) &&
                          l.basis(Dim::Lane, 0, layout::tensorDim(other)) == uint64_t{1} << runs[other];
      return goesOn ? other : longer;
    }
    // Single elements: neighbouring lanes then access neighbouring banks; along the other axis they would conflict on a
    // few banks.
    if (const unsigned lanes[2] = {runAlong(l, Dim::Lane, 0), runAlong(l, Dim::Lane, 1)};
        !runs[0] && lanes[0] != lanes[1])
      return lanes[1] > lanes[0];
  }
  return l.inBits(in) && l.basis(in, 0, layout::tensorDim(0)) ? 0 : 1;
}

LinearLayout plainTile(const ir::Type &t, const LinearLayout &registers, int64_t vec) {
  std::vector<int64_t> shape(t.shape.begin(), t.shape.end()), order;
  auto rank = static_cast<unsigned>(shape.size()), fast = rank - 1, bytes = ir::byteWidth(t.elem);
  if (vec > 1)
    while (fast > 0 && !registers.basis(Dim::Register, 0, layout::tensorDim(fast)))
      --fast;
  else if (rank == 2)
    fast = contiguousAxis(registers, bytes);
  order.push_back(fast);
  for (unsigned axis = rank; axis-- > 0;)
    if (axis != fast)
      order.push_back(axis);
  std::optional<SwizzleMode> mode = rank == 2 ? layout::widestSwizzle(shape[fast] * bytes) : std::nullopt;
  LinearLayout tile =
      mode ? layout::sharedSwizzled(shape, order, 8 * bytes, *mode) : layout::sharedLinear(shape, order);
  assert(keepsVectors(tile, registers, vec));
  return tile;
}

std::optional<LinearLayout> rowsForTurns(const ir::Type &tile, const LinearLayout &read, unsigned axis, int64_t vec,
                                         const layout::ConversionOptions &options) {
  if (tile.shape.rank() != 2 || ir::byteWidth(tile.elem) != 1 || vec != 16 || read.inBits(Dim::Register) < 2)
    return std::nullopt;
  // The rows of a matrix: of one word, and of the four lanes along it.
  const uint64_t rows[] = {read.bases(Dim::Register)[1], read.bases(Dim::Lane)[0], read.bases(Dim::Lane)[1]};
  LinearLayout swizzled = layout::sharedRows(tile.shape, rows, axis, vec, 8);
  return layout::planSharedAccess(read, swizzled, 8, /*store=*/false, options).move == layout::SharedMove::MatrixTrans
             ? std::optional(std::move(swizzled))
             : std::nullopt;
}

uint32_t alignOf(const ir::Type &tile) {
  constexpr uint32_t ofRows = 128;
  return tile.shape.rank() > 1 ? SharedMemory::tileAlign : ofRows;
}

uint64_t slotBytes(const ir::Type &tile) {
  if (tile.elem == Elem::I64 && tile.numel() == 1) // an mbarrier
    return 8;
  uint64_t bytes = static_cast<uint64_t>(tile.numel()) * ir::byteWidth(tile.elem);
  const uint64_t align = alignOf(tile);
  return (bytes + align - 1) / align * align;
}

const ir::Op *tileOf(const ir::Value *v) {
  while (v->def &&
         (v->def->kind == OpKind::SharedSlot || v->def->kind == OpKind::Permute || v->def->kind == OpKind::Reshape))
    v = v->def->operands[0];
  return v->def;
}

static bool isFirstPartition(const ir::Block &b) {
  const ir::Op *around = b.parent->op;
  return around && around->kind == OpKind::Partitions && around->region(0) == &b;
}

/// Is the block in a branch in the first partition, at any depth of branches, not in a loop?
static bool isBranchOfPartition(const ir::Block &b) {
  const ir::Op *around = b.parent->op;
  return around && around->kind == OpKind::If &&
         (isFirstPartition(*around->parent) || isBranchOfPartition(*around->parent));
}

static bool isWithin(const ir::Block &around, const ir::Block &b) {
  const ir::Op *op = b.parent->op;
  return &around == &b || (op && isWithin(around, *op->parent));
}

namespace {

/// Finds last users of tiles. A user in the first partition of the warps counts as if the partition were inlined: the
/// other partitions fill the tiles that it waits for, and are done with them before. The same holds for a tile that
/// only one side of a branch there uses; mbarriers live until the branch ends, where they become ordinary memory.
struct LastUsers {
  void add(const ir::Block &b) {
    for (size_t i = 0; i < b.ops.size(); ++i) {
      const ir::Op *op = b.ops[i];
      if (i + 1 < b.ops.size() && b.ops[i + 1]->kind == OpKind::DotWait)
        waitBehind[op] = b.ops[i + 1];
      for (const ir::Value *v : op->operands) {
        const ir::Op *tile = v->type.isShared ? tileOf(v) : nullptr, *user = op;
        if (!tile)
          continue;
        const ir::Op *&last = of[tile];
        auto isPlace = [&](const ir::Block &where) {
          return &where == tile->parent || isFirstPartition(where) ||
                 (tile->kind != OpKind::BarrierAlloc && isBranchOfPartition(where) &&
                  (!last || isWithin(*last->parent, where)));
        };
        while (!isPlace(*user->parent))
          user = user->parent->parent->op;
        // An asynchronous dot may read until it is waited for.
        auto wait = waitBehind.find(user);
        last = wait != waitBehind.end() ? wait->second : user;
      }
      std::vector<ir::Region *> regions = op->regions;
      if (op->kind == OpKind::Partitions) // the first one decides
        std::ranges::reverse(regions);
      for (const ir::Region *r : regions)
        add(*r->block);
    }
  }

  std::unordered_map<const ir::Op *, const ir::Op *> of, waitBehind;
};

} // namespace

std::unordered_map<const ir::Op *, const ir::Op *> lastUsersOfTiles(const ir::Block &b) {
  LastUsers last;
  last.add(b);
  return std::move(last.of);
}

} // namespace tegula::gpu
