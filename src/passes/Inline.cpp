// Inlining by copying; see Inline.h.
#include "passes/Inline.h"
#include "passes/Effects.h"
#include <unordered_map>
#include <unordered_set>

namespace tegula {

using namespace ir;

namespace {

/// Copies the body of one callee to one place.
class Copier {
public:
  Copier(Module &m, int32_t site) : module_(m), site_(site) {}

  void map(const Value *from, Value *to) { values_[from] = to; }
  Value *operator()(const Value *v) const { return values_.at(v); }

  void copyInto(const Op &op, Block &to) {
    std::vector<Value *> operands;
    for (const Value *v : op.operands)
      operands.push_back(values_.at(v));
    Op *copy = module_.createOp(op.kind, op.loc, operands, {}, op.attrs);
    copy->parent = &to;
    copy->inlinedAt = chain(op.inlinedAt);
    for (const Value *r : op.results)
      copyValue(r, module_.addResult(copy, r->type));
    for (size_t i = 0; i < op.regions.size(); ++i) {
      Region *r = copy->regions[i];
      r->function = to.parent->function;
      for (const Value *a : op.regions[i]->block->args)
        copyValue(a, module_.addArg(r->block, a->type));
      for (const Op *o : op.regions[i]->block->ops)
        copyInto(*o, *r->block);
    }
    to.ops.push_back(copy);
  }

private:
  void copyValue(const Value *from, Value *to) {
    to->name = from->name;
    map(from, to);
  }
  /// The callee's chain, continued by this call.
  int32_t chain(int32_t inner) {
    if (inner < 0)
      return site_;
    auto [it, isNew] = chains_.emplace(inner, -1);
    if (isNew) {
      InlineSite s = module_.inlineSites[static_cast<size_t>(inner)];
      s.parent = chain(s.parent);
      int32_t copy = static_cast<int32_t>(module_.inlineSites.size());
      module_.inlineSites.push_back(std::move(s));
      chains_[inner] = copy;
      return copy;
    }
    return it->second;
  }

  Module &module_;
  int32_t site_;
  std::unordered_map<const Value *, Value *> values_;
  std::unordered_map<int32_t, int32_t> chains_;
};

class Inliner {
public:
  explicit Inliner(Module &m) : module_(m) {
    for (Function *f : m.functions)
      byName_[f->name] = f;
  }

  void block(Block &b) {
    std::vector<Op *> ops;
    ops.swap(b.ops);
    b.ops.reserve(ops.size());
    for (Op *op : ops) {
      for (Value *&v : op->operands)
        v = resolve(v);
      for (Region *r : op->regions)
        block(*r->block);
      Function *callee = op->kind == OpKind::Call ? byName_.at(op->callee()) : nullptr;
      if (callee && !callee->noinline_)
        replace(*op, *callee, b);
      else
        b.ops.push_back(op);
    }
  }

private:
  void replace(Op &call, const Function &callee, Block &b) {
    int32_t site = static_cast<int32_t>(module_.inlineSites.size());
    module_.inlineSites.push_back({call.loc, callee.name, call.inlinedAt});
    Copier copy(module_, site);
    for (size_t i = 0; i < call.operands.size(); ++i)
      copy.map(callee.block()->args[i], call.operands[i]);
    for (const Op *op : callee.block()->ops) {
      if (op->kind != OpKind::Return) {
        copy.copyInto(*op, b);
        continue;
      }
      for (size_t i = 0; i < call.results.size(); ++i)
        call.results[i]->forward = copy(op->operands[i]);
    }
  }

  Module &module_;
  std::unordered_map<std::string_view, Function *> byName_;
};

void collectCallees(const Block &b, std::unordered_set<std::string> &names) {
  for (const Op *op : b.ops) {
    if (op->kind == OpKind::Call)
      names.emplace(op->callee());
    for (const Region *r : op->regions)
      collectCallees(*r->block, names);
  }
}

} // namespace

void inlineCalls(Module &m) {
  Inliner inliner(m);
  for (Function *f : m.functions)
    inliner.block(*f->block());
  if (!m.kernel()) // a library of functions: all of them may be called from outside
    return;
  // Callers first, so that callees of removed functions are removed, too.
  std::unordered_set<std::string> called;
  for (size_t i = m.functions.size(); i-- > 0;) {
    Function *f = m.functions[i];
    if (f->isKernel || called.count(f->name))
      collectCallees(*f->block(), called);
    else
      m.functions.erase(m.functions.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

} // namespace tegula
