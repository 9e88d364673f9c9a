// See SharedNeeds.h.
#include "gpu/shared/SharedNeeds.h"
#include "gpu/BlockEdit.h"
#include "gpu/Fragments.h"
#include "gpu/Layouts.h"
#include "gpu/shared/SharedMemory.h"
#include "gpu/TargetInfo.h"
#include "gpu/shared/Tiles.h"
#include "layout/Conversion.h"
#include <algorithm>
#include <cassert>
#include <set>

namespace tegula::gpu {

using namespace ir;

bool makesTiles(const Op &op) {
  return op.kind == OpKind::SharedAlloc || op.kind == OpKind::ToShared || op.kind == OpKind::BarrierAlloc;
}

bool takesScratch(const Op &op) { return op.kind == OpKind::ToShared || info(op.kind).attrs.has(attr::meet); }

uint64_t tilesBytes(const Op &op) {
  auto slots = static_cast<uint64_t>(op.slots());
  return op.kind == OpKind::BarrierAlloc ? 8 * slots : slotBytes(op.result()->type) * slots;
}

static unsigned bytesOf(const Type &t) { return t.isPtr ? 8 : byteWidth(t.elem); }

/// The layout of the result of a cluster_gather with `part`, over all CTAs: element j of the first axis is CTA (r ^
/// j)'s version of the part along `axis` that belongs to CTA r. So in each round every CTA reads from a different one;
/// if all began with CTA 0, n CTAs would wait for its link, and so in each of n rounds.
static LinearLayout fromNeighbours(const LinearLayout &own, int64_t ctas, unsigned axis) {
  const LinearLayout l = own * LinearLayout::identity(ctas, layout::Dim::Block, layout::tensorDim(axis));
  std::vector<uint64_t> bases(l.bases().begin(), l.bases().end());
  const unsigned bits = layout::log2Exact(ctas);
  for (unsigned i = 0; i < bits; ++i)
    bases[bases.size() - bits + i] ^= l.outs().flat(layout::Dim::Dim0, uint64_t{1} << i);
  return LinearLayout(l.ins(), l.outs(), bases);
}

/// How the values of a convert or a cluster_gather move.
static layout::ConversionPlan planOf(const Module &m, const Op &op, layout::Threads threads,
                                     const layout::ConversionOptions &options) {
  const Type &from = op.operands[0]->type, &to = op.result()->type;
  unsigned bits = from.isPtr ? 64 : 8 * byteWidth(from.elem);
  if (op.kind == OpKind::Convert)
    return layout::planConversion(m.layoutOf(from), m.layoutOf(to), bits, options);
  // One part in each CTA, and all parts in every CTA, are two layouts of one tensor.
  const LinearLayout own = from.isScalar() ? layout::scalar(threads) : m.layoutOf(from);
  const LinearLayout parts =
      layout::expandDims(own, 0) * LinearLayout::identity(to.shape[0], layout::Dim::Block, layout::Dim::Dim0);
  if (const int64_t axis = op.part(); axis >= 0)
    return layout::planConversion(parts, fromNeighbours(m.layoutOf(to), to.shape[0], static_cast<unsigned>(axis) + 1),
                                  bits, options);
  return layout::planConversion(parts, m.layoutOf(to).growIn(layout::Dim::Block, layout::log2Exact(to.shape[0])), bits,
                                options);
}

std::vector<uint64_t> exchangedParts(const Module &m, const Op &op) {
  const Type &t = op.operands[0]->type;
  const LinearLayout &l = m.layoutOf(t);
  auto axis = static_cast<unsigned>(op.axis());
  unsigned warps = 0;
  for (unsigned i = 0; i < l.inBits(layout::Dim::Warp); ++i)
    warps += l.basis(layout::Dim::Warp, i, layout::tensorDim(axis)) != 0;
  if (!warps)
    return {};
  uint64_t slots = static_cast<uint64_t>(t.numel() / t.shape[axis]) << warps;
  std::vector<uint64_t> begin{0};
  for (const Value *v : op.operands)
    begin.push_back((begin.back() + slots * bytesOf(v->type) + 15) / 16 * 16);
  return begin;
}

/// For an exchange between warps each thread stores all its registers.
static uint64_t exchangeBytes(const Module &m, const Op &op) {
  const Type &t = op.result()->type;
  return partnerOf(m.layoutOf(t), op).inWarps ? uint64_t{bytesOf(t)} << m.layoutOf(t).totalInBits() : 0;
}

bool hasCopies(const Module &m, uint16_t layout) {
  if (!layout)
    return true;
  const LinearLayout &l = m.layouts[layout - 1u];
  return l.freeMask(layout::Dim::Lane) || l.freeMask(layout::Dim::Warp);
}

/// Scratch to pass the owners' values to the other threads.
static Scratch owned(const Module &m, const Op &op, unsigned ctas) {
  const Type &t = op.result()->type;
  bool isOfCluster = ctas > 1 && (op.whole() || t.isScalar());
  if (!isOfCluster && !hasCopies(m, t.layout))
    return {};
  uint64_t bytes = op.results.size() > 1 ? scalarStride * op.results.size()
                                         : static_cast<uint64_t>(t.isScalar() ? 1 : t.numel()) * bytesOf(t);
  return {bytes, isOfCluster ? layout::ExchangeScope::Cluster : layout::ExchangeScope::Cta};
}

Scratch scratchNeed(const Module &m, const Op &op, layout::Threads threads, unsigned ctas,
                    const layout::ConversionOptions &conversions, bool isUsed) {
  switch (op.kind) {
  case OpKind::Convert:
  case OpKind::ClusterGather: {
    layout::ConversionPlan plan = planOf(m, op, threads, conversions);
    uint64_t bytes = plan.kind == layout::ConversionKind::Shared ? plan.cost.bytes : 0;
    layout::ExchangeScope scope = plan.scope;
    return {bytes, scope, std::move(plan)};
  }
  case OpKind::Reduce:
  case OpKind::Scan: {
    std::vector<uint64_t> parts = exchangedParts(m, op);
    return {parts.empty() ? 0 : parts.back()};
  }
  case OpKind::Exchange:
    return {exchangeBytes(m, op)};
  case OpKind::Gather:
    if (op.operands[0]->type.isShared)
      return {};
    return {static_cast<uint64_t>(op.operands[0]->type.numel()) * bytesOf(op.operands[0]->type)};
  case OpKind::Histogram:
    return {static_cast<uint64_t>(op.result()->type.numel()) * 4};
  case OpKind::SmId:
    return ctas > 1 ? owned(m, op, ctas) : Scratch{};
  case OpKind::Clock:
    return owned(m, op, ctas);
  case OpKind::AtomicRmw:
  case OpKind::AtomicCas:
  case OpKind::Load:
    return isUsed && isByOwners(op) ? owned(m, op, ctas) : Scratch{};
  case OpKind::AsmEffect: // for tensors, each thread keeps its own result
    return !op.results.empty() && op.result()->type.isScalar() ? owned(m, op, ctas) : Scratch{};
  default:
    return {};
  }
}

Scratch scratchNeed(const Module &m, const Op &op, const TargetInfo &target, const Options &options, uint64_t most,
                    bool isUsed) {
  layout::ConversionOptions conversions = target.conversions();
  conversions.maxBytes = static_cast<unsigned>(most);
  return scratchNeed(m, op, {target.lanes(), options.numWarps}, options.numCtas, conversions, isUsed);
}

std::optional<SentParts> sentParts(const Op &gather) {
  constexpr int64_t mostElements = 128;
  if (gather.kind != OpKind::ClusterGather || gather.part() >= 0)
    return std::nullopt;
  const Type &part = gather.operands[0]->type;
  if (part.isTensor() && part.numel() > mostElements)
    return std::nullopt;
  for (const Op *around = gather.parent->parent->op; around; around = around->parent->parent->op)
    if (around->kind != OpKind::If)
      return std::nullopt;
  SentParts s;
  s.element = std::max(4u, bytesOf(part));
  s.part = static_cast<uint64_t>(part.isTensor() ? part.numel() : 1) * s.element;
  s.bytes = SentParts::slots + s.part * static_cast<uint64_t>(gather.result()->type.shape[0]);
  return s;
}

static void findSending(const Block &b, std::vector<const Op *> &out) {
  for (const Op *op : b.ops) {
    if (op->kind == OpKind::ClusterGather && op->own())
      out.push_back(op);
    if (op->kind == OpKind::If)
      for (const Region *r : op->regions)
        findSending(*r->block, out);
  }
}

std::vector<const Op *> sendingGathers(const Block &kernel) {
  std::vector<const Op *> out;
  findSending(kernel, out);
  return out;
}

SharedRange placeOf(const Op &op) {
  const std::span<const int64_t> at = op.shared();
  return at.empty() ? SharedRange{} : SharedRange{static_cast<uint64_t>(at[0]), static_cast<uint64_t>(at[1])};
}

bool isByOwners(const Op &op) {
  return op.kind == OpKind::AtomicRmw || op.kind == OpKind::AtomicCas || (op.kind == OpKind::Load && op.isVolatile());
}

static void findUsedByOwners(const Block &b, std::unordered_set<const Op *> &out) {
  for (const Op *op : b.ops) {
    for (const Value *v : op->operands)
      if (v->def && isByOwners(*v->def))
        out.insert(v->def);
    for (const Region *r : op->regions)
      findUsedByOwners(*r->block, out);
  }
}

std::unordered_set<const Op *> usedByOwners(const Block &b) {
  std::unordered_set<const Op *> out;
  findUsedByOwners(b, out);
  return out;
}

namespace {

/// Tracks live tiles and scratch while it walks a kernel.
class Living {
public:
  explicit Living(const Block &kernel) : lastUser_(lastUsersOfTiles(kernel)) { block(kernel); }
  std::vector<std::pair<const Op *, SharedRange>> most;

private:
  void block(const Block &b) {
    for (const Op *op : b.ops) {
      if (SharedRange r = placeOf(*op); r.size() && !op->held()) { // those bytes are the loop's
        live_.push_back({op, r});
        if (r.end > peak_) {
          peak_ = r.end;
          most = live_;
        }
      }
      for (const Region *r : op->regions)
        block(*r->block);
      std::erase_if(live_, [&](const auto &l) {
        auto last = lastUser_.find(l.first);
        return last != lastUser_.end() ? last->second == op : l.first == op;
      });
    }
  }

  std::unordered_map<const Op *, const Op *> lastUser_;
  std::vector<std::pair<const Op *, SharedRange>> live_;
  uint64_t peak_ = 0;
};

} // namespace

std::vector<std::pair<const Op *, SharedRange>> mostShared(const Block &kernel) { return Living(kernel).most; }

const Op *descLoadOf(const Op &operand) {
  const Op *from = operand.operands[0]->def;
  while (from && (from->kind == OpKind::Permute || from->kind == OpKind::Reshape))
    from = from->operands[0]->def;
  return from && from->kind == OpKind::DescLoad ? from : nullptr;
}

/// The operation whose tile a load by descriptor or an operand of asynchronous dots reads; null for others.
static const Op *ownerOfTile(const Op &op) {
  if (op.kind == OpKind::DescLoad)
    return &op;
  if (op.kind != OpKind::ToShared)
    return nullptr;
  const Op *load = descLoadOf(op);
  return load ? load : &op;
}

uint64_t tilesAround(const Op &loop, size_t from) {
  std::set<const Op *> owners;
  const std::vector<Op *> &ops = loop.parent->ops;
  const size_t here = positionOf(*loop.parent, &loop);
  for (size_t i = from; i < here; ++i)
    if (ops[i]->kind == OpKind::ToShared)
      owners.insert(ownerOfTile(*ops[i]));
  for (const Op *op : loop.region(0)->ops)
    for (const Value *v : op->operands)
      if (v->type.isShared && v->def && v->def->parent != loop.region(0))
        owners.insert(v->def->kind == OpKind::ToShared ? ownerOfTile(*v->def) : v->def);
  std::unordered_set<const Op *> before; // loads by descriptor before it
  for (size_t i = 0; i < here; ++i)
    if (ops[i]->kind == OpKind::DescLoad)
      before.insert(ops[i]);
  for (size_t i = here + 1; i < ops.size() && !before.empty(); ++i)
    for (const Value *v : ops[i]->operands)
      if (before.contains(v->def))
        owners.insert(v->def);
  uint64_t bytes = 0;
  for (const Op *op : owners)
    bytes += slotBytes(op->result()->type);
  return bytes;
}

std::optional<uint64_t> scratchOf(const Module &m, const Op &op, uint64_t most) {
  switch (op.kind) {
  case OpKind::Convert: {
    layout::ConversionOptions options;
    options.maxBytes = static_cast<unsigned>(most);
    return planOf(m, op, {}, options).cost.bytes;
  }
  case OpKind::Reduce:
  case OpKind::Exchange:
    return scratchNeed(m, op, {}, 1, {}, true).bytes;
  case OpKind::Scan:
  case OpKind::Gather:
  case OpKind::Histogram:
  case OpKind::ToShared:
  case OpKind::Dot:
    return std::nullopt;
  default:
    if (op.has(traits::Pure) || op.kind == OpKind::Load || op.kind == OpKind::Store || op.kind == OpKind::DescStore ||
        op.kind == OpKind::DescReduce || op.kind == OpKind::Yield || op.kind == OpKind::Condition ||
        op.kind == OpKind::Assume || op.kind == OpKind::Barrier || op.kind == OpKind::Return)
      return 0;
    return std::nullopt;
  }
}

/// Is a block read to registers before the next tile is made, which may then take its bytes (queries that are scaled)?
static bool isReadAtOnce(const Block &b, const Op &load) {
  bool isOver = false;
  for (size_t i = positionOf(b, &load) + 1; i < b.ops.size(); ++i) {
    const Op &op = *b.ops[i];
    isOver |= !op.regions.empty() || makesTiles(op) || op.kind == OpKind::DescLoad || op.kind == OpKind::Dot;
    if (uses(op, load.result()) && (isOver || op.kind == OpKind::ToShared || renames(op.kind)))
      return false;
  }
  return true;
}

/// Is the value computed element by element from tiles of rings alone, so that it can be read from them in any layout
/// (HoistConverts)?
static bool isOfRings(const Block &b, const Value *v, const std::function<bool(const Op &)> &isRing) {
  std::vector<const Value *> work{v};
  for (size_t i = 0; i < work.size(); ++i) {
    const Op *op = work[i]->def;
    if (work[i]->type.isScalar() ||
        (op && (op->kind == OpKind::Const || op->kind == OpKind::Splat || op->kind == OpKind::Range)))
      continue;
    if (!op || op->parent != &b ||
        (op->kind == OpKind::Load ? !isRing(*op) : !op->has(traits::Elementwise) && !renames(op->kind)))
      return false;
    if (op->kind != OpKind::Load)
      std::ranges::copy_if(op->operands, std::back_inserter(work),
                           [&](const Value *o) { return std::ranges::find(work, o) == work.end(); });
  }
  return true;
}

/// Is the value a tile of a ring, or a view of one?
static bool isOfRing(const Block &b, const Value *v, const std::function<bool(const Op &)> &isRing) {
  const Op *op = v->def;
  while (op && op->parent == &b && (op->kind == OpKind::Permute || op->kind == OpKind::Reshape))
    op = op->operands[0]->def;
  return op && op->parent == &b && op->kind == OpKind::Load && isRing(*op);
}

static BesideRings besideRings(const Module &m, const Block &b, const TargetInfo &target,
                               const std::function<bool(const Op &)> &isRing,
                               const std::function<uint64_t(const Block &, uint64_t)> &mostOfScratch, const Op *end,
                               uint64_t around, bool &isOver) {
  constexpr uint64_t guess = 4096;
  BesideRings out;
  uint64_t most = 0; // with a block that is read to registers, and the tiles made before it
  for (const Op *op : b.ops) {
    if (ownerOfTile(*op)) {
      const uint64_t bytes =
          ownerOfTile(*op) == op && !isRing(*op) ? slotBytes(op->result()->type) + SharedMemory::tileAlign : 0;
      if (bytes && op->kind == OpKind::DescLoad && isReadAtOnce(b, *op))
        most = std::max(most, out.tiles + bytes);
      else
        out.tiles += bytes;
    } else if (op->kind == OpKind::For || op->kind == OpKind::While || op->kind == OpKind::If) {
      for (const Region *r : op->regions) {
        const BesideRings inside =
            besideRings(m, *r->block, target, isRing, mostOfScratch, end, around + out.tiles, isOver);
        out.scratch = std::max(out.scratch, inside.tiles + inside.scratch);
        out.buffers = std::max(out.buffers, inside.tiles + inside.buffers);
        out.isKnown &= inside.isKnown;
      }
    } else if (op->kind == OpKind::Convert && isOfRing(b, op->operands[0], isRing)) {
      // read from its ring in the required layout (useTile, HoistConverts)
    } else if (op->kind == OpKind::Convert && isFragment(b, op->result()) && isOfRings(b, op->operands[0], isRing)) {
      // computed in the layout of the dot's operand
    } else if (op->kind != OpKind::Dot) {
      const std::optional<uint64_t> need = scratchOf(m, *op, mostOfScratch(b, around + out.tiles));
      out.isKnown &= need.has_value();
      out.scratch = std::max(out.scratch, need.value_or(takesScratch(*op) ? guess : 0));
      out.buffers = std::max(out.buffers, target.blockStore(m, *op).bytes);
    }
    if (op == end)
      isOver = true;
    if (isOver)
      break;
  }
  out.scratch = std::max(out.scratch, most - std::min(most, out.tiles));
  return out;
}

BesideRings besideRings(const Module &m, const Block &b, const TargetInfo &target,
                        const std::function<bool(const Op &)> &isRing,
                        const std::function<uint64_t(const Block &, uint64_t)> &mostOfScratch, const Op *end) {
  bool isOver = false;
  return besideRings(m, b, target, isRing, mostOfScratch, end, 0, isOver);
}

} // namespace tegula::gpu
