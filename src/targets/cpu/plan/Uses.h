// Facts about a function for the planner: users, order of operations, memory effects, cost of a value.
#pragma once
#include "ir/Ir.h"
#include "passes/ArgumentAccess.h"
#include "passes/Users.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/SmallVector.h"

namespace tegula::cpu {

inline bool isTensorOp(const ir::Op &op) { return !op.results.empty() && op.results[0]->type.isTensor(); }
/// Elementwise or Shape trait, constants, ranges: rematerializable anywhere from operands.
bool isVirtualizable(const ir::Op &op);
/// Does the condition of a `while` depend on memory that its body or test reads? It may wait for another program.
bool waitsForMemory(const ir::Op &loop);
/// Two pointers or tiles of pointers that have equal offsets from the kernel arguments they are derived from: equal
/// addresses at each position if these arguments are one buffer.
bool sameOffsets(const ir::Value *a, const ir::Value *b, const ir::Function &f);
/// Cost of the op alone, in vector instructions.
unsigned opCost(const ir::Op &op);

/// The memory that an op (with everything nested in it) may write.
struct Effects {
  bool writesAny = false;                // unknown place, or ordering (barrier, call)
  llvm::SmallVector<int, 2> arguments;   // kernel arguments written through
  bool mayWrite(int argument) const;
  bool none() const { return !writesAny && arguments.empty(); }
};

class Uses {
public:
  explicit Uses(const ir::Function &f);

  std::span<ir::Op *const> users(const ir::Value *v) const { return users_.of(v); }
  unsigned position(const ir::Op *op) const { return position_.lookup(op); }
  /// Position in `block` of the op that is or contains `op`; ~0u if `op` is not inside.
  unsigned positionIn(const ir::Block *block, const ir::Op *op) const;
  const Effects &effects(const ir::Op *op) const;
  /// True if the memory that a load reads may change without a store of this program: other programs may write it, or
  /// an operation orders memory (an atomic, a call). If all stores through its argument write at the load's own
  /// addresses, the memory belongs to this program and no other may access it.
  bool mayChange(const ir::Op &load) const;
  /// True if the kernel does not write through the load's argument, and nothing orders memory but atomics whose results
  /// are unused: the load may execute earlier, whatever other programs do meanwhile, and so gives the same in all
  /// programs.
  bool mayBeReadEarlier(const ir::Op &load) const;
  /// True if the program may observe other programs: an atomic whose result is used, a call, assembly.
  bool learnsOfOthers() const { return learns_; }
  /// True if an operation inside orders memory (atomics, calls), so that all stores must be plain ones.
  bool ordersMemory() const { return all_.writesAny; }
  /// True if the kernel loads through this argument, or through a pointer that may be derived from it.
  bool mayRead(int argument) const;
  /// Is there a loop op between an op's block and the block `outer` around it?
  bool loopBetween(const ir::Block *outer, const ir::Op *inner) const;
  /// Vector instructions to compute v from loads and buffers, counting shared subexpressions repeatedly (capped).
  unsigned work(const ir::Value *v) const { return work_.lookup(v); }

private:
  void visit(const ir::Block &b);
  void note(const ir::Op &op, Effects &e) const;
  Users users_;
  llvm::DenseMap<const ir::Op *, unsigned> position_;
  llvm::DenseMap<const ir::Op *, Effects> effects_;
  llvm::DenseMap<const ir::Value *, unsigned> work_;
  Effects all_;
  bool learns_ = false;
  llvm::SmallVector<int, 4> read_; // arguments that are loaded through, -1: unknown
  llvm::SmallVector<const ir::Op *, 4> stores_;
  const ir::Function &function_;
};

} // namespace tegula::cpu
