// See WholeMasks.h.
#include "gpu/masks/WholeMasks.h"
#include "gpu/BlockEdit.h"
#include "gpu/Work.h"
#include "gpu/masks/Everywhere.h"
#include "ir/Builder.h"
#include "ir/Clone.h"
#include "ir/Walk.h"
#include "passes/Effects.h"
#include "passes/RemoveDead.h"
#include "passes/Users.h"
#include <algorithm>
#include <optional>

namespace tegula::gpu {

using namespace ir;

namespace {

constexpr int64_t predicates = 7;      // of a thread
constexpr int64_t mostInstructions = 640; // of a thread that a kernel may duplicate

class MaskDropper {
public:
  MaskDropper(Module &m, const TargetInfo &target, const Options &options)
      : m_(m), b_(m), threads_(int64_t{target.lanes()} * options.numWarps) {}

  /// Rewrites bodies of innermost loops, and the branches in them. Returns whether it has made copies, in which the
  /// computation of masks may be dead.
  bool run(Block &b, bool isInLoop) {
    bool hasLoop = false;
    for (Op *op : b.ops) {
      const bool isLoop = op->kind == OpKind::For || op->kind == OpKind::While;
      hasLoop |= isLoop;
      if (isLoop || op->kind == OpKind::If)
        for (Region *r : op->regions)
          run(*r->block, isInLoop || isLoop);
    }
    if (hasLoop || !isInLoop)
      return budget_ < mostInstructions;
    number(b);
    for (size_t first = 0; first < b.ops.size(); ++first)
      if (masksElements(*b.ops[first]))
        first = runFrom(b, first);
    return budget_ < mostInstructions;
  }

private:
  static bool masksElements(const Op &op) {
    return (op.kind == OpKind::Load || op.kind == OpKind::Store) && op.mask() && op.mask()->type.isTensor() &&
           !op.isVolatile();
  }
  static bool canBeTwice(const Op &op) {
    return op.kind == OpKind::Load || op.kind == OpKind::Store || op.kind == OpKind::SharedBarrier ||
           (isPure(op) && op.kind != OpKind::Dot && op.kind != OpKind::ToShared);
  }

  int64_t registersOf(const Value *v) const { return int64_t{1} << m_.layoutOf(v->type).inBits(layout::Dim::Register); }
  /// The instructions of an access, each of which takes a predicate.
  int64_t accesses(const Op &op) const {
    return std::max<int64_t>(1, registersOf(op.operands[0]) / std::max<int64_t>(1, op.get(attr::vec, 1)));
  }
  int64_t instructions(const Op &op) const {
    if (op.kind == OpKind::Load || op.kind == OpKind::Store)
      return op.operands[0]->type.isTensor() ? accesses(op) : 1;
    return instructionsOf(op, threads_);
  }

  /// The value of which a mask is a view.
  static const Value *source(const Value *v) {
    while (v->def &&
           (v->def->kind == OpKind::Broadcast || v->def->kind == OpKind::ExpandDims || v->def->kind == OpKind::Convert))
      v = v->def->operands[0];
    return v;
  }

  /// The most registers of a thread that may hold distinct values.
  int64_t distinct(const Value *v, unsigned depth = 8) const {
    v = source(v);
    if (v->type.isScalar() || (v->def && (v->def->kind == OpKind::Splat || v->def->kind == OpKind::Const)))
      return 1;
    const int64_t all = registersOf(v);
    if (!v->def || !v->def->has(traits::Elementwise) || !depth)
      return all;
    int64_t product = 1;
    for (const Value *o : v->def->operands)
      if (product < all)
        product = std::min(all, product * distinct(o, depth - 1));
    return product;
  }

  /// Versions the run of operations from `first` on, if that pays. Returns the last position that is done.
  size_t runFrom(Block &b, size_t first) {
    Block before;
    before.parent = b.parent;
    b_.setBlock(&before);
    b_.setLoc(b.ops[first]->loc);
    b_.setInlinedAt(b.ops[first]->inlinedAt);
    const Everywhere::IsKnown isInFront = [&](const Value *v) {
      auto at = v->def ? positions_.find(v->def) : positions_.end();
      return at == positions_.end() || at->second < first;
    };
    std::unordered_map<const Value *, Value *> wholes; // of masks
    std::unordered_set<const Value *> roots;
    Value *all = nullptr;
    int64_t cost = 0, gain = 0;
    size_t last = first, end = first;
    // the assembler keeps vector loads in flight, and a branch would prevent it from hoisting those of later iterations
    bool hasVectors = false;
    for (; end < b.ops.size() && canBeTwice(*b.ops[end]); ++end) {
      const Op &op = *b.ops[end];
      if (cost + instructions(op) > budget_)
        break;
      cost += instructions(op);
      if (!masksElements(op))
        continue;
      auto [whole, isNew] = wholes.try_emplace(op.mask(), nullptr);
      if (isNew) {
        if (const std::optional<Everywhere> everywhere = Everywhere::of(op.mask(), isInFront)) {
          whole->second = everywhere->write(b_);
          all = all ? b_.binary(OpKind::And, all, whole->second) : whole->second;
        }
      }
      if (!whole->second)
        continue;
      last = end;
      hasVectors |= op.kind == OpKind::Load && op.get(attr::vec, 1) > 1;
      if (op.kind == OpKind::Load && roots.insert(source(op.mask())).second)
        gain += distinct(op.mask());
    }
    if (!all || !all->def || all->def->kind == OpKind::Const || gain <= predicates || hasVectors)
      return std::max(end, first + 1) - 1;
    std::erase_if(wholes, [](const auto &w) { return !w.second; });
    last = extended(b, first, last, end, wholes);
    budget_ -= cost;
    return make(b, first, last, before, all, wholes);
  }

  /// The last operation before `end` that uses a mask, or a tile computed in the run.
  static size_t extended(const Block &b, size_t first, size_t last, size_t end,
                         const std::unordered_map<const Value *, Value *> &wholes) {
    std::unordered_set<const Value *> tiles;
    for (const auto &[mask, whole] : wholes)
      tiles.insert(mask);
    for (size_t i = first; i < end; ++i) {
      const Op &op = *b.ops[i];
      if (i > last) {
        if (std::none_of(op.operands.begin(), op.operands.end(), [&](const Value *v) { return tiles.contains(v); }))
          continue;
        for (size_t k = last + 1; k < i; ++k)
          addTiles(*b.ops[k], tiles);
        last = i;
      }
      addTiles(op, tiles);
    }
    return last;
  }

  static void addTiles(const Op &op, std::unordered_set<const Value *> &tiles) {
    for (const Value *r : op.results)
      if (r->type.isTensor())
        tiles.insert(r);
  }

  size_t make(Block &b, size_t first, size_t last, Block &before, Value *all,
              const std::unordered_map<const Value *, Value *> &wholes) {
    auto begin = b.ops.begin() + static_cast<long>(first), stop = b.ops.begin() + static_cast<long>(last) + 1;
    std::vector<Op *> twice(begin, stop);
    const std::vector<Op *> rest(stop, b.ops.end());
    b.ops.erase(begin, b.ops.end());
    gpu::splice(before, b, first);
    takeOperands(b, twice, rest);
    // Results of the run that are used after it.
    std::vector<Value *> results;
    std::vector<Type> types;
    Users users;
    for (Op *op : rest)
      users.noteOperands(*op, op);
    for (const Op *op : twice)
      for (Value *r : op->results)
        if (!users.of(r).empty()) {
          results.push_back(r);
          types.push_back(r->type);
        }
    b_.setBlock(&b);
    Op *branch = b_.ifOp(all, types);
    for (size_t i = 0; i < results.size(); ++i) {
      branch->results[i]->name = results[i]->name;
      for (Op *op : users.of(results[i]))
        replaceUses(*op, results[i], branch->results[i]);
    }
    b.ops.insert(b.ops.end(), rest.begin(), rest.end());
    writeWithout(twice, results, wholes, *branch->region(0));
    Block &with = *branch->region(1);
    append(twice, with);
    b_.setBlock(&with);
    b_.yield(results);
    number(b);
    return positionOf(b, branch);
  }

  void number(const Block &b) {
    positions_.clear();
    for (size_t i = 0; i < b.ops.size(); ++i)
      positions_[b.ops[i]] = i;
  }

  static void append(std::span<Op *const> ops, Block &to) {
    for (Op *op : ops)
      op->parent = &to;
    to.ops.insert(to.ops.end(), ops.begin(), ops.end());
  }

  /// Moves operations that only `twice` uses from `b` to it: tiles, which would be live across the branch, and values
  /// computed from loads, for which threads would wait before the branch.
  static void takeOperands(Block &b, std::vector<Op *> &twice, std::span<Op *const> rest) {
    std::unordered_set<const Value *> loaded;
    for (const Op *op : b.ops)
      if (op->kind == OpKind::Load ||
          std::any_of(op->operands.begin(), op->operands.end(), [&](const Value *v) { return loaded.contains(v); }))
        loaded.insert(op->results.begin(), op->results.end());
    Users users(b);
    std::unordered_set<const Op *> inside(twice.begin(), twice.end());
    for (std::span<Op *const> ops : {std::span<Op *const>(twice), rest})
      for (Op *op : ops)
        users.noteOperands(*op, op);
    std::vector<Op *> front;
    for (size_t i = b.ops.size(); i-- > 0;) {
      Op *op = b.ops[i];
      if (op->results.size() != 1 || !(op->result()->type.isTensor() || loaded.contains(op->result())) ||
          !isPure(*op) || op->has(traits::Shared) || op->result()->type.isShared)
        continue;
      std::span<Op *const> by = users.of(op->result());
      if (!by.empty() && std::all_of(by.begin(), by.end(), [&](const Op *o) { return inside.contains(o); })) {
        inside.insert(op);
        front.push_back(op);
      }
    }
    std::reverse(front.begin(), front.end());
    std::erase_if(b.ops, [&](const Op *op) { return inside.contains(op); });
    twice.insert(twice.begin(), front.begin(), front.end());
  }

  void writeWithout(std::span<Op *const> ops, std::span<Value *const> results,
                    const std::unordered_map<const Value *, Value *> &wholes, Block &to) {
    Cloner copy(m_);
    std::unordered_set<const Value *> on; // masks that are on everywhere, and values made of them
    for (const auto &[mask, whole] : wholes)
      on.insert(mask);
    b_.setBlock(&to);
    auto isOn = [&](const Value *v) { return on.contains(v); };
    for (Op *op : ops) {
      const bool isPart =
          (op->kind == OpKind::And && isOn(op->operands[0]) && isOn(op->operands[1])) ||
          ((op->kind == OpKind::Convert || op->kind == OpKind::Broadcast || op->kind == OpKind::ExpandDims) &&
           isOn(op->operands[0]));
      if (isPart) {
        on.insert(op->result());
        copy.copy(*op, to);
      } else if (op->kind == OpKind::And && (isOn(op->operands[0]) || isOn(op->operands[1]))) {
        copy.map(op->result(), copy(op->operands[isOn(op->operands[0]) ? 1 : 0]));
      } else if (op->kind == OpKind::Select && isOn(op->operands[0])) {
        copy.map(op->result(), copy(op->operands[1]));
      } else {
        Op *now = copy.copy(*op, to);
        if (op->maskAt() && op->mask() && isOn(op->mask()))
          now->operands.resize(op->maskAt());
      }
    }
    std::vector<Value *> yielded;
    for (const Value *v : results)
      yielded.push_back(copy(v));
    b_.yield(yielded);
  }

  Module &m_;
  Builder b_;
  const int64_t threads_;
  int64_t budget_ = mostInstructions;
  std::unordered_map<const Op *, size_t> positions_;
};

} // namespace

void dropWholeMasks(Module &m, const TargetInfo &target, const Options &options) {
  Block &b = *m.kernel()->block();
  // CTAs of a cluster would take different sides; kernels with dots have no registers left.
  if (options.numCtas == 1 &&
      !anyOp(b, [](const Op &op) { return op.kind == OpKind::Dot || op.kind == OpKind::Partitions; }))
    if (MaskDropper(m, target, options).run(b, false))
      removeDead(m);
}

} // namespace tegula::gpu
