// See PartitionCluster.h. Rewrites the kernel; `want` makes the part of a value that a user needs.
#include "gpu/parts/PartitionCluster.h"
#include "gpu/BlockEdit.h"
#include "gpu/FormWriter.h"
#include "gpu/Layouts.h"
#include "gpu/parts/ClusterParts.h"
#include "gpu/parts/DealLoops.h"
#include "ir/Clone.h"
#include "passes/AxisFacts.h"
#include "passes/HoistInvariants.h"
#include "passes/RemoveDead.h"
#include "passes/SplitLoops.h"
#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

namespace tegula::gpu {

using namespace ir;

namespace {

constexpr int whole = ClusterParts::whole;

/// The form of a value is the axis along which it is partitioned; ClusterParts::whole: each CTA has the whole value.
class Partitioner : FormWriter {
public:
  Partitioner(const Function &f, const ClusterParts &parts, unsigned ctas, Module &out)
      : FormWriter(out, whole), f_(f), parts_(parts), ctas_(ctas), facts_(f), users_(*f.block()) {}

  /// Returns false if ClusterParts has missed a tie; the written kernel is then invalid.
  bool run() {
    Function *g = writeKernel(f_);
    front_.parent = g->body;
    splice(front_, *g->block(), 0);
    return isRight_;
  }

private:
  int formOf(const Value *v) override { return parts_.of(v); }
  Type typeIn(const Value *v, int form) override { return partOf(v->type, form); }
  Value *want(const Value *v, int part) override;
  void compute(const Op &op) override;
  void finish(const Op &op, const Op &now, std::span<const int> forms) override;
  Type partOf(const Type &t, int axis) const {
    if (axis == whole)
      return t;
    Shape s = t.shape;
    s.set(static_cast<unsigned>(axis), s[static_cast<unsigned>(axis)] / ctas_);
    return t.withShape(s);
  }
  void reduce(const Op &op, int axis);
  void histogram(const Op &op, int axis);
  void relativeSums(const Op &loop, const Op &now, size_t top, const std::vector<CarriedRole> &roles);
  Value *ownOf(const Value *v);

  Value *range(const Op &op);
  /// The index of the first element of this CTA if a part has `part` elements.
  Value *firstOf(int64_t part);
  Value *gather(Value *part);
  Value *combined(Value *own, OpKind how, int axis);
  void combine(Op &reduce, OpKind how);
  int operandPart(const Op &op, unsigned operand, int axis) const;
  void shiftHints(Op &op, int axis) const;
  void descriptor(const Op &old, Op &now, int axis);

  const Function &f_;
  const ClusterParts &parts_;
  int64_t ctas_;
  AxisFacts facts_;
  const Users users_;
  std::unordered_map<const Value *, Value *> own_; // this CTA's sums of loops whose iterations are shared
  Block front_; // operations at the beginning of the kernel
  Value *rank_ = nullptr;
  bool isRight_ = true;
  std::map<int64_t, Value *> firsts_;
};

// ---- values

Value *Partitioner::firstOf(int64_t part) {
  Value *&first = firsts_[part];
  if (first)
    return first;
  Block *saved = b_.block();
  b_.setBlock(&front_);
  if (!rank_)
    rank_ = b_.create1(OpKind::ClusterRank, {}, Type::scalar(Elem::I32));
  first = b_.binary(OpKind::Mul, rank_, b_.constI32(static_cast<int32_t>(part)));
  b_.setBlock(saved);
  return first;
}

Value *Partitioner::range(const Op &op) {
  Type t = partOf(op.result()->type, 0);
  Value *r = clone(op, {}, {&t, 1})->result();
  return b_.binary(OpKind::Add, r, b_.splat(firstOf(t.shape[0]), t.shape));
}

/// Limits the user's hints about groups along an axis to the groups within a part.
void Partitioner::shiftHints(Op &op, int axis) const {
  if (axis == whole || op.results.size() != 1)
    return;
  auto d = static_cast<size_t>(axis);
  int64_t part = op.result()->type.shape[static_cast<unsigned>(axis)];
  for (Attr &a : op.attrs)
    if (a.key == attr::divisibility) {
      if (auto &list = std::get<std::vector<int64_t>>(a.value); d < list.size())
        list[d] = std::gcd(list[d], part);
    }
}

Value *Partitioner::want(const Value *v, int part) {
  if (v->type.isScalar())
    part = whole;
  if (Value *done = find(v, part))
    return done;
  const Op *op = v->def;
  if (!op || !(renames(op->kind) || parts_.isFree(v))) {
    isRight_ = false; // the user needs another part than is computed: the kernel is not split
    return b_.poison(partOf(v->type, part));
  }
  Value *made;
  if (op->kind == OpKind::Range && part != whole) {
    made = range(*op);
  } else {
    std::vector<Value *> operands;
    for (const Value *o : op->operands)
      operands.push_back(want(o, renames(op->kind) ? parts_.axisBehind(*op, part).value_or(whole) : part));
    Type t = partOf(v->type, part);
    Op *now = clone(*op, operands, {&t, 1});
    shiftHints(*now, part);
    made = now->result();
  }
  define(v, part, made);
  return made;
}

/// Gathers the parts of all CTAs along a new first axis.
Value *Partitioner::gather(Value *part) {
  Shape s = part->type.shape;
  s.insert(0, ctas_);
  return b_.create1(OpKind::ClusterGather, {part}, part->type.withShape(s));
}

// ---- operations

/// The form of an operand that the operation needs if its work is split along `axis`.
int Partitioner::operandPart(const Op &op, unsigned operand, int axis) const {
  if (axis == whole || op.operands[operand]->type.isScalar())
    return whole;
  switch (op.kind) {
  case OpKind::Dot: {
    int columns = static_cast<int>(op.result()->type.shape.rank()) - 1, rows = columns - 1;
    bool isMissing = (operand == 0 && axis == columns) || (operand == 1 && axis == rows);
    return isMissing ? whole : axis;
  }
  case OpKind::Gather:
    return operand == 0 && axis == op.axis() ? whole : axis;
  default:
    return axis;
  }
}

static bool isAccess(OpKind k) {
  return k == OpKind::Load || k == OpKind::Store || k == OpKind::AtomicRmw || k == OpKind::AtomicCas || isDescOp(k) ||
         k == OpKind::Print;
}

/// Is the operation in a loop whose iterations the CTAs share? Then only one CTA executes it for each iteration.
static bool isOfSplit(const Op &op) {
  for (const Op *o = op.parent->parent->op; o; o = o->parent->parent->op)
    if (o->kind == OpKind::For && o->splitParts())
      return true;
  return false;
}

void Partitioner::compute(const Op &op) {
  if (op.results.size() == 1 && op.result()->type.isTensor() && (renames(op.kind) || parts_.isFree(op.result())))
    return; // made where it is needed
  int axis = parts_.of(op);
  if (op.kind == OpKind::Reduce)
    return reduce(op, axis);
  if (op.kind == OpKind::Histogram)
    return histogram(op, axis);
  std::vector<Value *> operands;
  std::vector<Type> results;
  for (unsigned i = 0; i < op.operands.size(); ++i)
    operands.push_back(want(op.operands[i], operandPart(op, i, axis)));
  for (const Value *r : op.results)
    results.push_back(partOf(r->type, axis));
  Op *now = clone(op, operands, results);
  shiftHints(*now, axis);
  if (!op.regions.empty())
    scalarRegion(op, *now);
  if (isDescOp(op.kind) && axis != whole)
    descriptor(op, *now, axis);
  if (isAccess(op.kind) && axis == whole && !isOfSplit(op))
    now->set(attr::whole, true);
  for (size_t i = 0; i < op.results.size(); ++i)
    define(op.results[i], axis, now->results[i]);
}

/// Shifts the block to the part of this CTA, and records whether the whole blocks are tiles of a grid (`tiled`): then
/// only one CTA writes each element. The offsets of parts no longer show this.
void Partitioner::descriptor(const Op &old, Op &now, int axis) {
  DescAccess a = descAccess(old);
  unsigned n = a.rank();
  size_t at = 1 + 2 * n + static_cast<size_t>(axis);
  Block *block = b_.block();
  block->ops.pop_back();
  Value *first = firstOf(a.block[static_cast<unsigned>(axis)] / ctas_);
  now.operands[at] = b_.binary(OpKind::Add, now.operands[at], first);
  block->ops.push_back(&now);
  if (!a.value)
    return;
  bool tiled = true;
  for (unsigned d = 0; d < n; ++d)
    tiled &= facts_.of(a.offsets[d]).axes[0].divisibility % a.block[d] == 0;
  now.set(attr::part, axis);
  now.set(attr::tiled, tiled);
}

void Partitioner::reduce(const Op &op, int axis) {
  auto along = static_cast<int>(op.axis());
  std::vector<Value *> operands;
  std::vector<Type> results;
  const bool isOwn = parts_.addsOwn(op);
  for (const Value *v : op.operands)
    operands.push_back(isOwn ? ownOf(v) : want(v, axis));
  int left = axis == whole || axis == along ? whole : axis - (axis > along);
  for (const Value *r : op.results)
    results.push_back(partOf(r->type, left));
  Op *now = clone(op, operands, results);
  scalarRegion(op, *now);
  if (isOwn || (axis != whole && axis == along)) {
    std::vector<Value *> parts;
    for (Value *r : now->results)
      parts.push_back(gather(r));
    now = clone(op, parts, results);
    now->set(attr::axis, 0);
    scalarRegion(op, *now);
  }
  for (size_t i = 0; i < op.results.size(); ++i)
    define(op.results[i], left, now->results[i]);
}

/// This CTA's version of `v`: a sum of a loop, or a value computed from such sums element by element.
Value *Partitioner::ownOf(const Value *v) {
  if (const auto own = own_.find(v); own != own_.end())
    return own->second;
  if (!parts_.isOfOwn(v))
    return want(v, whole);
  std::vector<Value *> operands;
  for (const Value *o : v->def->operands)
    operands.push_back(ownOf(o));
  return clone(*v->def, operands, {&v->type, 1})->result();
}

/// Fills the region of a reduction of one operand.
void Partitioner::combine(Op &reduce, OpKind how) {
  Block *saved = b_.block(), *to = reduce.region(0);
  b_.setBlock(to);
  Type t = reduce.operands[0]->type.scalarType();
  Value *x = out_.addArg(to, t), *y = out_.addArg(to, t), *both[] = {b_.binary(how, x, y)};
  b_.yield(both);
  b_.setBlock(saved);
}

/// Combines the values of all CTAs, and gives the part along `axis` of the result. The order of summands is that of the
/// CTAs, or, as only one CTA sums each part, that of their distance from it (its own first). Either order is
/// deterministic.
Value *Partitioner::combined(Value *own, OpKind how, int axis) {
  Type part = partOf(own->type, axis);
  Shape s = part.shape;
  s.insert(0, ctas_);
  Value *all = b_.create1(OpKind::ClusterGather, {own}, part.withShape(s));
  if (axis != whole)
    all->def->set(attr::part, axis);
  Op *sum = b_.create(OpKind::Reduce, {&all, 1}, {&part, 1}, {{attr::axis, 0}});
  combine(*sum, how);
  return sum->result();
}

void Partitioner::finish(const Op &op, const Op &now, std::span<const int> forms) {
  if (op.kind != OpKind::For || !op.splitParts())
    return FormWriter::finish(op, now, forms);
  const std::vector<CarriedRole> roles = rolesOfParts(op);
  b_.setLoc(op.loc);
  b_.setInlinedAt(op.inlinedAt);
  for (size_t i = 0; i < op.results.size(); ++i) {
    own_[op.results[i]] = now.results[i];
    isRight_ &= roles[i].kind != CarriedRole::Kind::Other; // as before its iterations were partitioned
    if (roles[i].kind == CarriedRole::Kind::Top)
      relativeSums(op, now, i, roles);
    if (roles[i].kind == CarriedRole::Kind::Scaled || roles[i].kind == CarriedRole::Kind::Top ||
        roles[i].kind == CarriedRole::Kind::Moment)
      continue;
    const int form = parts_.of(op.results[i]);
    if (const std::span<Op *const> users = users_.of(op.results[i]);
        !users.empty() && std::ranges::all_of(users, [&](const Op *user) { return parts_.addsOwn(*user); }))
      continue;
    const bool isSum = roles[i].kind == CarriedRole::Kind::Sum;
    define(op.results[i], isSum ? form : whole,
           isSum ? combined(now.results[i], roles[i].combine, form) : now.results[i]);
  }
}

/// Combines the parts of a maximum and of the sums of exponentials relative to it.
void Partitioner::relativeSums(const Op &loop, const Op &now, size_t top, const std::vector<CarriedRole> &roles) {
  Value *tops = gather(now.results[top]);
  std::map<size_t, Value *> sums; // all exchanges together
  for (size_t i = 0; i < roles.size(); ++i)
    if (roles[i].kind == CarriedRole::Kind::Scaled && roles[i].top == top)
      sums[i] = gather(now.results[i]);
  const Type t = now.results[top]->type;
  Op *most = b_.create(OpKind::Reduce, {&tops, 1}, {&t, 1}, {{attr::axis, 0}});
  combine(*most, roles[top].combine);
  define(loop.results[top], whole, most->result());
  Value *all = t.isScalar() ? b_.splat(most->result(), tops->type.shape)
                            : b_.broadcast(b_.expandDims(most->result(), 0), tops->type.shape);
  Value *fall = b_.binary(OpKind::FSub, tops, all);
  if (roles[top].isGuarded) // if all parts have only -inf
    fall = b_.select(b_.cmp(CmpPred::Oeq, all, b_.constFloat(all->type, -std::numeric_limits<double>::infinity())),
                     b_.constFloat(fall->type, 0), fall);
  for (auto [i, parts] : sums) {
    Value *by = roles[i].factor ? b_.binary(OpKind::FMul, fall, b_.constFloat(fall->type, *roles[i].factor)) : fall;
    const Op &scale = *roles[i].scale;
    Value *scaled =
        b_.binary(OpKind::FMul, parts, b_.create(scale.kind, {&by, 1}, {&by->type, 1}, scale.attrs)->result());
    Op *total = b_.create(OpKind::Reduce, {&scaled, 1}, {&t, 1}, {{attr::axis, 0}});
    combine(*total, OpKind::FAdd);
    define(loop.results[i], whole, total->result());
  }
}

void Partitioner::histogram(const Op &op, int axis) {
  std::vector<Value *> operands;
  for (const Value *v : op.operands)
    operands.push_back(want(v, axis));
  const Type &t = op.result()->type;
  Value *bins = clone(op, operands, {&t, 1})->result();
  if (axis != whole) {
    Value *all[] = {gather(bins)};
    Op *sum = b_.create(OpKind::Reduce, all, {&t, 1}, {{attr::axis, 0}});
    combine(*sum, OpKind::Add);
    bins = sum->result();
  }
  define(op.result(), whole, bins);
}

} // namespace

std::unique_ptr<Module> partitionCluster(const Module &given, unsigned ctas, DiagEngine *remarks) {
  const std::unique_ptr<Module> dealt = splitOf(*given.kernel()) ? clone(given) : nullptr;
  if (dealt)
    dealLoops(*dealt, ctas);
  const Module &module = dealt ? *dealt : given;
  const Function &f = *module.kernel();
  ClusterParts parts(module, ctas, remarks);
  if (!parts.any())
    return nullptr;
  auto out = std::make_unique<Module>();
  out->sources = module.sources;
  out->inlineSites = module.inlineSites;
  if (!Partitioner(f, parts, ctas, *out).run())
    return nullptr;
  hoistInvariants(*out);
  removeDead(*out);
  return out;
}

} // namespace tegula::gpu
