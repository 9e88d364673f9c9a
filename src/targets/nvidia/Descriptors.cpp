// See Descriptors.h.
#include "targets/nvidia/Descriptors.h"
#include "gpu/BlockEdit.h"
#include "ir/Builder.h"
#include "passes/AxisFacts.h"
#include "targets/nvidia/BulkStores.h"
#include <algorithm>
#include <numeric>
#include <unordered_set>

namespace tegula::nvidia {

using namespace ir;

namespace {

/// A number the launch knows: a product of constants, at most two arguments, and at most one number of programs.
std::optional<TensorMap::Term> termOf(const Value *v, const Block &entry) {
  TensorMap::Term t;
  if (!v->def) {
    if (v->block != &entry)
      return std::nullopt;
    t.arg = static_cast<int32_t>(v->index);
    return t;
  }
  const Op &op = *v->def;
  switch (op.kind) {
  case OpKind::Const:
    t.value = std::get<int64_t>(*op.value());
    return t;
  case OpKind::SExt:
    return termOf(op.operands[0], entry);
  case OpKind::NumPrograms:
    t.gridAxis = static_cast<int32_t>(op.axis());
    return t;
  case OpKind::Mul: {
    std::optional<TensorMap::Term> a = termOf(op.operands[0], entry), b = termOf(op.operands[1], entry);
    if (!a || !b || (a->gridAxis >= 0 && b->gridAxis >= 0) || (a->arg2 >= 0 && b->arg >= 0) ||
        (b->arg2 >= 0 && a->arg >= 0))
      return std::nullopt;
    if (a->arg < b->arg)
      std::swap(a, b);
    t.arg2 = std::max(a->arg2, b->arg);
    t.arg = a->arg;
    t.gridAxis = std::max(a->gridAxis, b->gridAxis);
    return __builtin_mul_overflow(a->value, b->value, &t.value) ? std::nullopt : std::optional(t);
  }
  default:
    return std::nullopt;
  }
}

} // namespace

/// Can the launch encode the map, and does the instruction take the coordinates?
static bool hasMap(const DescAccess &a, const Type &block, const AxisFacts &facts, const Block &entry) {
  unsigned last = a.rank() - 1;
  int64_t bytes = byteWidth(block.elem);
  if (block.elem == Elem::I1 || a.block[last] * bytes < 16 || a.base->def || a.base->block != &entry)
    return false;
  for (std::span<Value *const> list : {a.extents, a.strides})
    for (const Value *v : list)
      if (!termOf(v, entry))
        return false;
  return facts.of(a.offsets[last]).axes[0].divisibility * bytes % 16 == 0;
}

/// What dots are computed from, by whatever operations, in a block and those in it.
static std::unordered_set<const Value *> inputsOfDots(const Block &block) {
  std::vector<const Value *> work;
  std::unordered_set<const Value *> seen;
  auto collect = [&](auto &&self, const Block &b) -> void {
    for (const Op *op : b.ops) {
      if (op->kind == OpKind::Dot)
        work.insert(work.end(), op->operands.begin(), op->operands.begin() + 2);
      for (const Region *r : op->regions)
        self(self, *r->block);
    }
  };
  collect(collect, block);
  while (!work.empty()) {
    const Value *v = work.back();
    work.pop_back();
    if (seen.insert(v).second && v->def && v->def->kind != OpKind::Dot)
      work.insert(work.end(), v->def->operands.begin(), v->def->operands.end());
  }
  return seen;
}

/// Is a dot computed from the loaded values? Once for all loads of a function: each with a search of its own took time
/// quadratic in their number.
static bool feedsDot(const Op &load, const DescriptorContext &context) {
  if (const Block &entry = entryOf(load); context.dotsOf != &entry) {
    context.feedDots = inputsOfDots(entry);
    context.dotsOf = &entry;
  }
  return context.feedDots.contains(load.result());
}

/// The facts, and sums and products with arguments that cannot be negative in a launch that happens: no map has an
/// extent below 1.
static bool isNonNegative(const Value *v, const AxisFacts &facts, std::span<Value *const> extents, const Block &entry,
                          unsigned depth = 8) {
  if (facts.of(v).isNonNegative())
    return true;
  if (!v->def)
    return v->block == &entry && std::any_of(extents.begin(), extents.end(), [&](const Value *e) {
             std::optional<TensorMap::Term> t = termOf(e, entry);
             return t && t->arg == static_cast<int32_t>(v->index) && t->arg2 < 0 && t->value > 0;
           });
  bool isSum = v->def->kind == OpKind::Add || v->def->kind == OpKind::Mul || v->def->kind == OpKind::SExt;
  return isSum && depth && std::all_of(v->def->operands.begin(), v->def->operands.end(), [&](const Value *o) {
           return isNonNegative(o, facts, extents, entry, depth - 1);
         });
}

std::vector<int64_t> signedOffsets(const Op &access, const AxisFacts &facts) {
  DescAccess a = descAccess(access);
  std::vector<int64_t> out;
  for (unsigned d = 0; d < a.rank(); ++d)
    if (!isNonNegative(a.offsets[d], facts, a.extents, entryOf(access)))
      out.push_back(d);
  return out;
}

/// Do rows end at a multiple of 16 bytes? By their length's divisor, or because it is a stride too, which is such a
/// multiple by contract.
static bool endsAligned(const DescAccess &a, int64_t bytes, const AxisFacts &facts, const Block &entry) {
  const Value *columns = a.extents[a.rank() - 1];
  std::span<Value *const> leading = a.strides.first(a.rank() - 1);
  return facts.of(columns).axes[0].divisibility * bytes % 16 == 0 ||
         std::any_of(leading.begin(), leading.end(),
                     [&](const Value *v) { return termOf(v, entry) == termOf(columns, entry); });
}

/// Loads take any offsets and extents; writes do not (seen on an H200, docs/hopper.md section 2.4): columns are clipped
/// in groups of 16 bytes, and at a negative offset the instruction is illegal. Where an offset may be negative that is
/// looked at when the kernel runs (LowerBulk.cpp).
static bool canWrite(const DescAccess &a, const Type &type, const AxisFacts &facts, const Block &entry) {
  return endsAligned(a, byteWidth(type.elem), facts, entry) &&
         std::none_of(a.offsets.begin(), a.offsets.end(),
                      [](const Value *v) { return constantInt(v).value_or(0) < 0; });
}

/// A launch has room for so many maps (runtime/TensorMaps.h): those of the first accesses of the kernel. Loads of equal
/// blocks share one; what stores share is known later.
static bool isAmongFirst(const Op &op, const Block &entry) {
  constexpr size_t room = 16;
  std::vector<const Op *> others;
  auto shares = [](const Op &a, const Op &b) {
    unsigned maps = 1 + 2 * descAccess(a).rank(); // base, extents, strides
    return a.kind == OpKind::DescLoad && b.kind == a.kind && descAccess(a).hasRows() == descAccess(b).hasRows() &&
           a.result()->type == b.result()->type && a.attrs == b.attrs &&
           std::equal(a.operands.begin(), a.operands.begin() + maps, b.operands.begin());
  };
  bool isKept = false;
  auto walk = [&](auto &&self, const Block &b) -> bool {
    for (const Op *o : b.ops) {
      if (o == &op || (isDescOp(o->kind) && shares(op, *o)))
        return isKept = true;
      if (isDescOp(o->kind) && std::none_of(others.begin(), others.end(), [&](const Op *x) { return shares(*x, *o); }))
        others.push_back(o);
      if (others.size() == room) // whatever comes
        return true;
      if (std::any_of(o->regions.begin(), o->regions.end(), [&](const Region *r) { return self(self, *r->block); }))
        return true;
    }
    return false;
  };
  walk(walk, entry);
  return isKept;
}

int64_t mergedColumns(const Op &load, const AxisFacts &facts) {
  DescAccess a = descAccess(load);
  int64_t most = load.nan() || load.tf32() ? 1 : 8 / byteWidth(a.base->type.elem);
  return std::gcd(most, facts.of(a.extents[1]).axes[0].divisibility);
}

/// Are rows by index better fetched by copies of their own? Instructions of all warps, counted in machine code
/// (docs/rationale/descriptors.md): a copy is 7 of the loop over the lanes that have the indices, what is around them
/// 30 for each warp, reading the tile 1 for 512 bytes; by pointers it is 7.75 for 512 bytes. Operands of dots would lie
/// in tiles that take a copy for 128 bytes: always by pointers.
static bool rowsPay(const Op &load, const AxisFacts &facts, const DescriptorContext &context) {
  constexpr int64_t mostBytes = 64 * 1024;
  const Type &t = load.result()->type;
  int64_t rows = t.shape[0], bytes = t.numel() * byteWidth(t.elem),
          perRow = (t.shape[1] / mergedColumns(load, facts) + 255) / 256;
  return context.ctas == 1 && bytes <= mostBytes && !feedsDot(load, context) &&
         27 * (bytes / 512) > 4 * (7 * rows * perRow + 30 * context.warps);
}

bool keepDescriptor(const Op &op, const AxisFacts &facts, const void *given) {
  const auto &context = *static_cast<const DescriptorContext *>(given);
  const NvTarget &t = *context.target;
  if (t.sm != 90 || !t.archFeatures)
    return false;
  DescAccess a = descAccess(op);
  const Type &type = a.value ? a.value->type : op.result()->type;
  const Block &entry = entryOf(op);
  if (!hasMap(a, type, facts, entry) || !isAmongFirst(op, entry))
    return false;
  switch (op.kind) {
  case OpKind::DescLoad: {
    // A few rows are a few vectors for each thread: at once where they are needed, instead of by way of shared memory.
    bool isTall = a.block.numel() / a.block[a.rank() - 1] >= 8;
    return !(op.nan() && byteWidth(type.elem) == 1) &&
           (a.hasRows() ? rowsPay(op, facts, context) : isTall || feedsDot(op, context));
  }
  case OpKind::DescStore:
    return !a.hasRows() && canWrite(a, type, facts, entry) &&
           a.block.numel() * byteWidth(type.elem) >= leastBulkStore && !livesCoalesced(a.value);
  default:
    return canWrite(a, type, facts, entry) && hasBulkReduce(op.rmw(), type.elem);
  }
}

TmaTile::TmaTile(const Shape &shape, Elem elem, unsigned parts) : shape(shape), bytes(byteWidth(elem)), parts(parts) {
  int64_t columns = shape[shape.rank() - 1];
  std::optional<layout::SwizzleMode> mode = rows() >= 8 ? layout::widestSwizzle(columns * bytes) : std::nullopt;
  if (mode && *mode != layout::SwizzleMode::None)
    swizzle = static_cast<uint8_t>(*mode);
  box.assign(shape.rank(), 1);
  box.back() = swizzle ? swizzle / bytes : static_cast<uint32_t>(std::min<int64_t>(256, columns));
  // A box is contiguous if all dimensions inside the first one that is cut are whole.
  for (unsigned d = shape.rank() - 1; d-- > 0;) {
    box[d] = static_cast<uint32_t>(std::min<int64_t>(256, extent(d)));
    if (box[d] < extent(d))
      break;
  }
}

TmaTile::TmaTile(const Op &load) {
  const Type &t = load.kind == OpKind::DescLoad ? load.result()->type : load.operands[0]->type;
  auto factor = static_cast<unsigned>(load.merged());
  if (!factor) {
    *this = TmaTile(t.shape, t.elem, static_cast<unsigned>(load.multicast()));
    return;
  }
  shape = t.shape, bytes = byteWidth(t.elem), merged = factor;
  box = {1, static_cast<uint32_t>(std::min<int64_t>(256 * factor, shape[1]))};
}

bool TmaTile::hasParts() const {
  constexpr uint32_t alignment = 128; // of what a copy writes
  return shape.rank() > 1 && shape[0] >= parts && partBytes() % std::max<uint32_t>(alignment, 8u * swizzle) == 0;
}

layout::LinearLayout TmaTile::layout() const {
  using layout::Dim;
  int64_t columns = shape[shape.rank() - 1], rows = shape.numel() / columns;
  layout::DimList outs = layout::tensorDims(shape);
  if (swizzle)
    return layout::sharedSwizzled(layout::Extents{rows, columns}, layout::Extents{1, 0}, 8 * bytes,
                                  layout::SwizzleMode(swizzle))
        .reshapeOuts(outs);
  // Offsets count the columns of a box, the rows, the boxes beside each other.
  std::vector<uint64_t> bases;
  for (uint64_t column = 1; column < box.back(); column *= 2)
    bases.push_back(column);
  for (int64_t row = 1; row < rows; row *= 2)
    bases.push_back(static_cast<uint64_t>(row * columns));
  for (uint64_t column = box.back(); column < static_cast<uint64_t>(columns); column *= 2)
    bases.push_back(column);
  return layout::LinearLayout({layout::dimOfSize(Dim::Offset, shape.numel())}, outs, bases);
}

std::vector<TmaTile::Box> TmaTile::boxes() const {
  unsigned last = shape.rank() - 1;
  auto columns = static_cast<uint32_t>(shape[last]), rows = static_cast<uint32_t>(shape.numel() / columns);
  std::vector<Box> out;
  for (uint32_t column = 0; column < columns; column += box[last]) {
    Box b{0, std::vector<uint32_t>(shape.rank())};
    b.at[last] = column;
    if (merged) {
      b.offset = bytes * column * rows;
      out.push_back(b);
      continue;
    }
    for (;;) {
      uint32_t row = 0;
      for (unsigned d = 0; d < last; ++d)
        row = row * static_cast<uint32_t>(shape[d]) + b.at[d];
      b.offset = bytes * (column * rows + row * box[last]);
      out.push_back(b);
      unsigned d = last;
      while (d-- > 0) {
        if ((b.at[d] += box[d]) < extent(d))
          break;
        b.at[d] = 0;
      }
      if (d == ~0u)
        break;
    }
  }
  return out;
}

static TensorMap mapOf(const Op &op, std::span<Value *const> all, unsigned rank, const TmaTile &tile) {
  const Block &entry = entryOf(op);
  TensorMap m;
  m.elem = all[0]->type.elem;
  m.swizzle = tile.swizzle;
  m.base = *termOf(all[0], entry);
  for (unsigned d = 0; d < rank; ++d) {
    m.extents.push_back(*termOf(all[1 + d], entry));
    m.strides.push_back(*termOf(all[1 + rank + d], entry));
  }
  m.box = tile.box;
  if (tile.merged) {
    m.merged = static_cast<uint8_t>(tile.merged);
    m.box.back() /= tile.merged;
  }
  return m;
}

TensorMap tensorMapOf(const Op &copy) {
  TensorMap m = mapOf(copy, std::span<Value *const>(copy.operands).subspan(2), copy.operands[0]->type.shape.rank(),
                      TmaTile(copy));
  m.nanFill = copy.nan();
  m.roundTf32 = copy.tf32();
  return m;
}

TensorMap tensorMapOf(const Op &access, const TmaTile &tile) {
  TensorMap m = mapOf(access, access.operands, tile.shape.rank(), tile);
  m.isSigned = access.kind == OpKind::DescStore || access.rmw() == "smin" || access.rmw() == "smax";
  return m;
}

} // namespace tegula::nvidia
