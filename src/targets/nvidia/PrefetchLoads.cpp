// See PrefetchLoads.h.
#include "targets/nvidia/PrefetchLoads.h"
#include "targets/nvidia/LoopSlice.h"
#include <algorithm>

namespace tegula::nvidia {

using namespace ir;

namespace {

class LoopPrefetcher {
public:
  LoopPrefetcher(Module &m, Op &loop) : b_(m), module_(m), loop_(loop), body_(*loop.region(0)), slice_(loop) { b_.setFolding(false); }

  bool run() {
    if (loop_.intAttr("reverse") || !collect())
      return false;
    Block *outer = loop_.parent;
    // In front of the loop: the first iteration's loads.
    Block before;
    before.parent = outer->parent;
    std::vector<Value *> first = copyLoads(before, atStart());
    auto at = std::find(outer->ops.begin(), outer->ops.end(), &loop_);
    for (Op *op : before.ops)
      op->parent = outer;
    outer->ops.insert(at, before.ops.begin(), before.ops.end());
    // At the top of the body: the next iteration's.
    Block ahead;
    ahead.parent = body_.parent;
    std::vector<Value *> next = copyLoads(ahead, atNext(ahead));
    for (Op *op : ahead.ops)
      op->parent = &body_;
    body_.ops.insert(body_.ops.begin(), ahead.ops.begin(), ahead.ops.end());
    // The loaded tiles travel around the loop.
    for (size_t i = 0; i < loads_.size(); ++i) {
      const Type &t = loads_[i]->result()->type;
      Value *arg = module_.addArg(&body_, t);
      arg->name = loads_[i]->result()->name;
      replaceUses(body_, loads_[i]->result(), arg);
      loop_.operands.push_back(first[i]);
      module_.addResult(&loop_, t);
      body_.terminator()->operands.push_back(next[i]);
      std::erase(body_.ops, loads_[i]);
    }
    return true;
  }

private:
  using Map = LoopSlice::Map;

  /// Loads that feed a dot, if their addresses can be computed ahead.
  bool collect() {
    for (const Op *op : body_.ops) {
      bool isPipeline = op->kind == OpKind::If && std::all_of(op->region(0)->ops.begin(), op->region(0)->ops.end(), [](const Op *o) {
        return o->has(traits::Shared | traits::Pure | traits::Terminator);
      });
      if ((op->has(traits::Writes) && !op->has(traits::Shared)) || (!op->regions.empty() && !isPipeline))
        return false;
    }
    loads_ = loadsOfDots(body_);
    std::erase_if(loads_, [](const Op *load) { return load->kind != OpKind::Load; });
    return !loads_.empty() && std::all_of(loads_.begin(), loads_.end(), [&](const Op *load) {
      return std::all_of(load->operands.begin(), load->operands.end(), [&](const Value *v) { return slice_.add(v); });
    });
  }

  Map atStart() const {
    Map m{{body_.args[0], loop_.operands[0]}};
    for (size_t i = 1; i < body_.args.size(); ++i)
      m[body_.args[i]] = loop_.operands[2 + i];
    return m;
  }
  /// Values of the arguments one iteration later: this iteration's updates, computed at the top as well.
  Map atNext(Block &to) {
    b_.setBlock(&to);
    Map now, next;
    next[body_.args[0]] = b_.binary(OpKind::Add, body_.args[0], loop_.operands[2]);
    for (Value *arg : slice_.carried())
      next[arg] = slice_.copy(b_, slice_.nextOf(arg), now);
    return next;
  }

  /// The loads with the arguments of the body replaced, masked off when that iteration does not run.
  std::vector<Value *> copyLoads(Block &to, Map map) {
    b_.setBlock(&to);
    Value *runs = b_.cmp(CmpPred::Slt, map.at(body_.args[0]), loop_.operands[1]);
    std::vector<Value *> out;
    for (const Op *load : loads_) {
      std::vector<Value *> operands;
      for (Value *o : load->operands)
        operands.push_back(slice_.copy(b_, o, map));
      Type maskType = load->result()->type.withElem(Elem::I1);
      Value *mask = b_.create1(OpKind::Splat, {runs}, maskType);
      if (operands.size() > 1)
        operands[1] = b_.create1(OpKind::And, {operands[1], mask}, maskType);
      else
        operands.push_back(mask);
      out.push_back(LoopSlice::clone(b_, *load, operands)->result());
    }
    return out;
  }

  static void replaceUses(Block &b, const Value *from, Value *to) {
    for (Op *op : b.ops)
      std::replace(op->operands.begin(), op->operands.end(), const_cast<Value *>(from), to);
  }

  Builder b_;
  Module &module_;
  Op &loop_;
  Block &body_;
  LoopSlice slice_;
  std::vector<Op *> loads_;
};

void visit(Module &m, Block &b, const NvOptions &options) {
  for (size_t i = 0; i < b.ops.size(); ++i) {
    Op *op = b.ops[i];
    for (Region *r : op->regions)
      visit(m, *r->block, options);
    if (op->kind != OpKind::For || op->intAttr("num_stages", options.numStages) < 2)
      continue;
    size_t before = b.ops.size();
    if (LoopPrefetcher(m, *op).run())
      i += b.ops.size() - before;
  }
}

} // namespace

void prefetchLoads(Module &m, const NvOptions &options) { visit(m, *m.kernel()->block(), options); }

} // namespace tegula::nvidia
