// Index from values to their users. Passes fill it from blocks and everything in them; it does not follow later
// changes. A pass that counts other users than operations with the value among their operands (a loop uses every value
// used inside it) notes them one by one.
#pragma once
#include "ir/Ir.h"
#include <span>
#include <unordered_map>

namespace tegula {

class Users {
public:
  Users() = default;
  explicit Users(const ir::Block &b) { add(b); }
  void add(const ir::Block &b);
  /// Records that `op` uses `v`. Consecutive notes of one user count once.
  void note(const ir::Value *v, ir::Op *op);
  /// Records `by` as a user of all operands of `op` and of the operations in its regions.
  void noteOperands(const ir::Op &op, ir::Op *by);
  /// Operations that use `v`, in the order in which they were added or noted: after add() each once, in the order of
  /// the text. Valid until the next note.
  std::span<ir::Op *const> of(const ir::Value *v) const;
  /// The only user of `v`; null if there are none or several.
  ir::Op *only(const ir::Value *v) const;
  /// Removes the users of `v` from the index and returns them.
  std::vector<ir::Op *> take(const ir::Value *v);

private:
  std::unordered_map<const ir::Value *, std::vector<ir::Op *>> users_;
};

} // namespace tegula
