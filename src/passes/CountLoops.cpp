#include "passes/CountLoops.h"
#include "ir/Builder.h"
#include "passes/Users.h"
#include <optional>
#include <unordered_map>

namespace tegula {

using namespace ir;

namespace {

struct Count {
  size_t carried = 0; // which of the carried values
  Value *end = nullptr;
  int64_t step = 0;
};

/// The increment of the counter in one iteration.
std::optional<int64_t> stepOf(const Value *next, const Value *counter) {
  const Op *op = next->def;
  if (!op || op->kind != OpKind::Add)
    return std::nullopt;
  return op->operands[0] == counter   ? constantInt(op->operands[1])
         : op->operands[1] == counter ? constantInt(op->operands[0])
                                      : std::nullopt;
}

std::optional<Count> countOf(const Op &loop) {
  const Block &test = *loop.region(0), &body = *loop.region(1);
  if (test.ops.size() != 2 || test.ops[0]->kind != OpKind::CmpI)
    return std::nullopt;
  const Op &compare = *test.ops[0], &condition = *test.terminator();
  if (condition.operands[0] != compare.result() ||
      !std::equal(test.args.begin(), test.args.end(), condition.operands.begin() + 1, condition.operands.end()))
    return std::nullopt;
  const bool isSwapped = compare.pred() == CmpPred::Sgt;
  if (!isSwapped && compare.pred() != CmpPred::Slt)
    return std::nullopt;
  const Value *counter = compare.operands[isSwapped];
  Value *end = compare.operands[!isSwapped];
  if (counter->def || counter->block != &test || end->block == &test || !counter->type.isScalar() ||
      (counter->type.elem != Elem::I32 && counter->type.elem != Elem::I64))
    return std::nullopt;
  const std::optional<int64_t> step = stepOf(body.terminator()->operands[counter->index], body.args[counter->index]);
  return step && *step > 0 ? std::optional(Count{counter->index, end, *step}) : std::nullopt;
}

class Counter {
public:
  Counter(Module &m, Function &f) : m_(m), b_(m), users_(*f.block()) {
    block(*f.block());
    if (!now_.empty())
      replaceIn(*f.block());
  }

private:
  void block(Block &b) {
    std::vector<Op *> ops;
    ops.swap(b.ops);
    for (Op *op : ops) {
      for (Region *r : op->regions)
        block(*r->block);
      const std::optional<Count> count = op->kind == OpKind::While ? countOf(*op) : std::nullopt;
      if (!count) {
        b.ops.push_back(op);
        continue;
      }
      b_.setBlock(&b);
      b_.setLoc(op->loc);
      b_.setInlinedAt(op->inlinedAt);
      rewrite(*op, *count);
    }
  }

  void rewrite(Op &loop, const Count &count) {
    Block &old = *loop.region(1);
    std::vector<size_t> carried;
    for (size_t i = 0; i < loop.results.size(); ++i)
      if (i != count.carried || !users_.of(loop.results[i]).empty())
        carried.push_back(i);
    std::vector<Value *> operands{loop.operands[count.carried], count.end,
                                  b_.constInt(loop.operands[count.carried]->type, count.step)};
    std::vector<Type> types;
    for (size_t i : carried) {
      operands.push_back(loop.operands[i]);
      types.push_back(loop.operands[i]->type);
    }
    Op &now = *b_.create(OpKind::For, operands, types, loop.attrsFor(OpKind::For));
    Block &body = *now.region(0);
    Op &yield = *old.terminator();
    std::vector<Value *> yielded;
    const auto argument = [&](const Value *like) {
      Value *v = m_.addArg(&body, like->type);
      v->name = like->name;
      return v;
    };
    now_[old.args[count.carried]] = argument(old.args[count.carried]);
    for (size_t k = 0; k < carried.size(); ++k) {
      const size_t i = carried[k];
      Value *v = argument(old.args[i]);
      if (i != count.carried)
        now_[old.args[i]] = v;
      now.results[k]->name = loop.results[i]->name;
      now_[loop.results[i]] = now.results[k];
      yielded.push_back(yield.operands[i]);
    }
    yield.operands = std::move(yielded);
    body.ops.swap(old.ops);
    for (Op *op : body.ops)
      op->parent = &body;
  }

  void replaceIn(Block &b) {
    for (Op *op : b.ops) {
      for (Value *&v : op->operands)
        for (auto it = now_.find(v); it != now_.end(); it = now_.find(v))
          v = it->second;
      for (Region *r : op->regions)
        replaceIn(*r->block);
    }
  }

  Module &m_;
  Builder b_;
  Users users_;
  std::unordered_map<const Value *, Value *> now_;
};

} // namespace

void countLoops(Module &m) {
  for (Function *f : m.functions)
    Counter(m, *f);
}

} // namespace tegula
