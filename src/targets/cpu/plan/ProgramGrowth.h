// The strides of a kernel's values from program to program along one axis of the grid, and along their own dimensions.
//
//   pid * 64 + arange(0, 64)           program 64, dimension 1
//   x + rows[:, None] * K + pid        program 4 (bytes of float), dimensions unknown and 0: K is known at launch only
//
// Decides whether neighbouring programs run as one (GroupPrograms.h, rewrite/ProgramsAsLanes.h).
#pragma once
#include "ir/Ir.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

namespace tegula::cpu {

/// Pointers grow in bytes; nullopt: the growth is not known, or not the same everywhere.
struct Growth {
  std::optional<int64_t> program = 0;
  llvm::SmallVector<std::optional<int64_t>, 4> dims; // one for each dimension
  bool varies = false;  // from program to program
  // a scalar that is not negative and grows by one from program to program, up to the limit of isDividedNumber(); never
  // the result of a loop or branch
  bool counted = false;
  bool operator==(const Growth &) const = default;
  std::optional<int64_t> last() const { return dims.empty() ? 0 : dims.back(); }
};

class ProgramGrowth {
public:
  explicit ProgramGrowth(unsigned axis) : axis_(axis) {}

  /// Records the results of an operation and of those in its regions. Call in program order.
  void note(const ir::Op &op);
  /// No growth for arguments of the kernel.
  Growth of(const ir::Value *v) const;
  bool varies(const ir::Value *v) const {
    auto it = growth_.find(v);
    return it != growth_.end() && it->second.varies;
  }
  /// Is `op` the quotient or remainder of the program's number by a number that is the same in all programs? The
  /// quotient is constant and the remainder grows by one for as many programs as the first program's remainder is below
  /// the divisor.
  bool isDividedNumber(const ir::Op &op) const;

private:
  Growth growthOf(const ir::Op &op) const;
  Growth anyhow(const ir::Op &op, const ir::Type &t) const;
  void noteLoop(const ir::Op &loop);
  void noteBlock(const ir::Block &b);

  const unsigned axis_;
  llvm::DenseMap<const ir::Value *, Growth> growth_;
};

} // namespace tegula::cpu
