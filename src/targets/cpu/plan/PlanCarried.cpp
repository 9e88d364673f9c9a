// Values that cross blocks: loop-carried values, results of branches and functions.
//
// Writing in place. Values that leave a block (yields of for, while and if, the values that a while's condition passes
// on) are written to the buffers of their destinations, as a parallel copy: every new value must be computed from the
// state before any of these writes. One rule for all (parallelMaterialize): move i writes its buffer b directly if
//   1. its value reads b at the element that it computes and nowhere else,
//   2. no later move reads b at all, and
//   3. no root already in the nest that it joins reads b at other elements (else that nest ends first, flushReadersOf).
// All other moves go to temporaries, which are copied after all moves. The rule is about buffers, not values: the
// arguments of a while's two blocks and its results share one. It suffices: by 2, no earlier move has written the input
// of a move, unless at the same element of one nest, where a root's reads come before its write; by 1 and 3, each nest
// that writes b reads element i of it only for element i, in roots up to the writing one; temporaries alias no buffer,
// and are read after all moves. coalesceBuffers() drops copies under the same two conditions:
// nothing reads the target between the first write of the source and the copy, except element i for element i in the
// nest of that first write.
#include "targets/cpu/plan/Planner.h"

namespace tegula::cpu {
using ir::Op;
using ir::OpKind;
using ir::Value;

// Does a nest that computes v read the buffer? With `atSamePlace`: other elements of it than the one that the nest is
// at.
bool Planner::reads(const Value *v, int buffer, bool atSamePlace, Seen &seen) const {
  if (int b = plan_.bufferFor(v); b >= 0)
    return b == buffer && !atSamePlace;
  if (!v->def || !seen.insert({v, atSamePlace}).second)
    return false;
  bool same = atSamePlace && v->def->has(ir::traits::Elementwise);
  return llvm::any_of(v->def->operands, [&](const Value *o) { return reads(o, buffer, same, seen); });
}

// The pending nest must not read the buffer at other places than the one it writes next.
void Planner::flushReadersOf(int buffer) {
  if (!pending_)
    return;
  for (const Root &r : pending_->roots) {
    for (const Value *v : r.asked()) {
      // What the nest itself makes has a buffer, but is computed here.
      const Op *made = r.makes ? v->def : nullptr;
      bool same = !made || made->has(ir::traits::Elementwise);
      if (made ? llvm::any_of(made->operands, [&](const Value *o) { return reads(o, buffer, same); })
               : reads(v, buffer, true))
        return flush();
    }
  }
}

void Planner::parallelMaterialize(llvm::ArrayRef<std::pair<const Value *, const Value *>> moves) {
  // moves[i]: value, and the carried value whose buffer takes it. Direct if no later move reads that buffer.
  std::vector<std::pair<int, int>> copies; // temporary, target
  std::vector<const Value *> targets;
  for (size_t i = 0; i < moves.size(); ++i) {
    auto [v, target] = moves[i];
    int buffer = plan_.bufferFor(target);
    if (v == target || plan_.bufferFor(v) == buffer)
      continue;
    bool direct = !reads(v, buffer, true);
    for (size_t j = i + 1; j < moves.size() && direct; ++j)
      direct = !reads(moves[j].first, buffer, false);
    if (direct) {
      flushReadersOf(buffer);
      materialize(v, buffer);
      continue;
    }
    int temporary = newBuffer(v->type, v->type.shape);
    materialize(v, temporary);
    copies.push_back({temporary, buffer});
    targets.push_back(target);
  }
  flush();
  for (size_t i = 0; i < copies.size(); ++i) {
    // A copy between buffers: a materialize root without value, source in bufferA of the step.
    Step &s = step(StepKind::Nest, nullptr);
    s.bufferA = copies[i].first;
    s.nest = std::make_unique<Nest>();
    s.nest->space = targets[i]->type.shape;
    s.nest->roots.push_back({RootKind::Materialize, nullptr, targets[i], copies[i].second});
  }
}

void Planner::forLoop(const Op &op) {
  const ir::Block &body = *op.regions[0]->block;
  for (size_t i = 0; i < op.results.size(); ++i) {
    const Value *arg = body.args[i + 1];
    if (!arg->type.isTensor())
      continue;
    int b = resultBuffer(arg);
    plan_.bufferOf[op.results[i]] = b;
    materialize(op.operands[3 + i], b);
  }
  flush();
  size_t at = out_->size();
  step(StepKind::For, &op);
  Steps steps;
  block(body, steps);
  (*out_)[at].bodies.push_back(std::move(steps));
}

void Planner::whileLoop(const Op &op) {
  const ir::Block &before = *op.regions[0]->block, &after = *op.regions[1]->block;
  for (size_t i = 0; i < before.args.size(); ++i)
    if (before.args[i]->type.isTensor())
      materialize(op.operands[i], resultBuffer(before.args[i]));
  const Op *cond = before.terminator();
  for (size_t i = 0; i < after.args.size(); ++i)
    if (after.args[i]->type.isTensor()) {
      // A value passed through unchanged needs no second buffer.
      const Value *passed = cond->operands[1 + i];
      int b = !passed->def && passed->block == &before ? plan_.bufferFor(passed) : resultBuffer(after.args[i]);
      plan_.bufferOf[after.args[i]] = b;
      plan_.bufferOf[op.results[i]] = b;
    }
  flush();
  size_t at = out_->size();
  step(StepKind::While, &op);
  for (const ir::Block *b : {&before, &after}) {
    Steps steps;
    block(*b, steps);
    (*out_)[at].bodies.push_back(std::move(steps));
  }
}

void Planner::ifOp(const Op &op) {
  for (const Value *r : op.results)
    if (r->type.isTensor())
      resultBuffer(r);
  flush();
  size_t at = out_->size();
  step(StepKind::If, &op);
  for (const ir::Region *r : op.regions) {
    Steps steps;
    if (r->block)
      block(*r->block, steps);
    (*out_)[at].bodies.push_back(std::move(steps));
  }
}

void Planner::terminator(const Op &op) {
  const Op *owner = op.parent->parent->op;
  std::vector<std::pair<const Value *, const Value *>> moves;
  auto move = [&](const Value *v, const Value *target) {
    if (v->type.isTensor() && plan_.bufferFor(v) != plan_.bufferFor(target))
      moves.push_back({v, target});
    else if (v->type.isTensor() && v != target && plan_.bufferFor(v) < 0)
      moves.push_back({v, target});
  };
  if (!owner) {
    for (size_t i = 0; i < op.operands.size(); ++i)
      if (op.operands[i]->type.isTensor()) {
        int b = newBuffer(op.operands[i]->type, op.operands[i]->type.shape);
        plan_.buffers[static_cast<size_t>(b)].external = static_cast<int>(i);
        materialize(op.operands[i], b);
      }
    flush();
    step(StepKind::Return, &op);
    return;
  }
  if (owner->kind == OpKind::For) {
    for (size_t i = 0; i < op.operands.size(); ++i)
      move(op.operands[i], op.parent->args[i + 1]);
  } else if (owner->kind == OpKind::While && op.kind == OpKind::Condition) {
    for (size_t i = 0; i + 1 < op.operands.size(); ++i)
      move(op.operands[i + 1], owner->regions[1]->block->args[i]);
  } else if (owner->kind == OpKind::While) {
    for (size_t i = 0; i < op.operands.size(); ++i)
      move(op.operands[i], owner->regions[0]->block->args[i]);
  } else {
    for (size_t i = 0; i < op.operands.size(); ++i)
      move(op.operands[i], owner->results[i]);
  }
  parallelMaterialize(moves);
  flush();
}

} // namespace tegula::cpu
