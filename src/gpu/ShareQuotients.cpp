// See ShareQuotients.h.
#include "gpu/ShareQuotients.h"
#include "ir/Builder.h"
#include <map>
#include <unordered_set>

namespace tegula::gpu {

using namespace ir;

namespace {

class Sharer {
public:
  explicit Sharer(Module &m) : b_(m) {}

  void run(Block &b) {
    for (const Op *op : b.ops)
      for (Region *r : op->regions)
        run(*r->block);
    std::map<Key, Op *> quotients;
    for (Op *op : b.ops)
      if (op->kind == OpKind::SDiv || op->kind == OpKind::UDiv)
        quotients.try_emplace(keyOf(*op), op);
    if (!quotients.empty())
      rewrite(b, quotients);
  }

private:
  struct Key {
    bool isSigned;
    const Value *dividend, *divisor;
    auto operator<=>(const Key &) const = default;
  };
  static Key keyOf(const Op &op) {
    return {op.kind == OpKind::SDiv || op.kind == OpKind::SRem, op.operands[0], op.operands[1]};
  }

  /// The operands of a remainder dominate it, so its quotient can move before it.
  void rewrite(Block &b, const std::map<Key, Op *> &quotients) {
    std::vector<Op *> ops;
    ops.swap(b.ops);
    std::unordered_set<const Op *> moved;
    b_.setBlock(&b);
    for (Op *op : ops) {
      if (moved.count(op))
        continue;
      auto q = op->kind == OpKind::SRem || op->kind == OpKind::URem ? quotients.find(keyOf(*op)) : quotients.end();
      if (q != quotients.end()) {
        if (seen_.insert(q->second).second) {
          b.ops.push_back(q->second);
          moved.insert(q->second);
        }
        b_.setLoc(op->loc);
        b_.setInlinedAt(op->inlinedAt);
        op->operands[1] = b_.binary(OpKind::Mul, q->second->result(), op->operands[1]);
        op->kind = OpKind::Sub;
      }
      seen_.insert(op);
      b.ops.push_back(op);
    }
  }

  Builder b_;
  std::unordered_set<const Op *> seen_; // placed already
};

} // namespace

void shareQuotients(Module &m) { Sharer(m).run(*m.kernel()->block()); }

} // namespace tegula::gpu
