// Numbers that a launch knows, as expressions over its arguments (support/LaunchForms.h): how often a loop runs whose
// bounds are made of them.
//
//   range(0, cdiv(n, 1024))                        Trips(0, (n + 1023) / 1024, 1)
//   range(pid, rows, num_programs)                 Trips(0, rows, programs): that of program 0
#pragma once
#include "ir/Ir.h"
#include "support/LaunchForms.h"

namespace tegula {

class LaunchNumbers {
public:
  /// Expressions are added to those of `out`.
  LaunchNumbers(const ir::Function &kernel, LaunchForms &out) : kernel_(kernel), out_(out) {}
  /// The trips of a For: a number of LaunchForms::exprs; -1: not of arguments alone, or too long a formula.
  int32_t tripsOf(const ir::Op &loop);

private:
  int32_t add(WorkExpr::Kind kind, int64_t value, int32_t a = -1, int32_t b = -1, int32_t c = -1);
  int32_t of(const ir::Value *v, unsigned depth);

  const ir::Function &kernel_;
  LaunchForms &out_;
};

} // namespace tegula
