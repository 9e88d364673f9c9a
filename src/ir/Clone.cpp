// See Clone.h.
#include "ir/Clone.h"

namespace tegula::ir {

Op *Cloner::copy(const Op &op, Block &to, const std::function<void(const Block &, Block &)> &region) {
  std::vector<Value *> operands;
  operands.reserve(op.operands.size());
  for (const Value *v : op.operands)
    operands.push_back((*this)(v));
  Op *made = to_.createOp(op.kind, op.loc, operands, {}, op.attrs);
  made->parent = &to;
  made->inlinedAt = op.inlinedAt;
  for (const Value *r : op.results) {
    Value *now = to_.addResult(made, r->type);
    now->name = r->name;
    map(r, now);
  }
  while (made->regions.size() < op.regions.size())
    to_.addRegion(made);
  for (size_t i = 0; i < op.regions.size(); ++i) {
    made->regions[i]->function = to.parent->function;
    region(*op.regions[i]->block, *made->regions[i]->block);
  }
  to.ops.push_back(made);
  return made;
}

void Cloner::copyArgs(const Block &from, Block &to) {
  for (const Value *a : from.args) {
    Value *now = to_.addArg(&to, a->type);
    now->name = a->name;
    map(a, now);
  }
}

void Cloner::copyBlock(const Block &from, Block &to) {
  copyArgs(from, to);
  for (const Op *op : from.ops)
    copy(*op, to);
}

std::unique_ptr<Module> clone(const Module &m) {
  auto out = std::make_unique<Module>();
  out->inlineSites = m.inlineSites;
  out->layouts = m.layouts;
  out->sources = m.sources;
  for (const Function *f : m.functions) {
    Function *now = out->createFunction(f->name, {}, f->resultTypes, f->loc);
    now->isKernel = f->isKernel;
    now->noinline_ = f->noinline_;
    now->isOrdered = f->isOrdered;
    now->argInfo = f->argInfo;
    Cloner(*out).copyBlock(*f->block(), *now->block());
  }
  return out;
}

} // namespace tegula::ir
