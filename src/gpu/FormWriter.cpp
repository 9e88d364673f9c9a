// See FormWriter.h.
#include "gpu/FormWriter.h"

namespace tegula::gpu {

using namespace ir;

Function *FormWriter::writeKernel(const Function &f) {
  std::vector<Type> args;
  for (const Value *v : f.block()->args)
    args.push_back(v->type);
  Function *g = out_.createFunction(f.name, args, {}, f.loc);
  g->isKernel = true;
  g->isOrdered = f.isOrdered;
  g->argInfo = f.argInfo;
  for (size_t i = 0; i < args.size(); ++i)
    define(f.block()->args[i], scalar_, g->block()->args[i]);
  body(*f.block(), g->block());
  return g;
}

void FormWriter::define(const Value *old, int form, Value *now) {
  now->name = old->name;
  made_.back()[{old, form}] = now;
}

Value *FormWriter::find(const Value *v, int form) const {
  for (auto it = made_.rbegin(); it != made_.rend(); ++it)
    if (auto found = it->find({v, form}); found != it->end())
      return found->second;
  return nullptr;
}

Op *FormWriter::clone(const Op &op, std::span<Value *const> operands, std::span<const Type> results) {
  b_.setLoc(op.loc);
  b_.setInlinedAt(op.inlinedAt);
  return b_.create(op.kind, operands, results, op.attrs);
}

Value *FormWriter::wantNarrow(const Value *v, int form) {
  const Op *op = v->def;
  const bool isWidened = op && v->type.isTensor() &&
                         (op->kind == OpKind::FpExt || op->kind == OpKind::SExt || op->kind == OpKind::ZExt) &&
                         op->operands[0]->type.elem != Elem::I1;
  if (!isWidened || find(v, form) || formOf(v) == form)
    return want(v, form);
  Value *from = want(op->operands[0], form);
  Type t = typeIn(v, form);
  Value *made = clone(*op, {&from, 1}, {&t, 1})->result();
  define(v, form, made);
  return made;
}

void FormWriter::body(const Block &from, Block *to) {
  Block *saved = b_.block();
  b_.setBlock(to);
  made_.emplace_back();
  for (const Op *op : from.ops)
    switch (op->kind) {
    case OpKind::For:
    case OpKind::While:
    case OpKind::If: control(*op); break;
    case OpKind::Yield:
    case OpKind::Condition:
    case OpKind::Return: terminator(*op); break;
    default: compute(*op);
    }
  made_.pop_back();
  b_.setBlock(saved);
}

void FormWriter::terminator(const Op &op) {
  std::vector<Value *> operands;
  for (size_t i = 0; i < op.operands.size(); ++i)
    operands.push_back(want(op.operands[i], op.kind == OpKind::Return ? scalar_ : yields_.back()[i]));
  clone(op, operands, {});
}

void FormWriter::region(const Op &old, Op &now, unsigned i, std::vector<int> yields) {
  Block *to = now.region(i);
  made_.emplace_back();
  for (const Value *arg : old.region(i)->args)
    define(arg, formOf(arg), out_.addArg(to, typeIn(arg, formOf(arg))));
  yields_.push_back(std::move(yields));
  body(*old.region(i), to);
  yields_.pop_back();
  made_.pop_back();
}

void FormWriter::scalarRegion(const Op &old, Op &now) {
  made_.emplace_back();
  for (const Value *arg : old.region(0)->args)
    define(arg, scalar_, out_.addArg(now.region(0), arg->type));
  yields_.emplace_back(old.results.size(), scalar_);
  body(*old.region(0), now.region(0));
  yields_.pop_back();
  made_.pop_back();
}

void FormWriter::control(const Op &op) {
  std::vector<Value *> operands;
  std::vector<Type> results;
  std::vector<int> forms, inits;
  // A carried value has one form, that of its argument.
  for (size_t i = 0; i < op.results.size(); ++i) {
    const Value *r = op.results[i];
    if (op.kind != OpKind::If)
      r = op.kind == OpKind::For ? op.region(0)->args[1 + i] : op.region(1)->args[i];
    forms.push_back(formOf(r));
    results.push_back(typeIn(r, forms.back()));
  }
  if (op.kind != OpKind::If)
    for (size_t i = op.kind == OpKind::For; i < op.region(0)->args.size(); ++i)
      inits.push_back(formOf(op.region(0)->args[i]));
  const size_t scalars = op.operands.size() - inits.size();
  for (size_t i = 0; i < op.operands.size(); ++i)
    operands.push_back(want(op.operands[i], i < scalars ? scalar_ : inits[i - scalars]));
  Op *now = clone(op, operands, results);
  if (op.kind == OpKind::While) {
    std::vector<int> condition = forms;
    condition.insert(condition.begin(), scalar_);
    region(op, *now, 0, std::move(condition));
    region(op, *now, 1, std::move(inits));
  } else {
    for (unsigned i = 0; i < op.regions.size(); ++i)
      region(op, *now, i, forms);
  }
  finish(op, *now, forms);
}

void FormWriter::finish(const Op &op, const Op &now, std::span<const int> forms) {
  for (size_t i = 0; i < op.results.size(); ++i)
    define(op.results[i], forms[i], now.results[i]);
}

} // namespace tegula::gpu
