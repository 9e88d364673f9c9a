// See UnderMask.h.
#include "gpu/masks/UnderMask.h"
#include "passes/Users.h"
#include <algorithm>

namespace tegula::gpu {

using namespace ir;

namespace {

class MaskUse {
public:
  explicit MaskUse(const Function &kernel) : users_(*kernel.block()) { collect(*kernel.block()); }

  void run() {
    for (Op *select : selects_)
      for (Op *user : users_.of(select->result()))
        if (isHidden(*user, select->result(), select->operands[0], 0))
          std::replace(user->operands.begin(), user->operands.end(), select->result(), select->operands[1]);
  }

private:
  void collect(Block &b) {
    for (Op *op : b.ops) {
      if (op->kind == OpKind::Select && op->operands[0]->type.isTensor() && op->operands[1] != op->result())
        selects_.push_back(op);
      for (Region *r : op->regions)
        collect(*r->block);
    }
  }

  /// Does `mask` hold wherever `given` does?
  static bool follows(const Value *mask, const Value *given) {
    return given == mask || (given->def && given->def->kind == OpKind::And &&
                             (follows(mask, given->def->operands[0]) || follows(mask, given->def->operands[1])));
  }

  /// Do the values of `v` where the mask is off have no effect through `user`?
  bool isHidden(const Op &user, const Value *v, const Value *mask, unsigned depth) const {
    constexpr unsigned enough = 32; // operations in a row
    if (user.kind == OpKind::Store)
      return user.operands.size() > 2 && user.operands[0] != v && follows(mask, user.operands[2]);
    if (user.kind == OpKind::Select && user.operands[0] != v && user.operands[2] != v &&
        follows(mask, user.operands[0]))
      return true;
    if (depth > enough || !user.has(traits::Pure) || !user.has(traits::Elementwise) || user.results.size() != 1)
      return false;
    std::span<Op *const> next = users_.of(user.result());
    return !next.empty() && std::all_of(next.begin(), next.end(),
                                        [&](const Op *n) { return isHidden(*n, user.result(), mask, depth + 1); });
  }

  Users users_;
  std::vector<Op *> selects_;
};

} // namespace

void dropSelectsUnderMask(Module &m) { MaskUse(*m.kernel()).run(); }

} // namespace tegula::gpu
