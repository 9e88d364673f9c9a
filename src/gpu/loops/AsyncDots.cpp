// See AsyncDots.h. A walk over the body keeps the list of running dots. It starts with the dots of the last iteration
// that are still running at its end: in the first walk all dots, in the second walk those that the first one left.
#include "gpu/loops/AsyncDots.h"
#include "gpu/BlockEdit.h"
#include "gpu/Layouts.h"
#include <algorithm>
#include <optional>
#include <unordered_map>

namespace tegula::gpu {

using namespace ir;

bool AsyncDots::isAtEnd(const Op *dot) const { return std::find(atEnd.begin(), atEnd.end(), dot) != atEnd.end(); }

namespace {

/// The largest count of `wgmma.wait_group`, which has three bits. Waiting for more groups than necessary is correct.
constexpr int64_t mostPending = 7;

/// A running dot, and the value that currently stands for its result.
struct Running {
  const Op *dot;
  Value *value; // null: no value of this iteration does
  bool isOld;   // started in the last iteration
};

class Walk {
public:
  Walk(const Block &body, const Op *doneBefore) : body_(body), doneBefore_(doneBefore) {}

  AsyncDots run(const std::vector<Op *> &dots, const std::vector<const Op *> &atStart) {
    for (const Op *dot : atStart)
      running_.push_back({dot, carriedFor(passedOn(dot->result())), true});
    for (Op *op : body_.ops) {
      if ((op == doneBefore_ && !running_.empty()) || makesFragmentsAnew(*op))
        finish(*op, running_.size());
      bool starts = std::find(dots.begin(), dots.end(), op) != dots.end();
      if (starts && hasInputsMadeBeside(*op))
        finish(*op, running_.size());
      for (size_t i = 0; i < op->operands.size(); ++i)
        use(*op, i, starts);
      if (op->kind == OpKind::If && !branch(*op))
        finish(*op, running_.size());
      if (starts)
        running_.push_back({op, op->result(), false});
    }
    // After the next iteration's barrier the slots of the iteration before this one must be free.
    if (size_t old = countOld())
      finish(*body_.terminator(), old);
    for (const Running &r : running_) {
      out_.atEnd.push_back(r.dot);
      out_.yielded.push_back(r.value);
    }
    return std::move(out_);
  }

private:
  Value *carriedFor(const Value *result) const {
    const std::vector<Value *> &yields = body_.terminator()->operands;
    for (size_t i = 0; i < yields.size(); ++i)
      if (yields[i] == result)
        return body_.args[i + 1];
    return nullptr;
  }

  /// The result that stands for `v` after the branches that yield it.
  const Value *passedOn(const Value *v) const {
    for (const Op *op : body_.ops) {
      if (op->kind != OpKind::If)
        continue;
      for (const Region *r : op->regions) {
        const std::vector<Value *> &yields = r->block->terminator()->operands;
        if (auto at = std::find(yields.begin(), yields.end(), v); at != yields.end()) {
          v = op->results[static_cast<size_t>(at - yields.begin())];
          break;
        }
      }
    }
    return v;
  }

  /// A dot whose result one side of an `if` passes on stays in flight on that side; the result of the `if` then stands
  /// for it. The other side, which uses the result or yields another value, contains its own wait. (A kernel that goes
  /// through all tiles in one loop stores its sums on one side and starts from zero.) False if the results must be
  /// complete before the `if`.
  bool branch(const Op &op) {
    std::vector<std::pair<size_t, Value *>> passed; // index into running_, value after the branch
    bool waits[2] = {false, false};
    const size_t old = countOld();
    for (size_t i = 0; i < running_.size(); ++i) {
      const Value *v = running_[i].value;
      if (!v || !uses(op, v))
        continue;
      std::optional<size_t> result;
      for (unsigned side = 0; side < 2; ++side) {
        const Block &block = *op.regions[side]->block;
        const std::vector<Value *> &yields = block.terminator()->operands;
        auto at = std::find(yields.begin(), yields.end(), v);
        bool isPassed =
            at != yields.end() && std::count(yields.begin(), yields.end(), v) == 1 &&
            std::count_if(block.ops.begin(), block.ops.end(), [&](const Op *o) { return uses(*o, v); }) == 1;
        if (!isPassed)
          waits[side] = true;
        else if (auto index = static_cast<size_t>(at - yields.begin()); result && *result != index)
          return false;
        else
          result = index;
      }
      if (!result || isUsedBehind(op, v))
        return false;
      passed.emplace_back(i, op.results[*result]);
    }
    if (passed.empty())
      return true;
    if (old && passed.front().first >= old) {
      finish(op, old);
      for (auto &[i, value] : passed)
        i -= old;
    }
    for (unsigned side = 0; side < 2; ++side)
      if (waits[side])
        waitInside(*op.regions[side]->block, passed);
    for (auto [i, value] : passed)
      running_[i].value = value;
    return true;
  }

  void waitInside(const Block &side, const std::vector<std::pair<size_t, Value *>> &passed) {
    DotWaitPoint w{side.terminator(), {}, {}};
    for (auto [i, after] : passed)
      if (std::any_of(side.ops.begin(), side.ops.end(), [&](const Op *o) { return uses(*o, running_[i].value); }))
        w.values.push_back(running_[i].value);
    auto first = std::find_if(side.ops.begin(), side.ops.end(), [&](const Op *o) {
      return std::any_of(w.values.begin(), w.values.end(), [&](const Value *v) { return uses(*o, v); });
    });
    if (first != side.ops.end())
      w.before = *first;
    out_.waits.push_back(std::move(w));
  }

  bool isUsedBehind(const Op &op, const Value *v) const {
    auto from = std::find(body_.ops.begin(), body_.ops.end(), &op) + 1;
    return std::any_of(from, body_.ops.end(), [&](const Op *o) { return uses(*o, v); });
  }
  size_t countOld() const {
    return static_cast<size_t>(
        std::count_if(running_.begin(), running_.end(), [](const Running &r) { return r.isOld; }));
  }

  /// Does the operation write registers of a running dot's A, which the dot may still read? That is allowed only after
  /// the wait (PTX ISA, wgmma.mma_async), and the assembler does not check it. Loop-carried registers are written at
  /// the end of the iteration.
  bool makesFragmentsAnew(const Op &op) const {
    return std::any_of(running_.begin(), running_.end(), [&](const Running &r) {
      const Value *a = r.dot->operands[0];
      if (a->type.isShared)
        return false;
      while (a->def && a->def->parent == &body_ && renames(a->def->kind))
        a = a->def->operands[0];
      return a->def ? a->def == &op : a->block == &body_ && op.has(traits::Terminator);
    });
  }

  /// Does the dot read registers that were written while another dot was running? ptxas puts waits after every wgmma of
  /// a loop in which the inputs of one are computed between the start of another and its end (C7513). So the running
  /// dots are waited for before this one starts.
  bool hasInputsMadeBeside(const Op &dot) const {
    for (size_t i : {0, 2}) {
      const Value *v = dot.operands[i];
      while (v->def && v->def->parent == &body_ && renames(v->def->kind))
        v = v->def->operands[0];
      const Op *made = v->def;
      const bool isRunning =
          std::any_of(running_.begin(), running_.end(), [&](const Running &r) { return r.value == dot.operands[i]; });
      if (v->type.isShared || isRunning || !made || made->parent != &body_ || made->kind == OpKind::Const ||
          made->kind == OpKind::Dot)
        continue;
      if (std::any_of(running_.begin(), running_.end(),
                      [&](const Running &r) { return r.isOld || comesBefore(*r.dot, *made); }))
        return true;
    }
    return false;
  }
  bool comesBefore(const Op &a, const Op &b) const {
    auto first = std::find_if(body_.ops.begin(), body_.ops.end(), [&](const Op *o) { return o == &a || o == &b; });
    return first != body_.ops.end() && *first == &a;
  }

  void use(const Op &op, size_t operand, bool isAsyncDot) {
    auto it = std::find_if(running_.begin(), running_.end(),
                           [&](const Running &r) { return r.value && r.value == op.operands[operand]; });
    if (it == running_.end())
      return;
    if (isAsyncDot && operand == 2 && !isUsedBehind(op, it->value))
      // It may add to a result that is still being computed. A result with a later use is copied first: must be done.
      return;
    if (op.has(traits::Terminator) && !isNeededAfter(body_.args[operand + 1], *it->dot))
      return; // stays in flight; the carried value stands for it
    // Younger dots could stay in flight, but ptxas (12.9, 13.0) puts waits after every wgmma of a loop in which an
    // accumulator is read while others are being computed (C7514).
    finish(op, running_.size());
  }

  /// Is the last iteration's value still read after the dot has started? The result then moves to other registers at
  /// the end of the iteration, and so must be complete.
  bool isNeededAfter(const Value *carried, const Op &dot) const {
    return isUsedBehind(dot, carried);
  }

  /// Adds a wait for the `count` oldest running dots.
  void finish(const Op &before, size_t count) {
    DotWaitPoint w{&before, {}, {}};
    for (size_t i = count; i < running_.size(); ++i)
      w.younger.push_back(running_[i].dot);
    for (size_t i = 0; i < count; ++i)
      // The result of a dot that a younger one adds to belongs to the younger one.
      if (Value *v = running_[i].value; v &&
                                        std::none_of(running_.begin() + static_cast<long>(count), running_.end(),
                                                     [&](const Running &r) { return r.dot->operands[2] == v; }) &&
                                        !chainedWithin(i, count))
        w.values.push_back(v);
    auto isOld = [](const Running &r) { return r.isOld; };
    bool hadOld = std::any_of(running_.begin(), running_.end(), isOld);
    running_.erase(running_.begin(), running_.begin() + static_cast<long>(count));
    if (hadOld && std::none_of(running_.begin(), running_.end(), isOld))
      out_.oldDone = &before;
    out_.waits.push_back(std::move(w));
  }
  bool chainedWithin(size_t i, size_t count) const {
    for (size_t k = i + 1; k < count; ++k)
      if (running_[k].dot->operands[2] == running_[i].value)
        return true;
    return false;
  }

  const Block &body_;
  const Op *doneBefore_;
  std::vector<Running> running_;
  AsyncDots out_;
};

} // namespace

int64_t DotWaitPoint::pending() const {
  int64_t groups = 0;
  for (const Op *dot : younger)
    groups += dot->rounds();
  return std::min(groups, mostPending);
}

AsyncDots placeDotWaits(const Block &body, const std::vector<Op *> &dots, const Op *doneBefore) {
  AsyncDots out = Walk(body, doneBefore).run(dots, {dots.begin(), dots.end()});
  AsyncDots again = Walk(body, doneBefore).run(dots, out.atEnd);
  return again.atEnd == out.atEnd ? again : out;
}

} // namespace tegula::gpu
