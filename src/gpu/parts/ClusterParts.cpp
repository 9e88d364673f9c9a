// See ClusterParts.h. First every operation ties axes or objects (visit), then groups are split one after the other.
#include "gpu/parts/ClusterParts.h"
#include "gpu/Diagnostics.h"
#include "gpu/Layouts.h"
#include "gpu/Remarks.h"
#include "ir/Builder.h"
#include "ir/Walk.h"
#include "passes/Extremum.h"
#include "passes/RelativeSums.h"
#include "passes/RunningMoments.h"
#include <algorithm>
#include <limits>
#include <numeric>

namespace tegula::gpu {

using namespace ir;

// ---- values

bool ClusterParts::isFree(const Value *v) const {
  if (v->type.isScalar() || !v->def)
    return v->type.isScalar();
  auto [it, isNew] = free_.try_emplace(v, false);
  if (!isNew)
    return it->second;
  const Op &op = *v->def;
  bool free = op.kind == OpKind::Const || op.kind == OpKind::Poison || op.kind == OpKind::Range;
  if (renames(op.kind) || (op.has(traits::Elementwise) && op.has(traits::Pure)))
    free = std::all_of(op.operands.begin(), op.operands.end(), [&](const Value *o) { return isFree(o); });
  for (unsigned d = 0; free && op.kind == OpKind::Reshape && d < v->type.shape.rank(); ++d)
    free = v->type.shape[d] < ctas_ || axisBehind(op, static_cast<int>(d)).has_value();
  return free_[v] = free;
}

std::optional<int> ClusterParts::axisBehind(const Op &op, int axis, int64_t parts) {
  const Type &from = op.operands[0]->type, &to = op.result()->type;
  if (axis == whole || from.isScalar())
    return whole;
  auto d = static_cast<unsigned>(axis);
  switch (op.kind) {
  case OpKind::ExpandDims: {
    auto at = static_cast<unsigned>(op.axis());
    return d == at ? whole : static_cast<int>(d - (d > at));
  }
  case OpKind::Broadcast:
    return from.shape[d] == to.shape[d] ? axis : whole;
  case OpKind::Permute:
    return static_cast<int>(op.perm()[d]);
  default: {
    // Parts are the same if the axes begin at the same position of the row-major index.
    int64_t outer = 1, before = 1;
    for (unsigned k = 0; k < d; ++k)
      outer *= to.shape[k];
    for (unsigned k = 0; k < from.shape.rank(); before *= from.shape[k], ++k)
      if (before == outer && from.shape[k] >= parts)
        return static_cast<int>(k);
    return std::nullopt;
  }
  }
}

// ---- groups

unsigned ClusterParts::node(const void *entity, const Type &t, unsigned axis) {
  auto [it, isNew] = nodeOf_.try_emplace({entity, axis}, static_cast<unsigned>(nodes_.size()));
  if (isNew) {
    nodes_.push_back({entity, axis, t.shape[axis], it->second});
    groups_.emplace_back();
  }
  return it->second;
}

unsigned ClusterParts::find(unsigned n) {
  while (nodes_[n].group != n)
    n = nodes_[n].group = nodes_[nodes_[n].group].group;
  return n;
}

void ClusterParts::unite(unsigned a, unsigned b) {
  a = find(a);
  b = find(b);
  if (a == b)
    return;
  nodes_[b].group = a;
  Group &to = groups_[a], &from = groups_[b];
  to.isReduced |= from.isReduced;
  if (!to.obstacle) {
    to.obstacle = from.obstacle;
    to.why = std::move(from.why);
  }
}

void ClusterParts::tie(const Op &op, const Value *operand, unsigned axis, unsigned with) {
  for (;;) {
    if (isFree(operand))
      return;
    if (!operand->def || !renames(operand->def->kind))
      return unite(node(operand, operand->type, axis), with);
    std::optional<int> behind = axisBehind(*operand->def, static_cast<int>(axis));
    if (!behind && operand->type.shape[axis] >= ctas_)
      block(*operand->def, with, "parts of its result are no parts of what is reshaped");
    if (!behind || *behind == whole)
      return;
    axis = static_cast<unsigned>(*behind);
    operand = operand->def->operands[0];
  }
}

void ClusterParts::tieAll(const Op &op, const void *entity, const Type &t, std::span<Value *const> operands) {
  for (unsigned d = 0; d < t.shape.rank(); ++d) {
    unsigned n = node(entity, t, d);
    for (const Value *v : operands)
      if (v->type.isTensor())
        tie(op, v, d, n);
  }
}

void ClusterParts::block(const Op &op, unsigned n, std::string why) {
  Group &g = groups_[find(n)];
  if (g.obstacle)
    return;
  g.obstacle = &op;
  g.why = std::move(why);
}

void ClusterParts::blockOperand(const Op &op, const Value *operand, unsigned axis, const char *why) {
  // A separate node ties the values from which the operand is made.
  unsigned n = static_cast<unsigned>(nodes_.size());
  nodes_.push_back({nullptr, axis, operand->type.shape[axis], n});
  groups_.emplace_back();
  tie(op, operand, axis, n);
  block(op, n, why);
}

void ClusterParts::atLeast(const Op &op, unsigned n, int64_t part) {
  if (nodes_[n].extent / ctas_ < part)
    block(op, n,
          "a part would have fewer than " + std::to_string(part) + " of the " + std::to_string(nodes_[n].extent) +
              " elements along an axis");
}

// ---- operations

void ClusterParts::visit(const Block &b) {
  for (const Op *op : b.ops)
    visit(*op);
}

void ClusterParts::visit(const Op &op) {
  switch (op.kind) {
  case OpKind::For:
    if (op.splitParts())
      return visitSplit(op);
    [[fallthrough]];
  case OpKind::While:
  case OpKind::If:
    for (const Region *r : op.regions)
      visit(*r->block);
    return visitControl(op);
  case OpKind::Dot:
    return visitDot(op);
  case OpKind::Reduce:
    return visitReduce(op);
  case OpKind::Scan: {
    for (const Value *r : op.results) {
      tieAll(op, r, r->type, op.operands);
      auto axis = static_cast<unsigned>(op.axis());
      block(op, node(r, r->type, axis), "it goes along axis " + std::to_string(axis) + " of " + str(r->type));
    }
    return;
  }
  case OpKind::Join:
  case OpKind::Split:
  case OpKind::Cat:
    return visitJoin(op);
  case OpKind::Gather:
    return visitGather(op);
  case OpKind::Histogram:
    others_.push_back({&op, &op, &op.operands[0]->type});
    block(op, node(op.result(), op.result()->type, 0), "every part has elements of all bins");
    return tieAll(op, &op, op.operands[0]->type, op.operands);
  case OpKind::DescLoad:
  case OpKind::DescStore:
  case OpKind::DescReduce:
    return visitDescriptor(op);
  case OpKind::Store:
  case OpKind::Assert:
    if (op.kind == OpKind::Store)
      stores_.push_back({&op, &op, &op.operands[0]->type});
    return tieAll(op, &op, op.operands[0]->type, op.operands);
  case OpKind::Print:
  case OpKind::Unsplat:
    for (const Value *v : op.operands)
      for (unsigned d = 0; d < v->type.shape.rank(); ++d)
        blockOperand(op, v, d, "it takes the whole tensor");
    return;
  case OpKind::AsmEffect:
    for (const Value *r : op.results) {
      tieAll(op, r, r->type, op.operands);
      for (unsigned d = 0; d < r->type.shape.rank(); ++d)
        block(op, node(r, r->type, d), "nobody knows what it does");
    }
    return;
  case OpKind::Reshape: {
    // Axes whose parts are not parts of any axis of the result.
    std::vector<bool> isKept(op.operands[0]->type.shape.rank());
    for (unsigned d = 0; d < op.result()->type.shape.rank(); ++d)
      if (std::optional<int> behind = axisBehind(op, static_cast<int>(d)); behind && *behind != whole)
        isKept[static_cast<size_t>(*behind)] = true;
    for (unsigned d = 0; d < isKept.size(); ++d)
      if (!isKept[d])
        blockOperand(op, op.operands[0], d, "parts of what is reshaped are no parts of its result");
    return;
  }
  default:
    break;
  }
  if (op.results.size() != 1 || op.result()->type.isScalar() || isFree(op.result()) || renames(op.kind))
    return;
  const Value *r = op.result();
  bool isAtomic = op.kind == OpKind::AtomicRmw || op.kind == OpKind::AtomicCas, isLoad = op.kind == OpKind::Load;
  if (!isAtomic && !isLoad && !op.has(traits::Elementwise)) { // an operation not handled above
    for (const Value *v : op.operands)
      for (unsigned d = 0; d < v->type.shape.rank(); ++d)
        blockOperand(op, v, d, "nobody knows what a part of it is");
    for (unsigned d = 0; d < r->type.shape.rank(); ++d)
      block(op, node(r, r->type, d), "nobody knows what a part of it is");
    return;
  }
  tieAll(op, r, r->type, op.operands);
  if (isAtomic || isLoad)
    (isAtomic ? stores_ : others_).push_back({&op, r, &r->type});
}

/// Every CTA executes its iterations on whole tensors, also on tensors from before the loop.
void ClusterParts::visitSplit(const Op &loop) {
  auto isWhole = [&](const Op &op, const Value *v) {
    for (unsigned d = 0; d < v->type.shape.rank(); ++d)
      blockOperand(op, v, d, "every CTA wants all of it for its iterations");
  };
  for (const Value *v : loop.operands)
    isWhole(loop, v);
  anyOp(*loop.region(0), [&](const Op &op) {
    for (const Value *v : op.operands)
      if (!isInside(v, loop))
        isWhole(op, v);
    return false;
  });
  const std::vector<CarriedRole> roles = carriedRoles(loop);
  for (size_t i = 0; i < loop.results.size(); ++i)
    if (const Type &t = loop.results[i]->type; roles[i].kind != CarriedRole::Kind::Sum)
      for (unsigned d = 0; d < t.shape.rank(); ++d)
        block(loop, node(loop.results[i], t, d), "all CTAs have it");
  any_ = true;
}

void ClusterParts::visitDot(const Op &op) {
  const Value *a = op.operands[0], *b = op.operands[1], *r = op.result();
  unsigned rank = r->type.shape.rank(), m = rank - 2, n = rank - 1;
  tieAll(op, r, r->type, {&op.operands[2], 1});
  for (unsigned d = 0; d < m; ++d) {
    tie(op, a, d, node(r, r->type, d));
    tie(op, b, d, node(r, r->type, d));
  }
  tie(op, a, m, node(r, r->type, m));
  tie(op, b, n, node(r, r->type, n));
  constexpr int64_t least = 16; // rows or columns of a tensor core instruction
  atLeast(op, node(r, r->type, m), least);
  atLeast(op, node(r, r->type, n), least);
  unsigned k = node(&op, a->type, n); // the contraction
  tie(op, a, n, k);
  tie(op, b, m, k);
  block(op, k, "its sums go along axis " + std::to_string(n) + " of " + str(a->type));
  dots_.push_back({&op, r, &r->type});
}

namespace {

/// A result of a loop whose iterations are shared; null for other values.
const Op *sharedLoopOf(const Value *v) {
  return v->def && v->def->kind == OpKind::For && v->def->splitParts() ? v->def : nullptr;
}

/// May `v` be computed element by element from sums of such a loop? (A reduction of these is an ordinary number.)
bool isMadeOfLanes(const Value *v, unsigned depth = 0) {
  constexpr unsigned deepest = 8;
  return sharedLoopOf(v) || depth > deepest ||
         (v->def && v->def->kind != OpKind::Reduce &&
          std::ranges::any_of(v->def->operands, [&](const Value *o) { return isMadeOfLanes(o, depth + 1); }));
}

/// The loop of total * exp(factor * (top - all)), where `top` is a maximum and `total` a sum of the loop, and `all` is
/// the same for all elements of a row; null for other values. If `all` is -inf, the difference may be 0 instead.
const Op *loopOfScaled(const Value *v) {
  const Op *product = v->def;
  if (!product || product->kind != OpKind::FMul)
    return nullptr;
  const size_t sum = sharedLoopOf(product->operands[0]) ? 0 : 1;
  const Op *loop = sharedLoopOf(product->operands[sum]), *exponential = product->operands[1 - sum]->def;
  if (!loop || !exponential)
    return nullptr;
  const std::vector<CarriedRole> roles = rolesOfParts(*loop);
  const CarriedRole &role = roles[product->operands[sum]->index];
  if (role.kind != CarriedRole::Kind::Scaled || exponential->kind != role.scale->kind)
    return nullptr;
  const Op *fall = exponential->operands[0]->def;
  if (role.factor) {
    if (!fall || fall->kind != OpKind::FMul || constantFloat(fall->operands[1]) != role.factor)
      return nullptr;
    fall = fall->operands[0]->def;
  }
  const Value *condition = nullptr;
  if (fall && fall->kind == OpKind::Select && constantFloat(fall->operands[1]) == 0.0) {
    condition = behindSpreads(fall->operands[0]);
    fall = fall->operands[2]->def;
  }
  if (!fall || fall->kind != OpKind::FSub || fall->operands[0] != loop->results[role.top])
    return nullptr;
  const Value *const all = behindSpreads(fall->operands[1]);
  const auto isOfAll = [&] { // all == -inf
    return condition->def && condition->def->kind == OpKind::CmpF && condition->def->pred() == CmpPred::Oeq &&
           behindSpreads(condition->def->operands[0]) == all &&
           constantFloat(behindSpreads(condition->def->operands[1])) == -std::numeric_limits<double>::infinity();
  };
  return !isMadeOfLanes(all) && (!condition || isOfAll()) ? loop : nullptr;
}

} // namespace

bool ClusterParts::addsOwn(const Op &reduce) const {
  if (joinsMoments(reduce))
    return sharedLoopOf(reduce.operands[0]);
  if (reduce.kind != OpKind::Reduce || reduce.operands.size() != 1 || reduce.result()->type.numel() != 1)
    return false;
  // CTAs cannot exchange numbers in a loop whose trip count differs between CTAs.
  const Op *loop = sharedLoopOf(reduce.operands[0]);
  if (!loop) {
    const Op *of = onlyOperation(reduce) == OpKind::FAdd ? loopOfScaled(reduce.operands[0]) : nullptr;
    return of && of->parent == reduce.parent;
  }
  if (reduce.parent != loop->parent)
    return false;
  const CarriedRole role = rolesOfParts(*loop)[reduce.operands[0]->index];
  return (role.kind == CarriedRole::Kind::Sum && onlyOperation(reduce) == role.combine) ||
         (role.kind == CarriedRole::Kind::Top && maximumOfElements(reduce) == role.combine);
}

bool ClusterParts::isOfOwn(const Value *v) const {
  return sharedLoopOf(v) || (v->def && v->def->has(traits::Elementwise) &&
                             std::ranges::any_of(v->def->operands, [&](const Value *o) { return isOfOwn(o); }));
}

void ClusterParts::visitReduce(const Op &op) {
  if (addsOwn(op))
    return;
  const Type &t = op.operands[0]->type;
  auto axis = static_cast<unsigned>(op.axis());
  tieAll(op, &op, t, op.operands);
  groups_[find(node(&op, t, axis))].isReduced = true;
  for (const Value *r : op.results)
    for (unsigned d = 0; d < r->type.shape.rank(); ++d)
      unite(node(r, r->type, d), node(&op, t, d + (d >= axis)));
  others_.push_back({&op, &op, &t});
}

void ClusterParts::visitJoin(const Op &op) {
  const Type &from = op.operands[0]->type;
  const Type &longer = op.kind == OpKind::Split ? from : op.result()->type;
  unsigned axis = op.kind == OpKind::Cat ? static_cast<unsigned>(op.axis()) : longer.shape.rank() - 1;
  for (unsigned d = 0; d < longer.shape.rank(); ++d) {
    unsigned n = node(op.kind == OpKind::Split ? static_cast<const void *>(&op) : op.result(), longer, d);
    if (d == axis) {
      block(op, n, "both halves along axis " + std::to_string(axis) + " of " + str(longer) + " belong together");
      if (op.kind != OpKind::Cat && op.kind != OpKind::Split)
        continue;
    }
    for (const Value *v : op.operands)
      tie(op, v, d, n);
    if (op.kind == OpKind::Split && d != axis)
      for (const Value *r : op.results)
        if (r->type.isTensor())
          unite(node(r, r->type, d), n);
  }
}

void ClusterParts::visitGather(const Op &op) {
  const Value *source = op.operands[0], *index = op.operands[1], *r = op.result();
  auto axis = static_cast<unsigned>(op.axis());
  tieAll(op, r, r->type, {&op.operands[1], 1});
  for (unsigned d = 0; d < index->type.shape.rank(); ++d) {
    unsigned n = d == axis ? node(&op, source->type, d) : node(r, r->type, d);
    tie(op, source, d, n);
    if (d == axis)
      block(op, n, "it may take any element along axis " + std::to_string(axis) + " of " + str(source->type));
  }
}

void ClusterParts::visitDescriptor(const Op &op) {
  bool isLoad = op.kind == OpKind::DescLoad;
  const Type &t = isLoad ? op.result()->type : op.operands.back()->type;
  const void *entity = isLoad ? static_cast<const void *>(op.result()) : &op;
  tieAll(op, entity, t, isLoad ? std::span<Value *const>() : std::span<Value *const>(&op.operands.back(), 1));
  if (std::none_of(blocks_.begin(), blocks_.end(), [&](const Op *o) {
        return o->kind == op.kind && o->operands[0] == op.operands[0] && descAccess(*o).block == t.shape;
      }))
    blocks_.push_back(&op);
  // Columns start at multiples of 16 bytes.
  unsigned last = t.shape.rank() - 1;
  atLeast(op, node(entity, t, last), 16 / byteWidth(t.elem));
  (isLoad ? others_ : stores_).push_back({&op, entity, &t});
}

/// Values that become each other at the boundary of a region are split alike.
void ClusterParts::visitControl(const Op &op) {
  auto meet = [&](const Value *v, std::initializer_list<const Value *> others) {
    for (unsigned d = 0; d < v->type.shape.rank(); ++d)
      for (const Value *o : others)
        tie(op, o, d, node(v, v->type, d));
  };
  for (size_t i = 0; i < op.results.size(); ++i) {
    const Value *r = op.results[i];
    if (op.kind == OpKind::If) {
      meet(r, {op.region(0)->terminator()->operands[i], op.region(1)->terminator()->operands[i]});
    } else if (op.kind == OpKind::For) {
      meet(r, {op.region(0)->args[1 + i], op.operands[3 + i], op.region(0)->terminator()->operands[i]});
    } else {
      meet(op.region(0)->args[i], {op.operands[i], op.region(1)->terminator()->operands[i]});
      meet(r, {op.region(1)->args[i], op.region(0)->terminator()->operands[1 + i]});
    }
  }
}

// ---- decisions

void ClusterParts::close() {
  for (unsigned n = 0; n < nodes_.size(); ++n) {
    unsigned g = find(n);
    groups_[g].nodes.push_back(n);
  }
}

bool ClusterParts::trySplit(unsigned n, const Work &w) {
  Group &g = groups_[find(n)];
  if (g.isSplit || g.obstacle)
    return g.isSplit;
  auto blame = [&](std::string why) {
    g.obstacle = w.op;
    g.why = std::move(why);
    return false;
  };
  std::map<const void *, unsigned> mine;
  for (unsigned i : g.nodes) {
    const Node &node = nodes_[i];
    if (node.extent < ctas_)
      return blame("an axis of " + std::to_string(node.extent) + " is too short for " + std::to_string(ctas_) +
                   " parts");
    if (node.entity && (!mine.try_emplace(node.entity, node.axis).second || ofEntity(node.entity) != whole))
      return blame("a tensor would have to be split along two axes");
  }
  for (auto [entity, axis] : mine)
    split_[entity] = static_cast<int>(axis);
  return any_ = g.isSplit = true;
}

/// Splits rows while the part fills a warpgroup's instruction, else columns, else rows.
void ClusterParts::splitDot(const Work &w) {
  if (ofEntity(w.entity) != whole)
    return;
  unsigned rank = w.type->shape.rank(), rows = node(w.entity, *w.type, rank - 2),
           columns = node(w.entity, *w.type, rank - 1);
  constexpr int64_t warpgroup = 64;
  if (w.type->shape[rank - 2] / ctas_ >= warpgroup && trySplit(rows, w))
    return;
  if (!trySplit(columns, w))
    trySplit(rows, w);
}

void ClusterParts::splitOther(const Work &w) {
  if (w.type->isScalar() || ofEntity(w.entity) != whole)
    return;
  std::vector<unsigned> order(w.type->shape.rank());
  std::iota(order.begin(), order.end(), 0u);
  auto isReduced = [&](unsigned d) { return groups_[find(node(w.entity, *w.type, d))].isReduced; };
  std::sort(order.begin(), order.end(), [&](unsigned a, unsigned b) {
    bool ra = isReduced(a), rb = isReduced(b);
    return ra != rb ? rb : w.type->shape[a] != w.type->shape[b] ? w.type->shape[a] > w.type->shape[b] : a < b;
  });
  for (unsigned d : order)
    if (trySplit(node(w.entity, *w.type, d), w))
      return;
}

void ClusterParts::report(const Op &obstacle, const char *work, const std::string &why, DiagEngine &diag) const {
  diag.report(diag::notShared, userLocation(module_, obstacle), ctas_, work, info(obstacle.kind).name, why);
}

/// Reports the obstacle of the first axis that has one; work that is not split without an obstacle gets no remark.
void ClusterParts::remark(const Work &w, DiagEngine &diag) {
  if (w.type->isScalar() || ofEntity(w.entity) != whole)
    return;
  for (unsigned d = 0; d < w.type->shape.rank(); ++d) {
    const Group &g = groups_[find(node(w.entity, *w.type, d))];
    if (!g.obstacle || std::find(blamed_.begin(), blamed_.end(), g.obstacle) != blamed_.end())
      continue;
    blamed_.push_back(g.obstacle);
    return report(*g.obstacle, info(w.op->kind).name, g.why, diag);
  }
}

/// A load whose value may differ between the CTAs of a program because other programs write the memory; null if there
/// is none.
static const Op *mayWait(const Block &b, bool inWhile) {
  for (const Op *op : b.ops) {
    if (op->kind == OpKind::Load && (inWhile || op->isVolatile() || op->cache() == ".cv"))
      return op;
    for (const Region *r : op->regions)
      if (const Op *found = mayWait(*r->block, inWhile || op->kind == OpKind::While))
        return found;
  }
  return nullptr;
}

ClusterParts::ClusterParts(const Module &m, unsigned ctas, DiagEngine *remarks) : module_(m), ctas_(ctas) {
  const Function &f = *m.kernel();
  if (const Op *load = mayWait(*f.block(), false)) {
    if (remarks)
      report(*load, "kernel", "it may wait for a value that another program stores", *remarks);
    return;
  }
  visit(*f.block());
  // A launch has room for 16 tensor maps (runtime/TensorMaps.h); whole blocks, parts and multicast blocks need
  // different ones.
  constexpr size_t mostBlocks = 8;
  if (blocks_.size() > mostBlocks) {
    if (remarks)
      report(*blocks_[mostBlocks], "kernel", "it accesses more than 8 kinds of blocks through descriptors", *remarks);
    return;
  }
  close();
  for (const Work &w : dots_)
    splitDot(w);
  for (const auto *list : {&stores_, &others_})
    for (const Work &w : *list)
      splitOther(w);
  if (!remarks)
    return;
  for (const auto *list : {&dots_, &stores_})
    for (const Work &w : *list)
      remark(w, *remarks);
}

int ClusterParts::of(const Op &op) const {
  switch (op.kind) {
  case OpKind::Store:
  case OpKind::Assert:
  case OpKind::DescStore:
  case OpKind::DescReduce:
  case OpKind::Reduce:
  case OpKind::Histogram:
  case OpKind::Split:
    return ofEntity(&op);
  default:
    return op.results.empty() ? whole : ofEntity(op.result());
  }
}

} // namespace tegula::gpu
