// Hints about values: tl.multiple_of, max_contiguous, max_constancy.
#pragma once
#include "lang/Builtin.h"

namespace tegula::lang {

/// Attaches the hint, one number per dimension, to the operation that defines the value; to the table of arguments for
/// an argument of the kernel; passes it to Context::hintCarried for a loop-carried value. Results of loops and branches
/// cannot have hints.
void attachHint(Context &ctx, ir::Value *value, ir::ListKey key, std::vector<int64_t> values);

/// Hints about loop-carried values, given in loop bodies before the loop operations exist.
class CarriedHints {
public:
  struct Hint {
    ir::Value *value; // an argument of the body
    ir::ListKey key;
    std::vector<int64_t> values;
  };
  void add(Hint h) { hints_.push_back(std::move(h)); }
  size_t size() const { return hints_.size(); }
  /// Attaches the hints from index `since` on about values that `loop` carries to the loop's initial values. Null: the
  /// loop was abandoned, and these hints are dropped.
  void settle(Context &ctx, const ir::Op *loop, size_t since);

private:
  std::vector<Hint> hints_;
};

} // namespace tegula::lang
