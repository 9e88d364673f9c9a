// See RotateDots.h.
#include "gpu/loops/RotateDots.h"
#include "gpu/BlockEdit.h"
#include "gpu/Layouts.h"
#include "gpu/LoopSlice.h"
#include "gpu/loops/LoopObstacles.h"
#include "gpu/loops/StaggerDots.h"
#include "passes/Users.h"
#include <algorithm>

namespace tegula::gpu {

using namespace ir;

namespace {

class Rotator {
public:
  Rotator(Module &m, Op &loop, const TargetInfo &target, const Options &options)
      : b_(m), module_(m), loop_(loop), body_(*loop.region(0)), slice_(loop), target_(target), options_(options) {
    b_.setFolding(false);
  }

  void run() {
    if (canStagger(module_, loop_, target_, options_) || !find())
      return;
    // Before the loop: the first iteration's dot.
    Block before;
    LoopSlice::Map first = slice_.start();
    b_.setBlock(&before);
    Value *init = copyDot(first, 0);
    Block &outer = *loop_.parent;
    splice(before, outer, positionOf(outer, &loop_));
    // At the top of the body: the next iteration's dot.
    Block ahead;
    b_.setBlock(&ahead);
    LoopSlice::Map next = slice_.next(b_, {});
    Value *later = copyDot(next, 1);
    Value *arg = carry(module_, loop_, init, dot_->result()->name);
    for (Op *op : body_.ops)
      std::replace(op->operands.begin(), op->operands.end(), dot_->result(), arg);
    for (Op *op : chain_)
      std::erase(body_.ops, op);
    splice(ahead, body_, 0);
    carryOn(loop_, arg, later);
  }

private:
  /// Finds the dot and the operations that only it uses: load, permutations, to_shared.
  bool find() {
    std::vector<Op *> dots;
    for (Op *op : body_.ops) {
      if (op->kind == OpKind::For || op->kind == OpKind::While || op->kind == OpKind::If ||
          (op->has(traits::Writes) && op->kind != OpKind::Assume))
        return false;
      if (op->kind == OpKind::Dot)
        dots.push_back(op);
    }
    if (dots.size() != 2)
      return false;
    dot_ = dots[0];
    if (!isAsyncMma(*dot_) || slice_.isInside(dot_->operands[0]) || slice_.isInside(dot_->operands[2]) ||
        !feeds(dot_->result(), dots[1]) || useCount(dot_->result(), *body_.terminator()))
      return false;
    chain_ = {dot_};
    for (Value *v = dot_->operands[1];; v = v->def->operands[0]) {
      if (!v->def || v->def->parent != &body_ || users(v) != 1)
        return false;
      chain_.push_back(v->def);
      if (v->def->kind == OpKind::DescLoad || (v->def->kind == OpKind::Load && !v->def->isVolatile()))
        break;
      if (v->def->kind != OpKind::ToShared && v->def->kind != OpKind::Permute)
        return false;
    }
    const Op *load = chain_.back();
    constexpr int64_t mostIndices = 512; // pages of a cache: one index for each row of a tile
    if (!paysRegisters(*dots[1]) || !std::all_of(load->operands.begin(), load->operands.end(),
                                                 [&](const Value *v) { return slice_.add(v, mostIndices); }))
      return false;
    // A producer loads indices beside the products. Beside a producer a dot ahead costs more than it hides (keys in
    // pages, 128 x 64 by eight warps, H200: 481 -> 395 TFLOP/s); by four warps, without a producer, it gains 6-34 %.
    return !slice_.hasLoads() || !target_.gatheringWarps(options_).warps;
  }

  /// Registers of the results of reductions over short axes (groups of four columns, element by element). These results
  /// are live together, as each is exchanged between lanes on its own. Reductions of rows have few results.
  int64_t leftByReductions() const {
    constexpr int64_t shortAxis = 8;
    int64_t registers = 0;
    for (const Op *op : body_.ops)
      if (op->kind == OpKind::Reduce && op->operands[0]->type.shape[static_cast<size_t>(op->axis())] <= shortAxis &&
          crossesThreads(module_, *op))
        for (const Value *v : op->results)
          registers += v->type.isScalar() ? 0
                                          : (int64_t{1} << module_.layoutOf(v->type).inBits(layout::Dim::Register)) *
                                                byteWidth(v->type.elem) / 4;
    return registers;
  }

  /// Do registers have room for the dot ahead? Live together are two results of the first dot, one of the second, the
  /// sum that is added to after it (fp8), and the first result in the second dot's operand type. They must fit without
  /// costing a block on the SM: up to sixteen warps, another block hides more than the dot ahead does. (A producer's
  /// warpgroup beside eight warps leaves no room for another block.)
  bool paysRegisters(const Op &second) const {
    constexpr int64_t others = 40, enoughWarps = 16; // others: addresses, sums and maxima of rows, loop
    int64_t threads = int64_t{target_.lanes()} * options_.numWarps, first = dot_->result()->type.numel() / threads;
    const int64_t sums = second.result()->type.numel() / threads,
                  without =
                      others + leftByReductions() + first + sums + first * byteWidth(second.operands[0]->type.elem) / 4;
    // without the dot ahead, the sums share the registers of the first dot's result
    const int64_t with = without + first + (slice_.isInside(second.operands[2]) ? 0 : sums);
    auto blocks = [&](int64_t needed) {
      int64_t n = 0;
      while ((n + 1) * options_.numWarps <= enoughWarps &&
             needed <= target_.registerLimit(static_cast<unsigned>(threads * (n + 1))))
        ++n;
      return n;
    };
    if (options_.numWarps > enoughWarps)
      return with <= target_.registerLimit(static_cast<unsigned>(threads));
    bool isAlone = chain_.back()->kind == OpKind::DescLoad && options_.numWarps >= 8;
    return blocks(with) >= (isAlone ? 1 : std::max<int64_t>(1, blocks(without)));
  }

  static size_t useCount(const Value *v, const Op &op) {
    return static_cast<size_t>(std::count(op.operands.begin(), op.operands.end(), v));
  }
  size_t users(const Value *v) const {
    size_t n = 0;
    for (const Op *op : body_.ops)
      n += useCount(v, *op);
    return n;
  }
  bool feeds(const Value *v, const Op *dot) const {
    std::unordered_set<const Value *> from{v};
    for (const Op *op : body_.ops)
      if (std::any_of(op->operands.begin(), op->operands.end(), [&](const Value *o) { return from.count(o) != 0; })) {
        if (op == dot)
          return true;
        from.insert(op->results.begin(), op->results.end());
      }
    return false;
  }

  /// Clones load, views and dot for another iteration: the first one (`ahead` = 0), or `ahead` after the current one.
  Value *copyDot(LoopSlice::Map &map, int64_t ahead) {
    Value *runs = slice_.hasLoads() ? runsAhead(b_, loop_, ahead ? body_.args[0] : loop_.operands[0], ahead) : nullptr;
    for (auto op = chain_.rbegin(); op != chain_.rend(); ++op) {
      std::vector<Value *> operands;
      for (Value *v : (*op)->operands)
        operands.push_back(slice_.copy(b_, v, map, runs));
      Op *now = (*op)->kind == OpKind::Load
                    ? LoopSlice::cloneLoad(
                          b_, **op, std::move(operands),
                          runs ? runs : runsAhead(b_, loop_, ahead ? body_.args[0] : loop_.operands[0], ahead))
                    : LoopSlice::clone(b_, **op, operands);
      map[(*op)->result()] = now->result();
    }
    return map[dot_->result()];
  }

  Builder b_;
  Module &module_;
  Op &loop_;
  Block &body_;
  LoopSlice slice_;
  const TargetInfo &target_;
  const Options &options_;
  Op *dot_ = nullptr;
  std::vector<Op *> chain_; // dot, ..., load
};

void visit(Module &m, Block &b, const TargetInfo &target, const Options &options) {
  std::vector<Op *> loops;
  for (Op *op : b.ops) {
    for (Region *r : op->regions)
      visit(m, *r->block, target, options);
    if (op->kind == OpKind::For && stagesOf(*op, options) >= 2)
      loops.push_back(op);
  }
  for (Op *loop : loops)
    Rotator(m, *loop, target, options).run();
}

} // namespace

size_t opsOfFirstDot(const Op &loop) {
  const std::vector<Op *> &ops = loop.parent->ops;
  const size_t end = positionOf(*loop.parent, &loop);
  const Op *first = end ? ops[end - 1] : nullptr;
  if (!first || first->kind != OpKind::Dot || !isAsyncMma(*first))
    return 0;
  auto at = std::find(loop.operands.begin() + 3, loop.operands.end(), first->result());
  if (at == loop.operands.end())
    return 0;
  const Op *next = loop.region(0)->terminator()->operands[static_cast<size_t>(at - loop.operands.begin()) - 3]->def;
  if (!next || next->kind != OpKind::Dot || next->operands[0] != first->operands[0] ||
      next->operands[2] != first->operands[2])
    return 0;
  const Users users(*loop.parent);
  size_t begin = end - 1;
  auto isForFirst = [&](const Op *user) {
    return std::find(ops.begin() + static_cast<long>(begin), ops.begin() + static_cast<long>(end), user) !=
           ops.begin() + static_cast<long>(end);
  };
  auto isOnlyForFirst = [&](const Value *v) {
    return !users.of(v).empty() && std::ranges::all_of(users.of(v), isForFirst);
  };
  while (begin > 0 && !ops[begin - 1]->results.empty() && std::ranges::all_of(ops[begin - 1]->results, isOnlyForFirst))
    --begin;
  return end - begin;
}

void rotateDots(Module &m, const TargetInfo &target, const Options &options) {
  visit(m, *m.kernel()->block(), target, options);
}

} // namespace tegula::gpu
