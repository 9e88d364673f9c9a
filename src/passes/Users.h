// Who uses a value: an index of blocks and all that is in them, as they were when they were added.
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
  /// Operations that have `v` among their operands, each once, in the order of the text.
  std::span<ir::Op *const> of(const ir::Value *v) const;
  /// The one operation that has; null if there is none, or more.
  ir::Op *only(const ir::Value *v) const;

private:
  std::unordered_map<const ir::Value *, std::vector<ir::Op *>> users_;
};

} // namespace tegula
