// Finds tiles computed from ranges, constants and scalars alone: each thread rematerializes its elements where they are
// used, so they occupy no registers between uses.
#pragma once
#include "ir/Ir.h"
#include <algorithm>
#include <unordered_map>

namespace tegula {

/// Caches answers; valid as long as the queried operations do not change. False for tiles that are arguments of blocks
/// and loops.
class MadeOfScalars {
public:
  /// True for scalars, too. Time: linear in the operations that `v` is computed from; each is visited once.
  bool operator()(const ir::Value *v) {
    if (v->type.isScalar())
      return true;
    if (!v->def)
      return false;
    auto [it, isNew] = known_.try_emplace(v, false);
    if (!isNew)
      return it->second;
    const ir::Op &op = *v->def;
    const bool is = op.kind == ir::OpKind::Range || op.kind == ir::OpKind::Const || op.kind == ir::OpKind::Poison ||
                    op.kind == ir::OpKind::Splat ||
                    ((op.has(ir::traits::Elementwise) || op.has(ir::traits::Shape)) &&
                     std::ranges::all_of(op.operands, [&](const ir::Value *x) { return (*this)(x); }));
    return known_[v] = is;
  }

private:
  std::unordered_map<const ir::Value *, bool> known_;
};

} // namespace tegula
