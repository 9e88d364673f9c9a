// Copies modules, and operations with remapped operands: shared by passes that rewrite a kernel.
#pragma once
#include "ir/Ir.h"
#include <functional>
#include <unordered_map>

namespace tegula::ir {

/// Writes copies of operations into `to`. Operands are replaced by their mapped values; an unmapped value stands for
/// itself, which is right for copies inside one module.
class Cloner {
public:
  explicit Cloner(Module &to) : to_(to) {}

  void map(const Value *from, Value *to) { values_[from] = to; }
  Value *operator()(const Value *v) const {
    auto it = values_.find(v);
    return it == values_.end() ? const_cast<Value *>(v) : it->second;
  }
  /// Appends a copy, regions included, and maps its results.
  Op *copy(const Op &op, Block &to) {
    return copy(op, to, [this](const Block &from, Block &b) { copyBlock(from, b); });
  }
  /// The same, but `region` fills each region's empty block, arguments included.
  Op *copy(const Op &op, Block &to, const std::function<void(const Block &, Block &)> &region);
  void copyArgs(const Block &from, Block &to);
  /// Copies arguments and operations of a block to an empty one.
  void copyBlock(const Block &from, Block &to);

private:
  Module &to_;
  std::unordered_map<const Value *, Value *> values_;
};

/// A copy of everything. Locations point into the same sources.
std::unique_ptr<Module> clone(const Module &m);

} // namespace tegula::ir
