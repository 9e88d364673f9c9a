// Which tiles are made of ranges, constants and scalars alone: each thread computes its elements where they are used,
// and no register need hold them.
#pragma once
#include "ir/Ir.h"
#include <algorithm>
#include <unordered_map>

namespace tegula {

/// Remembers what it was asked; valid as long as the operations it was asked about stay as they are. Arguments of
/// blocks and loops are tiles of their own.
class MadeOfScalars {
public:
  /// True of scalars, too. Linear in the operations that `v` is made of, once for each.
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
