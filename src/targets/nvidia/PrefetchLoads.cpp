// See PrefetchLoads.h.
#include "targets/nvidia/PrefetchLoads.h"
#include "ir/Builder.h"
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace tegula::nvidia {

using namespace ir;

namespace {

class LoopPrefetcher {
public:
  LoopPrefetcher(Module &m, Op &loop) : b_(m), module_(m), loop_(loop), body_(*loop.region(0)) { b_.setFolding(false); }

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
  using Map = std::unordered_map<const Value *, Value *>;

  bool isInside(const Value *v) const { return v->def ? v->def->parent == &body_ : v->block == &body_; }

  /// Loads that feed a dot, and that their addresses can be computed ahead.
  bool collect() {
    std::vector<const Value *> work;
    for (Op *op : body_.ops) {
      if (op->has(traits::Writes) || !op->regions.empty())
        return false;
      if (op->kind == OpKind::Dot)
        work.insert(work.end(), op->operands.begin(), op->operands.begin() + 2);
    }
    std::unordered_set<const Value *> seen;
    while (!work.empty()) {
      const Value *v = work.back();
      work.pop_back();
      if (!v->def || v->def->parent != &body_ || !seen.insert(v).second)
        continue;
      if (v->def->kind == OpKind::Load) {
        if (v->type.isTensor())
          loads_.push_back(v->def);
      } else {
        work.insert(work.end(), v->def->operands.begin(), v->def->operands.end());
      }
    }
    // Program order, whatever way they were found.
    std::sort(loads_.begin(), loads_.end(), [&](Op *a, Op *b) {
      return std::find(body_.ops.begin(), body_.ops.end(), a) < std::find(body_.ops.begin(), body_.ops.end(), b);
    });
    for (Op *load : loads_)
      for (const Value *v : load->operands)
        if (!needs(v))
          return false;
    // What the addresses take from carried values has to be known for the next iteration too.
    for (bool grows = true; grows;) {
      size_t count = slice_.size() + carried_.size();
      for (size_t i = 0; i < carried_.size(); ++i)
        if (!needs(body_.terminator()->operands[carried_[i]->index - 1]))
          return false;
      grows = slice_.size() + carried_.size() > count;
    }
    return !loads_.empty();
  }

  /// Adds everything inside the body that v is computed from; false if that takes more than pure arithmetic.
  bool needs(const Value *v) {
    if (!isInside(v))
      return true;
    if (!v->def) {
      if (v->index && std::find(carried_.begin(), carried_.end(), v) == carried_.end())
        carried_.push_back(v);
      return true;
    }
    if (slice_.count(v->def))
      return true;
    if (!v->def->has(traits::Pure) || v->def->kind == OpKind::Dot || !v->def->regions.empty())
      return false;
    for (const Value *o : v->def->operands)
      if (!needs(o))
        return false;
    slice_.insert(v->def);
    return true;
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
    for (const Value *arg : carried_)
      next[arg] = copy(body_.terminator()->operands[arg->index - 1], now);
    return next;
  }

  Value *copy(Value *v, Map &map) {
    if (auto it = map.find(v); it != map.end())
      return it->second;
    if (!isInside(v) || !v->def)
      return v;
    std::vector<Value *> operands;
    for (Value *o : v->def->operands)
      operands.push_back(copy(o, map));
    return map[v] = clone(*v->def, operands)->results[v->index];
  }
  Op *clone(const Op &op, std::span<Value *const> operands) {
    std::vector<Type> types;
    for (const Value *r : op.results)
      types.push_back(r->type);
    b_.setLoc(op.loc);
    b_.setInlinedAt(op.inlinedAt);
    return b_.create(op.kind, operands, types, op.attrs);
  }

  /// The loads with the arguments of the body replaced, masked off when that iteration does not run.
  std::vector<Value *> copyLoads(Block &to, Map map) {
    b_.setBlock(&to);
    Value *runs = b_.cmp(CmpPred::Slt, map.at(body_.args[0]), loop_.operands[1]);
    std::vector<Value *> out;
    for (const Op *load : loads_) {
      std::vector<Value *> operands;
      for (Value *o : load->operands)
        operands.push_back(copy(o, map));
      Type maskType = load->result()->type.withElem(Elem::I1);
      Value *mask = b_.create1(OpKind::Splat, {runs}, maskType);
      if (operands.size() > 1)
        operands[1] = b_.create1(OpKind::And, {operands[1], mask}, maskType);
      else
        operands.push_back(mask);
      out.push_back(clone(*load, operands)->result());
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
  std::vector<Op *> loads_;
  std::vector<const Value *> carried_;
  std::unordered_set<const Op *> slice_;
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
