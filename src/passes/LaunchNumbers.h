// Numbers that are known at launch, as expressions over the arguments (support/LaunchForms.h): the trip counts of loops
// with such bounds.
//
//   range(0, cdiv(n, 1024))                        Trips(0, (n + 1023) / 1024, 1)
//   range(pid, rows, num_programs)                 Trips(0, rows, programs): that of program 0
#pragma once
#include "ir/Ir.h"
#include "support/LaunchForms.h"

namespace tegula {

class LaunchNumbers {
public:
  /// Appends expressions to those of `out`.
  LaunchNumbers(const ir::Function &kernel, LaunchForms &out) : kernel_(kernel), out_(out) {}
  /// The trip count of a For, as an index into LaunchForms::exprs; -1: it depends on more than arguments, or the
  /// formula is too long.
  int32_t tripsOf(const ir::Op &loop);

private:
  int32_t add(WorkExpr::Kind kind, int64_t value, int32_t a = -1, int32_t b = -1, int32_t c = -1);
  int32_t of(const ir::Value *v, unsigned depth);

  const ir::Function &kernel_;
  LaunchForms &out_;
};

} // namespace tegula
