// Tables of formulas over numbers that a launch knows (LaunchForms::exprs): each formula stands once, and others name
// it by its number.
#pragma once
#include "support/Work.h"
#include <algorithm>

namespace tegula {

/// The number of `e` in the table, which has it from then on; -1: it has not, and `most` others.
inline int32_t numberIn(std::vector<WorkExpr> &table, const WorkExpr &e, size_t most = SIZE_MAX) {
  auto known = std::ranges::find(table, e);
  if (known == table.end()) {
    if (table.size() >= most) return -1;
    known = table.insert(known, e);
  }
  return static_cast<int32_t>(known - table.begin());
}

} // namespace tegula
