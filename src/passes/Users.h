// Who uses a value: the one index of it. Passes fill it with blocks and all that is in them, as they are then; those
// that see other users than operations with the value among their operands (a loop uses what is used inside of it) note
// them one by one.
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
  /// `op` uses `v`. What uses a value more than once is noted once, if nothing else is noted in between.
  void note(const ir::Value *v, ir::Op *op);
  /// `by` uses what `op` and the operations in its regions have as operands.
  void noteOperands(const ir::Op &op, ir::Op *by);
  /// Operations that use `v`, in the order in which they were added or noted: after add() each once, in the order of
  /// the text. Until something is noted.
  std::span<ir::Op *const> of(const ir::Value *v) const;
  /// The one operation that does; null if there is none, or more.
  ir::Op *only(const ir::Value *v) const;
  /// Those of `v`, of which the index knows none afterwards.
  std::vector<ir::Op *> take(const ir::Value *v);

private:
  std::unordered_map<const ir::Value *, std::vector<ir::Op *>> users_;
};

} // namespace tegula
