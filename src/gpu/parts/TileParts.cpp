// See TileParts.h. First ties axes from each store, assertion and reduction (attempt), then distributes the operations
// over loops.
#include "gpu/parts/TileParts.h"
#include "gpu/Layouts.h"
#include "gpu/parts/ClusterParts.h"
#include "gpu/parts/LaneLoops.h"
#include "passes/ArgumentAccess.h"
#include "passes/Effects.h"
#include <algorithm>

namespace tegula::gpu {

using namespace ir;

// ---- the function

FunctionUses::FunctionUses(const Function &f) : function(f) { visit(*f.block(), nullptr); }

std::span<Value *const> FunctionUses::inputs(const Op &op) const {
  auto it = loops_.find(&op);
  return it == loops_.end() ? std::span<Value *const>(op.operands) : it->second;
}

/// `loop`: the outermost lane-wise loop that contains the block.
void FunctionUses::visit(const Block &b, const Op *loop) {
  for (Op *op : b.ops) {
    order.emplace(op, order.size());
    if (!loop && isLaneWise(*op))
      loops_.emplace(op, tilesInto(*op));
    // The user of a tile from outside is the lane-wise loop, not an operation in it.
    for (const Value *v : inputs(*op))
      if (const std::vector<Value *> *outer = loop ? &loops_.at(loop) : nullptr;
          !outer || std::find(outer->begin(), outer->end(), v) == outer->end())
        users.note(v, op);
    bool isMade = op->kind == OpKind::Const || op->kind == OpKind::Poison || op->kind == OpKind::Range,
         computes = renames(op->kind) || (op->has(traits::Elementwise) && op->has(traits::Pure));
    if (op->results.size() == 1 && op->result()->type.isTensor() &&
        (isMade || (computes && std::all_of(op->operands.begin(), op->operands.end(),
                                            [&](const Value *v) { return v->type.isScalar() || free.contains(v); }))))
      free.insert(op->result());
    for (const Region *r : op->regions)
      visit(*r->block, loop ? loop : isLoop(*op) ? op : nullptr);
  }
}

// ---- operations

static bool isVolatile(const Op &op) { return op.isVolatile(); }
static bool isElementwise(const Op &op) { return op.has(traits::Elementwise) && op.has(traits::Pure); }
static bool isAccess(const Op &op) { return op.kind == OpKind::Load || op.kind == OpKind::Store; }
static bool isReduce(const Op &op) { return op.kind == OpKind::Reduce; }
static bool isDot(const Op &op) { return op.kind == OpKind::Dot; }
/// Does the operation join or split tiles along a last axis of extent 2? The other axes are the same on both sides.
static bool isPairing(const Op &op) { return op.kind == OpKind::Join || op.kind == OpKind::Split; }

bool TileParts::separates(const Op &op) {
  if (isAccess(op))
    return isVolatile(op);
  if (op.kind == OpKind::Assert || isLaneWise(op))
    return false;
  return !isPure(op) || op.has(traits::Terminator) || (!op.regions.empty() && !isReduce(op) && op.kind != OpKind::Scan);
}

/// Does the operation work on each element of tiles of one shape, with the result at the same position?
static bool isPlain(const Op &op) { return isElementwise(op) || isAccess(op) || op.kind == OpKind::Assert; }

/// Can partial results be combined outside the reduction? On tensors this takes element-wise operations.
static bool canCombine(const Op &reduce) {
  for (const Value *r : reduce.results)
    if (r->type.isPtr)
      return false;
  const Block &b = *reduce.region(0);
  return std::all_of(b.ops.begin(), b.ops.end(), [&](const Op *op) {
    return op->has(traits::Terminator) || isElementwise(*op) || op->kind == OpKind::Const;
  });
}

TileParts::TileParts(const FunctionUses &uses, const Block &b, size_t begin, size_t end, int64_t parts, int64_t threads,
                     int64_t operandBytes)
    : uses_(uses), block_(b), begin_(begin), end_(end), parts_(parts), threads_(threads), operandBytes_(operandBytes) {
  findGroups();
  if (work_.empty() || !checkWholeUses() || !findLevels() || !keepsOrder())
    loops_.clear();
}

bool TileParts::isInside(const Op *op) const {
  if (!op || op->parent != &block_)
    return false;
  size_t at = uses_.order.at(op);
  return at >= uses_.order.at(block_.ops[begin_]) && at <= uses_.order.at(block_.ops[end_ - 1]);
}

int TileParts::of(const Op &op) const {
  auto it = work_.find(&op);
  return it == work_.end() ? whole : it->second;
}

std::optional<int> TileParts::operandAxis(const Op &op, const Value *operand, int axis) const {
  if (operand->type.isScalar())
    return whole;
  if (isDot(op)) {
    auto rank = static_cast<int>(operand->type.shape.rank());
    return operand == op.operands[0] ? rank - 1 : operand == op.operands[1] ? rank - 2 : whole;
  }
  if (isPairing(op) &&
      static_cast<unsigned>(axis) >= std::min(operand->type.shape.rank(), op.results[0]->type.shape.rank()))
    return std::nullopt;
  return renames(op.kind) ? ClusterParts::axisBehind(op, axis, parts_) : axis;
}

bool TileParts::isAccumulated(const Op &op) const {
  return isDot(op) ? of(op) == contraction : isReduce(op) && of(op) == op.axis();
}

// ---- groups

void TileParts::findGroups() {
  for (size_t i = begin_; i < end_; ++i) {
    const Op &op = *block_.ops[i];
    bool isRoot = op.kind == OpKind::Store || op.kind == OpKind::Assert || isReduce(op) || isDot(op);
    if (isRoot && !work_.contains(&op) && !failed_.contains(&op) && op.operands[0]->type.isTensor())
      tryRoot(op);
  }
}

/// Prefers an axis along which nothing is reduced, which takes only one loop.
void TileParts::tryRoot(const Op &root) {
  const Type &t = root.operands[0]->type;
  if (isDot(root)) {
    if (Trial trial = attempt(root, contraction); trial.isRight) {
      keep(trial);
    } else {
      undo(trial);
      failed_.insert(&root);
    }
    return;
  }
  auto rank = static_cast<int>(t.shape.rank());
  int accumulating = whole;
  std::vector<const Op *> seen{&root};
  for (int axis = 0; axis < rank && t.numel() / parts_ >= threads_; ++axis) {
    Trial trial = attempt(root, axis);
    if (trial.isRight && !trial.accumulates)
      return keep(trial);
    if (trial.isRight && accumulating == whole)
      accumulating = axis;
    seen.insert(seen.end(), trial.ops.begin(), trial.ops.end());
    undo(trial);
  }
  if (accumulating != whole)
    keep(attempt(root, accumulating));
  else
    failed_.insert(seen.begin(), seen.end());
}

TileParts::Trial TileParts::attempt(const Op &root, int axis) {
  Trial t;
  t.work.push_back({&root, axis});
  while (t.isRight && !t.work.empty()) {
    auto [op, at] = t.work.back();
    t.work.pop_back();
    add(t, *op, at);
  }
  return t;
}

void TileParts::keep(const Trial &t) { wholeUses_.insert(t.whole.begin(), t.whole.end()); }

void TileParts::undo(const Trial &t) {
  for (const Value *v : t.values)
    axis_.erase(v);
  for (const Op *op : t.ops)
    work_.erase(op);
  for (const auto &f : t.free)
    free_.erase(f);
}

bool TileParts::isLargeDot(const Op &op, int64_t bytes) {
  auto bytesOf = [](const Value *v) { return v->type.numel() * byteWidth(v->type.elem); };
  return isDot(op) && bytesOf(op.operands[0]) + bytesOf(op.operands[1]) > bytes;
}

/// Not if the operands fit in shared memory, as copies there take no registers, nor into parts for which tensor cores
/// have no instruction.
bool TileParts::canSplit(const Op &dot) const {
  constexpr int64_t shortest = 32;
  const Value *a = dot.operands[0], *b = dot.operands[1];
  return a != b && isLargeDot(dot, operandBytes_) && a->type.shape[a->type.shape.rank() - 1] >= shortest * parts_ &&
         std::min(a->type.numel(), b->type.numel()) / parts_ >= threads_;
}

void TileParts::add(Trial &t, const Op &op, int axis) {
  auto [it, isNew] = work_.try_emplace(&op, axis);
  if (!isNew) {
    t.isRight &= it->second == axis;
    return;
  }
  t.ops.push_back(&op);
  if (!isInside(&op) || failed_.contains(&op) ||
      !(isPlain(op) || isPairing(op) || isReduce(op) || renames(op.kind) || uses_.isLoop(op) ||
        (isDot(op) && axis == contraction))) {
    t.isRight = false;
    return;
  }
  if (isDot(op) && !canSplit(op)) {
    t.isRight = false;
    return;
  }
  for (const Value *v : uses_.inputs(op)) {
    std::optional<int> from = operandAxis(op, v, axis);
    if (!from)
      t.isRight = false;
    else
      give(t, v, *from);
  }
  if (isDot(op)) {
    t.accumulates = true;
    return;
  }
  if (!isReduce(op)) {
    for (const Value *r : op.results)
      give(t, r, axis);
    return;
  }
  auto along = static_cast<int>(op.axis());
  if (axis == along) {
    t.accumulates = true;
    t.isRight &= canCombine(op);
    return;
  }
  for (const Value *r : op.results)
    give(t, r, axis - (axis > along));
}

void TileParts::give(Trial &t, const Value *v, int axis) {
  if (!t.isRight || v->type.isScalar())
    return;
  if (axis == whole) {
    t.whole.push_back(v);
    return;
  }
  if (v->type.shape[static_cast<unsigned>(axis)] % parts_) {
    t.isRight = false;
    return;
  }
  if (uses_.free.contains(v))
    return giveFree(t, v, axis);
  auto [it, isNew] = axis_.try_emplace(v, axis);
  if (!isNew) {
    t.isRight &= it->second == axis;
    return;
  }
  t.values.push_back(v);
  if (!isInside(v->def)) {
    t.isRight = false;
    return;
  }
  t.work.push_back({v->def, isReduce(*v->def) ? axis + (axis >= v->def->axis()) : axis});
  for (const Op *user : uses_.users.of(v)) {
    if (isDot(*user)) {
      t.work.push_back({user, operandAxis(*user, v, contraction) == axis ? contraction : whole});
      continue;
    }
    int at = renames(user->kind) ? whole : axis;
    for (unsigned d = 0; renames(user->kind) && d < user->result()->type.shape.rank() && at == whole; ++d)
      if (ClusterParts::axisBehind(*user, static_cast<int>(d), parts_) == axis)
        at = static_cast<int>(d);
    if (at == whole) {
      t.isRight = false;
      return;
    }
    t.work.push_back({user, at});
  }
}

void TileParts::giveFree(Trial &t, const Value *v, int axis) {
  std::vector<std::pair<const Value *, int>> open{{v, axis}};
  while (!open.empty() && t.isRight) {
    auto at = open.back();
    open.pop_back();
    if (at.first->type.isScalar() || at.second == whole || !free_.insert(at).second)
      continue;
    t.free.push_back(at);
    if (at.first->type.shape[static_cast<unsigned>(at.second)] % parts_)
      t.isRight = false;
    for (const Value *o : at.first->def->operands) {
      std::optional<int> from = operandAxis(*at.first->def, o, at.second);
      if (!from)
        t.isRight = false;
      else
        open.push_back({o, *from});
    }
  }
}

/// A tensor that is needed whole must not be computed only in parts.
bool TileParts::checkWholeUses() const {
  return std::none_of(wholeUses_.begin(), wholeUses_.end(), [&](const Value *v) { return axis_.contains(v); });
}

// ---- loops

/// The first loop in which the access `op` may be, after all earlier accesses to the same memory through other
/// pointers.
unsigned TileParts::levelBehind(std::span<const Access> before, const Op &op, int memory) {
  unsigned level = 0;
  for (const Access &a : before)
    if (a.op->operands[0] != op.operands[0] && (a.op->kind == OpKind::Store || op.kind == OpKind::Store) &&
        (a.memory == memory || a.memory < 0 || memory < 0))
      level = std::max(level, a.level + 1);
  return level;
}

bool TileParts::findLevels() {
  std::unordered_map<const Value *, unsigned> of;
  std::vector<Access> accesses; // those done in parts
  auto levelOf = [&](const Value *v) {
    auto it = of.find(v);
    return it == of.end() ? 0 : it->second;
  };
  levels_.assign(end_ - begin_, 0);
  std::vector<std::vector<size_t>> roots;
  for (size_t i = begin_; i < end_; ++i) {
    const Op &op = *block_.ops[i];
    unsigned level = 0;
    for (const Value *v : uses_.inputs(op))
      level = std::max(level, levelOf(v));
    // With two pointers into one memory, all parts of the first access come before any part of the second. keepsOrder()
    // checks accesses that later loops repeat.
    if (isAccess(op)) {
      const int memory = memoryOf(op.operands[0]);
      level = std::max(level, levelBehind(accesses, op, memory));
      if (work_.contains(&op))
        accesses.push_back({&op, memory, level});
    }
    levels_[i - begin_] = level;
    bool isLate = isAccumulated(op);
    for (const Value *r : op.results)
      of[r] = level + isLate;
    if (isLate || (work_.contains(&op) && op.results.empty())) {
      roots.resize(std::max<size_t>(roots.size(), level + 1));
      roots[level].push_back(i);
    }
  }
  // Every loop computes its values from the beginning, so code size grows with the number of loops.
  constexpr size_t mostLoops = 8, mostCopies = 4;
  size_t total = 0;
  if (roots.size() > mostLoops)
    return false;
  for (const std::vector<size_t> &ends : roots) {
    Loop &loop = loops_.emplace_back();
    std::unordered_set<const Op *> needed;
    for (size_t i : ends)
      needed.insert(block_.ops[i]);
    for (size_t i = ends.empty() ? begin_ : ends.back() + 1; i-- > begin_;) {
      if (!needed.contains(block_.ops[i]))
        continue;
      loop.push_back(i);
      for (const Value *v : uses_.inputs(*block_.ops[i]))
        if (axis_.contains(v))
          needed.insert(v->def);
    }
    std::reverse(loop.begin(), loop.end());
    total += loop.size();
  }
  return total <= mostCopies * work_.size();
}

namespace {

/// The latest of the accesses so far to some memory: its time and its pointer. Time is 2 * level between loops, and one
/// more inside a loop.
struct Latest {
  long time = -1;
  const Value *pointer = nullptr; // null: several

  void add(long at, const Value *p) {
    if (at == time && p != pointer)
      pointer = nullptr;
    else if (at > time)
      *this = {at, p};
  }
  /// May an access at time `at` follow? In the same loop only through the same pointer; operations between loops keep
  /// their order.
  bool isBefore(long at, const Value *p) const { return time < at || (time == at && (at % 2 == 0 || pointer == p)); }
};

struct History {
  Latest reads, writes;
  void add(long at, const Value *p, bool isWrite) { (isWrite ? writes : reads).add(at, p); }
  bool isBefore(long at, const Value *p, bool isWrite) const {
    return writes.isBefore(at, p) && (!isWrite || reads.isBefore(at, p));
  }
};

} // namespace

bool TileParts::keepsOrder() const {
  std::unordered_map<const Op *, std::pair<unsigned, unsigned>> spans; // the first and the last loop that executes it
  for (unsigned k = 0; k < loops_.size(); ++k)
    for (size_t i : loops_[k])
      spans.try_emplace(block_.ops[i], k, k).first->second.second = k;
  std::map<int, History> byArgument;
  History all;
  for (size_t i = begin_; i < end_; ++i) {
    const Op &op = *block_.ops[i];
    if (!isAccess(op))
      continue;
    bool isWrite = op.kind == OpKind::Store, isSplit = work_.contains(&op);
    auto span = spans.find(&op);
    if (isSplit && span == spans.end())
      continue; // it has no user
    long first = isSplit ? 2L * span->second.first + 1 : 2L * level(i),
         last = isSplit ? 2L * span->second.second + 1 : first;
    const Value *pointer = op.operands[0];
    int arg = memoryOf(pointer);
    // A pointer of unknown origin may point anywhere.
    bool isRight =
        arg < 0 ? all.isBefore(first, pointer, isWrite)
                : byArgument[arg].isBefore(first, pointer, isWrite) && byArgument[-1].isBefore(first, pointer, isWrite);
    if (!isRight)
      return false;
    byArgument[arg].add(last, pointer, isWrite);
    all.add(last, pointer, isWrite);
  }
  return true;
}

} // namespace tegula::gpu
