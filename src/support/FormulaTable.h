// Tables of formulas over numbers known at launch (LaunchForms::exprs): each formula is stored once, and others refer
// to it by index.
#pragma once
#include "support/Work.h"
#include <algorithm>

namespace tegula {

/// The index of `e` in the table; adds it if it is missing. -1: it is missing, and the table has `most` entries.
inline int32_t numberIn(std::vector<WorkExpr> &table, const WorkExpr &e, size_t most = SIZE_MAX) {
  auto known = std::ranges::find(table, e);
  if (known == table.end()) {
    if (table.size() >= most) return -1;
    known = table.insert(known, e);
  }
  return static_cast<int32_t>(known - table.begin());
}

} // namespace tegula
