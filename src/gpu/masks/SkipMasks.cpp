// See SkipMasks.h.
#include "gpu/masks/SkipMasks.h"
#include "gpu/BlockEdit.h"
#include "gpu/Dots.h"
#include "gpu/Layouts.h"
#include "gpu/masks/Everywhere.h"
#include "ir/Builder.h"
#include "ir/Clone.h"
#include <algorithm>

namespace tegula::gpu {

using namespace ir;

namespace {

/// For a mask `scalar or rest`: the scalar, which makes the mask true everywhere, and `rest`; else null and the mask.
std::pair<Value *, const Value *> unless(const Value *mask) {
  if (const Op *op = mask->def; op && op->kind == OpKind::Or)
    for (int i : {0, 1})
      if (const Op *all = op->operands[i]->def; all && all->kind == OpKind::Splat)
        return {all->operands[0], op->operands[1 - i]};
  return {nullptr, mask};
}

class Skipper {
public:
  Skipper(Module &m, Op &loop, int64_t threads)
      : m_(m), b_(m), body_(*loop.region(0)), edit_(body_), threads_(threads) {
    b_.setFolding(false);
  }

  void run() {
    for (Op *op : body_.ops)
      if (!skipped_.contains(op) && isMasking(*op))
        skip(*op);
  }

private:
  bool isMasking(const Op &op) const {
    constexpr int64_t leastOfThread = 8; // elements: a branch takes as long as their selections
    return op.kind == OpKind::Select && op.operands[0]->type.isTensor() && op.result()->type.isTensor() &&
           op.result()->type.numel() >= leastOfThread * threads_ && op.operands[1]->def &&
           op.operands[1]->def->kind != OpKind::Const && changes(op.operands[0]) && Everywhere::of(op.operands[0]);
  }

  /// Is `v` defined in this body?
  bool changes(const Value *v) const { return v->def ? v->def->parent == &body_ : v->block == &body_; }

  void skip(Op &first) {
    // A chain of selections, each of the result of the one before.
    std::vector<Op *> row{&first};
    for (;;) {
      const std::vector<Op *> users = edit_.users(row.back()->result());
      if (users.size() != 1 || !isMasking(*users[0]) || users[0]->operands[1] != row.back()->result() ||
          users[0]->operands[2] == row.back()->result())
        break;
      row.push_back(users[0]);
    }
    Op &last = *row.back();
    Block here;
    here.parent = body_.parent;
    b_.setBlock(&here);
    b_.setLoc(last.loc);
    b_.setInlinedAt(last.inlinedAt);
    Value *holds = nullptr;
    for (const Op *op : row) {
      Value *mask = Everywhere::of(op->operands[0])->write(b_);
      holds = holds ? b_.binary(OpKind::And, holds, mask) : mask;
    }
    const Type type = last.result()->type;
    Op *when = b_.ifOp(holds, {&type, 1});
    b_.setBlock(when->region(0));
    b_.yield({&first.operands[1], 1});
    Block &masked = *when->region(1);
    Cloner c(m_);
    for (const Op *op : row) {
      const Value *mask = op->operands[0];
      if (row.size() == 1) // the scalar is false here
        mask = unless(mask).second;
      copyMask(mask, c, masked);
      c.map(op->operands[0], c(mask));
      c.copy(*op, masked);
    }
    b_.setBlock(&masked);
    Value *result = c(last.result());
    b_.yield({&result, 1});
    edit_.replaceUses(last.result(), when->result());
    edit_.insertBefore(&last, here);
    for (const Op *op : row) {
      edit_.erase(op);
      skipped_.insert(op);
    }
  }

  void copyMask(const Value *v, Cloner &c, Block &to) {
    const Op *op = v->def;
    if (!op || op->parent != &body_ || c(v) != v || !v->type.isTensor())
      return;
    for (const Value *o : op->operands)
      copyMask(o, c, to);
    c.copy(*op, to);
  }

  Module &m_;
  Builder b_;
  Block &body_;
  BlockEditor edit_;
  std::unordered_set<const Op *> skipped_;
  const int64_t threads_;
};

void visit(Module &m, Block &b, int64_t threads) {
  for (Op *op : std::vector<Op *>(b.ops)) {
    for (Region *r : op->regions)
      visit(m, *r->block, threads);
    if (op->kind == OpKind::For &&
        std::ranges::any_of(op->region(0)->ops, [](const Op *o) { return o->kind == OpKind::Dot && isAsyncMma(*o); }))
      Skipper(m, *op, threads).run();
  }
}

/// Rewrites `if c { s = select(mask, s, x) }` to a selection by `mask or not c`.
class BranchOpener {
public:
  BranchOpener(Module &m, Block &body) : b_(m), m_(m), body_(body), edit_(body) { b_.setFolding(false); }

  void run() {
    for (Op *op : std::vector<Op *>(body_.ops))
      if (op->kind == OpKind::If && op->results.size() == 1 && op->result()->type.isTensor() && op->regions.size() == 2)
        for (unsigned side : {0u, 1u})
          if (const Op *masking = maskingOf(*op, side)) {
            open(*op, side, *masking);
            break;
          }
  }

private:
  /// The selection that region `side` yields, if the other region yields its first choice; else null.
  static const Op *maskingOf(const Op &branch, unsigned side) {
    constexpr size_t most = 24;
    const Block &here = *branch.region(side), &other = *branch.region(1 - side);
    if (other.ops.size() != 1 || here.ops.size() > most)
      return nullptr;
    const Op *select = here.terminator()->operands[0]->def;
    if (!select || select->kind != OpKind::Select || select->parent != &here ||
        select->operands[1] != other.terminator()->operands[0] || !select->operands[0]->type.isTensor())
      return nullptr;
    for (const Op *op : here.ops)
      if (!op->has(traits::Terminator) && (!op->has(traits::Pure) || !op->regions.empty()))
        return nullptr;
    return select;
  }

  void open(Op &branch, unsigned side, const Op &masking) {
    Block here;
    here.parent = body_.parent;
    b_.setBlock(&here);
    b_.setLoc(masking.loc);
    b_.setInlinedAt(masking.inlinedAt);
    Cloner c(m_);
    for (const Op *op : branch.region(side)->ops)
      if (op != &masking && !op->has(traits::Terminator))
        c.copy(*op, here);
    Value *when = branch.operands[0], *mask = c(masking.operands[0]);
    if (side == 0)
      when = b_.binary(OpKind::Xor, when, b_.constInt(when->type, 1));
    mask = b_.binary(OpKind::Or, mask, b_.create1(OpKind::Splat, {when}, mask->type));
    Value *result = b_.select(mask, c(masking.operands[1]), c(masking.operands[2]));
    edit_.replaceUses(branch.result(), result);
    edit_.insertBefore(&branch, here);
    edit_.erase(&branch);
  }

  Builder b_;
  Module &m_;
  Block &body_;
  BlockEditor edit_;
};

void openIn(Module &m, Block &b) {
  for (Op *op : std::vector<Op *>(b.ops)) {
    for (Region *r : op->regions)
      openIn(m, *r->block);
    if (op->kind == OpKind::For &&
        std::ranges::any_of(op->region(0)->ops, [](const Op *o) { return o->kind == OpKind::Dot && isAsyncMma(*o); }))
      BranchOpener(m, *op->region(0)).run();
  }
}

} // namespace

void openMaskBranches(Module &m) { openIn(m, *m.kernel()->block()); }

void skipMasks(Module &m, const TargetInfo &target, const Options &options) {
  visit(m, *m.kernel()->block(), int64_t{target.lanes()} * options.numWarps);
}

} // namespace tegula::gpu
