// See HeldRows.h.
#include "gpu/parts/HeldRows.h"
#include "gpu/Layouts.h"
#include "passes/MadeOfScalars.h"
#include "passes/Users.h"
#include <algorithm>
#include <unordered_map>
#include <vector>

namespace tegula::gpu {

using namespace ir;

namespace {

/// Live ranges of the rows of a kernel without loops.
class Rows {
public:
  Rows(unsigned threads, Widened widened) : threads_(threads), widened_(widened) {}

  HeldRows worst(const Block &b) {
    users_.add(b);
    visit(b);
    HeldRows worst;
    for (auto [reduction, at] : reductions_) {
      int64_t bits = 0;
      for (const auto &[v, life] : lives_)
        if (life.begin < at && life.end > at)
          bits += v->type.numel() * (v->type.isPtr ? 64 : bitWidth(v->type.elem));
      const auto words = static_cast<unsigned>((bits / threads_ + 31) / 32);
      if (words > worst.words)
        worst = {words, reduction};
    }
    return worst;
  }

private:
  struct Life {
    size_t begin = 0, end = 0; // positions of the definition and of the last use
  };

  /// Does `v` have no registers of its own? It is a view of its operand, or widened where it is used: sink-widening
  /// does that for one user.
  bool isView(const Value *v) const {
    return v->def &&
           (renames(v->def->kind) || (v->def->kind == OpKind::FpExt && (widened_ == Widened::Again || users_.only(v))));
  }

  /// The value whose registers hold `v`.
  const Value *held(const Value *v) const {
    while (isView(v))
      v = v->def->operands[0];
    return v;
  }

  void use(const Value *v) {
    if (v->type.isScalar() || isMadeOfScalars_(v))
      return;
    if (auto it = lives_.find(held(v)); it != lives_.end())
      it->second.end = next_;
  }

  void visit(const Block &b) {
    for (const Op *op : b.ops) {
      ++next_;
      if (op->kind == OpKind::Reduce)
        reductions_.push_back({op, next_});
      if (op->results.empty() || !isView(op->results[0]))
        for (const Value *v : op->operands)
          use(v);
      if (op->kind == OpKind::If)
        for (const Region *r : op->regions)
          visit(*r->block);
      for (const Value *v : op->results)
        if (!v->type.isScalar() && held(v) == v && !isMadeOfScalars_(v) && (v->type.isPtr || v->type.elem != Elem::I1))
          lives_[v] = {next_, next_};
    }
  }

  const int64_t threads_;
  const Widened widened_;
  Users users_;
  size_t next_ = 0;
  std::vector<std::pair<const Op *, size_t>> reductions_;
  std::unordered_map<const Value *, Life> lives_;
  MadeOfScalars isMadeOfScalars_; // rematerialized where it is used
};

} // namespace

HeldRows heldRows(const Function &kernel, unsigned threads, Widened widened) {
  return Rows(threads, widened).worst(*kernel.block());
}

} // namespace tegula::gpu
