// See ProgramGrowth.h.
#include "targets/cpu/plan/ProgramGrowth.h"
#include "ir/Builder.h"
#include "llvm/ADT/STLExtras.h"

namespace tegula::cpu {
using ir::Op;
using ir::OpKind;
using ir::Shape;
using ir::Type;
using ir::Value;

namespace {

using Number = std::optional<int64_t>;

Number sum(Number a, Number b, int64_t scale = 1) {
  int64_t product, out;
  if (!a || !b || __builtin_mul_overflow(*b, scale, &product) || __builtin_add_overflow(*a, product, &out))
    return {};
  return out;
}

Number constantOf(const Value *v) {
  while (v->def && v->def->has(ir::traits::Shape) && v->def->operands.size() == 1)
    v = v->def->operands[0];
  return v->type.isPtr ? std::nullopt : ir::constantInt(v);
}

int64_t widthOf(const Type &t) { return std::max(1u, ir::byteWidth(t.elem)); }

/// a + scale * b, of operands and results of one shape.
Growth sum(Growth a, const Growth &b, int64_t scale) {
  a.program = sum(a.program, b.program, scale);
  for (size_t d = 0; d < a.dims.size(); ++d)
    a.dims[d] = sum(a.dims[d], b.dims[d], scale);
  a.varies |= b.varies;
  a.counted = false;
  return a;
}

/// The growth that both have in common.
Growth join(Growth a, const Growth &b) {
  if (a.program != b.program)
    a.program = {};
  for (size_t d = 0; d < a.dims.size(); ++d)
    if (a.dims[d] != b.dims[d])
      a.dims[d] = {};
  a.varies |= b.varies;
  a.counted &= b.counted;
  return a;
}

/// For a reshape: copies the growth of trailing dimensions that are unchanged, ignoring dimensions of one element.
void reshapeDims(const Shape &from, const Shape &to, const Growth &of, Growth &out) {
  const bool flat = llvm::all_of(of.dims, [](const Number &n) { return n == 0; });
  unsigned i = from.rank();
  for (unsigned d = to.rank(); d-- > 0;) {
    while (i && from[i - 1] == 1)
      --i;
    if (to[d] == 1 || flat)
      continue;
    if (!i || from[i - 1] != to[d]) {
      for (unsigned rest = 0; rest <= d; ++rest)
        out.dims[rest] = {};
      return;
    }
    out.dims[d] = of.dims[--i];
  }
}

} // namespace

Growth ProgramGrowth::of(const Value *v) const {
  auto it = growth_.find(v);
  if (it != growth_.end())
    return it->second;
  Growth g;
  g.dims.assign(v->type.shape.rank(), 0);
  return g;
}

bool ProgramGrowth::isDividedNumber(const Op &op) const {
  const bool divides =
      op.kind == OpKind::SDiv || op.kind == OpKind::UDiv || op.kind == OpKind::SRem || op.kind == OpKind::URem;
  return divides && of(op.operands[0]).counted && !varies(op.operands[1]);
}

// Whatever it computes: nothing of what does not grow in its operands.
Growth ProgramGrowth::anyhow(const Op &op, const Type &t) const {
  Growth g;
  g.dims.assign(t.shape.rank(), 0);
  for (const Value *v : op.operands) {
    const Growth o = of(v);
    g.varies |= o.varies;
    if (o.program != 0)
      g.program = {};
    const bool sameDims = op.has(ir::traits::Elementwise) || op.kind == OpKind::Load;
    for (size_t d = 0; d < o.dims.size(); ++d)
      if (o.dims[d] != 0) {
        for (size_t to = 0; to < g.dims.size(); ++to)
          if (!sameDims || to == d)
            g.dims[to] = {};
      }
  }
  return g;
}

Growth ProgramGrowth::growthOf(const Op &op) const {
  auto operand = [&](unsigned i) { return of(op.operands[i]); };
  const Type &t = op.result()->type;
  Growth g;
  g.dims.assign(t.shape.rank(), 0);
  switch (op.kind) {
  case OpKind::ProgramId:
    if (op.axis() == axis_)
      g.program = 1, g.varies = g.counted = true;
    return g;
  case OpKind::Range:
    g.dims[0] = 1;
    return g;
  case OpKind::SDiv: case OpKind::UDiv:
    if (isDividedNumber(op))
      return g;
    break;
  case OpKind::SRem: case OpKind::URem:
    if (isDividedNumber(op))
      return operand(0);
    break;
  case OpKind::SExt: case OpKind::ZExt:
    return operand(0);
  case OpKind::Trunc:
    g = operand(0);
    g.counted = false;
    return g;
  case OpKind::Add: case OpKind::Sub: case OpKind::AddPtr:
    return sum(operand(0), operand(1), op.kind == OpKind::Add ? 1 : op.kind == OpKind::Sub ? -1 : widthOf(t));
  case OpKind::Mul:
    for (unsigned i = 0; i < 2; ++i)
      if (const Number by = constantOf(op.operands[1 - i])) {
        g.varies = llvm::any_of(op.operands, [&](const Value *v) { return varies(v); });
        return sum(g, operand(i), *by);
      }
    break;
  case OpKind::Splat: case OpKind::ExpandDims: case OpKind::Broadcast: case OpKind::Reshape: case OpKind::Permute: {
    const Growth from = operand(0);
    const Shape &shape = op.operands[0]->type.shape;
    g.program = from.program, g.varies = from.varies;
    if (op.kind == OpKind::Reshape)
      reshapeDims(shape, t.shape, from, g);
    for (unsigned d = 0; d < t.shape.rank() && op.kind != OpKind::Splat && op.kind != OpKind::Reshape; ++d) {
      if (op.kind == OpKind::Permute)
        g.dims[d] = from.dims[static_cast<size_t>(op.perm()[d])];
      else if (op.kind == OpKind::Broadcast)
        g.dims[d] = shape[d] == t.shape[d] ? from.dims[d] : 0;
      else if (d != op.axis())
        g.dims[d] = from.dims[d < op.axis() ? d : d - 1];
    }
    return g;
  }
  default:
    break;
  }
  return anyhow(op, t);
}

void ProgramGrowth::noteBlock(const ir::Block &b) {
  for (const Op *op : b.ops)
    note(*op);
}

// What a loop carries grows in each round as where it starts, or not by one number.
void ProgramGrowth::noteLoop(const Op &loop) {
  const ir::Block &body = *loop.region(0);
  Growth number;
  for (unsigned i = 0; i < 3; ++i)
    number = join(number, of(loop.operands[i]));
  if (number.varies)
    number.program = {};
  growth_[body.args[0]] = number;
  for (size_t i = 3; i < loop.operands.size(); ++i) {
    Growth first = of(loop.operands[i]);
    first.counted = false;
    growth_[body.args[i - 2]] = first;
  }
  for (bool changed = true; changed;) { // each time a number less is known
    changed = false;
    noteBlock(body);
    const Op &yield = *body.terminator();
    for (size_t i = 0; i < yield.operands.size(); ++i) {
      const Value *arg = body.args[i + 1];
      Growth now = join(of(arg), of(yield.operands[i]));
      if (number.varies)
        now.program = {}, now.varies = true;
      changed |= !(now == of(arg));
      growth_[arg] = now;
    }
  }
  for (size_t i = 0; i < loop.results.size(); ++i)
    growth_[loop.results[i]] = of(body.args[i + 1]);
}

void ProgramGrowth::note(const Op &op) {
  if (op.kind == OpKind::For)
    return noteLoop(op);
  if (op.kind == OpKind::If) {
    for (const ir::Region *r : op.regions)
      noteBlock(*r->block);
    for (size_t i = 0; i < op.results.size(); ++i) {
      Growth g = join(of(op.region(0)->terminator()->operands[i]), of(op.region(1)->terminator()->operands[i]));
      if (varies(op.operands[0]))
        g.program = {}, g.varies = true;
      g.counted = false;
      growth_[op.results[i]] = g;
    }
    return;
  }
  if (op.results.size() == 1 && op.regions.empty()) {
    growth_[op.result()] = growthOf(op);
    return;
  }
  for (const Value *r : op.results) {
    Growth g = anyhow(op, r->type);
    if (op.kind == OpKind::While) { // not followed
      g.program = {}, g.varies = true;
      std::fill(g.dims.begin(), g.dims.end(), std::nullopt);
    }
    growth_[r] = g;
  }
}

} // namespace tegula::cpu
