// Mark and sweep; see RemoveDead.h. Value::mark holds 1 for live values.
#include "passes/RemoveDead.h"
#include "passes/Effects.h"
#include <unordered_set>

namespace tegula {

using namespace ir;

namespace {

bool isStructured(const Op &op) { return op.kind == OpKind::For || op.kind == OpKind::While || op.kind == OpKind::If; }

class Marker {
public:
  void clear(Block &b) {
    for (Value *v : b.args)
      v->mark = 0;
    for (Op *op : b.ops) {
      for (Value *v : op->results)
        v->mark = 0;
      for (Region *r : op->regions)
        clear(*r->block);
    }
  }

  void roots(Block &b) {
    for (Op *op : b.ops) {
      bool structured = isStructured(*op);
      bool isRoot = op->kind == OpKind::Return || (!op->has(traits::Terminator) && !isRemovableHere(*op));
      if (isRoot) {
        liveOp(*op);
        if (!structured)
          for (Value *v : op->operands)
            live(v);
      }
      if (structured)
        for (Region *r : op->regions)
          roots(*r->block);
    }
  }

  void run() {
    while (!work_.empty()) {
      Value *v = work_.back();
      work_.pop_back();
      visit(v);
    }
  }

  bool isLive(const Op &op) const { return ops_.count(&op) != 0; }

private:
  /// Structured operations are live by their contents, so their regions are not searched here.
  static bool isRemovableHere(const Op &op) {
    if (op.kind == OpKind::For || op.kind == OpKind::If)
      return true;
    return isRemovable(op);
  }

  void live(Value *v) {
    if (v->mark)
      return;
    v->mark = 1;
    work_.push_back(v);
  }

  /// The operation stays: what steers it is needed, and everything around it stays.
  void liveOp(Op &op) {
    if (!ops_.insert(&op).second)
      return;
    switch (op.kind) {
    case OpKind::For:
      for (unsigned i = 0; i < 3; ++i)
        live(op.operands[i]);
      break;
    case OpKind::If: live(op.operands[0]); break;
    case OpKind::While: live(op.region(0)->terminator()->operands[0]); break;
    default:
      for (Value *v : op.operands)
        live(v);
      for (Region *r : op.regions)
        wholeRegion(*r->block);
    }
    if (Op *around = op.parent->parent->op)
      liveOp(*around);
  }

  /// Regions of reduce and scan stay as they are, less their dead operations.
  void wholeRegion(Block &b) {
    roots(b);
    for (Value *v : b.terminator()->operands)
      live(v);
  }

  void carried(Op &op, unsigned i) {
    liveOp(op);
    live(op.results[i]);
    switch (op.kind) {
    case OpKind::For:
      live(op.operands[i + 3]);
      live(op.region(0)->args[i + 1]);
      live(op.region(0)->terminator()->operands[i]);
      break;
    case OpKind::While:
      live(op.operands[i]);
      live(op.region(0)->args[i]);
      live(op.region(1)->args[i]);
      live(op.region(0)->terminator()->operands[i + 1]);
      live(op.region(1)->terminator()->operands[i]);
      break;
    default:
      live(op.region(0)->terminator()->operands[i]);
      live(op.region(1)->terminator()->operands[i]);
    }
  }

  void visit(Value *v) {
    if (v->def) {
      if (isStructured(*v->def))
        carried(*v->def, v->index);
      else
        liveOp(*v->def);
      return;
    }
    Op *owner = v->block->parent->op;
    if (!owner)
      return;
    if (owner->kind == OpKind::While)
      carried(*owner, v->index);
    else if (owner->kind == OpKind::For && v->index > 0)
      carried(*owner, v->index - 1);
    else
      liveOp(*owner);
  }

  std::unordered_set<const Op *> ops_;
  std::vector<Value *> work_;
};

void sweep(Block &b, const Marker &m) {
  size_t kept = 0;
  for (Op *op : b.ops) {
    if (!op->has(traits::Terminator) && !m.isLive(*op))
      continue;
    if (isStructured(*op))
      for (size_t i = op->results.size(); i-- > 0;)
        if (!op->results[i]->mark)
          eraseCarried(*op, static_cast<unsigned>(i));
    for (Region *r : op->regions)
      sweep(*r->block, m);
    b.ops[kept++] = op;
  }
  b.ops.resize(kept);
}

} // namespace

void removeDead(Function &f) {
  Marker m;
  m.clear(*f.block());
  m.roots(*f.block());
  m.run();
  sweep(*f.block(), m);
}

void removeDead(Module &m) {
  for (Function *f : m.functions)
    removeDead(*f);
}

} // namespace tegula
