// See BlockStores.h.
#include "gpu/shared/BlockStores.h"
#include "ir/Builder.h"
#include <algorithm>

namespace tegula::gpu {

using namespace ir;

bool haveSameBlocks(const Op &x, const Op &y) {
  DescAccess a = descAccess(x), b = descAccess(y);
  auto isSame = [](const Value *p, const Value *q) {
    std::optional<int64_t> c = constantInt(p);
    return p == q || (c && c == constantInt(q));
  };
  return a.base == b.base && a.value->type == b.value->type && x.part() == y.part() &&
         std::equal(a.extents.begin(), a.extents.end(), b.extents.begin(), isSame) &&
         std::equal(a.strides.begin(), a.strides.end(), b.strides.begin(), isSame);
}

} // namespace tegula::gpu
