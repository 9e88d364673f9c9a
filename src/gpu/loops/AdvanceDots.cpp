// See AdvanceDots.h.
#include "gpu/loops/AdvanceDots.h"
#include "gpu/BlockEdit.h"
#include "gpu/Dots.h"
#include "gpu/shared/SharedNeeds.h"
#include <algorithm>

namespace tegula::gpu {

using namespace ir;

namespace {

constexpr size_t fewest = 4;

/// Do the results of all dots fit in registers? The results of two dots that run beside each other are live together.
/// As measured on an H200 with backward attention (docs/performance-history.md): four dots gain 1.01-1.08 with up to
/// 192 registers for results and lose 0.16 with 320; five, which have more operands and atomics, gain 1.04-1.10 with up
/// to 160 and lose 0.05 with 192 and 224.
bool haveRoom(const Block &body, size_t dots, const TargetInfo &target, const Options &options) {
  const unsigned threads = target.lanes() * options.numWarps;
  return registersOfDots(body, threads) + 32 * static_cast<int64_t>(dots - fewest) <= target.registerLimit(threads);
}

/// May the operation move up past operations that it does not depend on and that do not write memory?
bool moves(const Op &op) {
  if (!op.regions.empty())
    return false;
  return op.kind == OpKind::ToShared || op.kind == OpKind::DescLoad || (op.kind == OpKind::Load && !op.isVolatile()) ||
         (op.has(traits::Pure) && !takesScratch(op));
}

/// Arithmetic of a few instructions, as between a result and its exponentials.
bool isCheap(const Op &op) {
  switch (op.kind) {
  case OpKind::FMul:
  case OpKind::FAdd:
  case OpKind::FSub:
  case OpKind::FNeg:
  case OpKind::Fma:
  case OpKind::Select:
    return true;
  default:
    return op.has(traits::Shape);
  }
}

class Advancer {
public:
  explicit Advancer(Block &body) : body_(body) {}

  void run(const TargetInfo &target, const Options &options) {
    std::vector<Op *> dots;
    for (Op *op : body_.ops)
      if (op->kind == OpKind::Dot && isAsyncMma(*op))
        dots.push_back(op);
    if (dots.size() < fewest || !haveRoom(body_, dots.size(), target, options))
      return;
    // Each dot moves before as many operations as possible; dots run in the order in which they start.
    for (size_t i = 1; i < dots.size(); ++i)
      for (size_t first = 0; first < i; ++first)
        if (advance(*dots[first], *dots[i]))
          break;
  }

private:
  /// Moves `dot` up to the place after the first cheap uses of the result of `before`. False if the dot depends on that
  /// result, or on an operation that cannot move.
  bool advance(const Op &before, Op &dot) {
    const size_t end = positionOf(body_, &dot);
    size_t at = positionOf(body_, &before) + 1;
    while (at < end && !uses(*body_.ops[at], before.result()))
      ++at;
    if (at == end)
      return false; // it already starts before the wait
    // After the cheap arithmetic on the result: multiplications and additions that belong together.
    std::unordered_set<const Value *> ofResult{before.result()};
    for (size_t i = at; i < end; ++i) {
      const Op *op = body_.ops[i];
      if (std::ranges::none_of(ofResult, [&](const Value *v) { return uses(*op, v); }))
        continue;
      if (!isCheap(*op))
        break;
      at = i;
      ofResult.insert(op->results.begin(), op->results.end());
    }
    // The operations after that place that the dot depends on, last first.
    std::unordered_set<const Op *> needed{&dot};
    bool reads = false;
    for (size_t i = end; i-- > at + 1;) {
      Op *op = body_.ops[i];
      if (!std::ranges::any_of(needed, [&](const Op *user) {
            return std::ranges::any_of(op->results, [&](const Value *r) { return uses(*user, r); });
          }))
        continue;
      if (!moves(*op))
        return false;
      reads |= op->has(traits::Reads);
      needed.insert(op);
    }
    // Give up if the dot depends on the other result, or if a write is in the way of its loads.
    std::unordered_set<const Value *> ofBefore = ofResult, ofDot{dot.result()};
    const auto usesAny = [](const Op &op, const std::unordered_set<const Value *> &values) {
      return std::ranges::any_of(values, [&](const Value *v) { return uses(op, v); });
    };
    for (size_t i = at + 1; i < body_.ops.size(); ++i) {
      const Op *op = body_.ops[i];
      if (i > end && usesAny(*op, ofDot)) {
        ofDot.insert(op->results.begin(), op->results.end());
        continue;
      }
      if (usesAny(*op, ofBefore)) {
        if (needed.contains(op))
          return false;
        ofBefore.insert(op->results.begin(), op->results.end());
      }
      if (i < end && op->has(traits::Writes) && op->kind != OpKind::Assume && (reads || !op->regions.empty()))
        return false;
    }
    std::vector<Op *> order, rest;
    for (size_t i = at + 1; i <= end; ++i)
      (needed.contains(body_.ops[i]) ? order : rest).push_back(body_.ops[i]);
    order.insert(order.end(), rest.begin(), rest.end());
    std::ranges::copy(order, body_.ops.begin() + static_cast<long>(at) + 1);
    return true;
  }

  Block &body_;
};

void visit(Block &b, const TargetInfo &target, const Options &options) {
  for (Op *op : b.ops) {
    for (Region *r : op->regions)
      visit(*r->block, target, options);
    if (op->kind == OpKind::For)
      Advancer(*op->region(0)).run(target, options);
  }
}

} // namespace

void advanceDots(Module &m, const TargetInfo &target, const Options &options) {
  visit(*m.kernel()->block(), target, options);
}

} // namespace tegula::gpu
