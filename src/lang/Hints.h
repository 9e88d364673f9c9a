// Promises about values: tl.multiple_of, max_contiguous, max_constancy.
#pragma once
#include "lang/Builtin.h"

namespace tegula::lang {

/// Puts the promise, one number per dimension, on the operation that makes the value; on the table of arguments if it
/// is an argument of the kernel; is handed to Context::hintCarried if a loop carries it. Results of loops and branches
/// have no place for one.
void attachHint(Context &ctx, ir::Value *value, ir::ListKey key, std::vector<int64_t> values);

/// Promises about what loops carry, made in bodies whose loops are not there yet.
class CarriedHints {
public:
  struct Hint {
    ir::Value *value; // an argument of the body
    ir::ListKey key;
    std::vector<int64_t> values;
  };
  void add(Hint h) { hints_.push_back(std::move(h)); }
  size_t size() const { return hints_.size(); }
  /// Those from the `since`th on that are about what `loop` carries are put on what it begins with. Null: the attempt
  /// at the loop is dropped, and they are with it.
  void settle(Context &ctx, const ir::Op *loop, size_t since);

private:
  std::vector<Hint> hints_;
};

} // namespace tegula::lang
