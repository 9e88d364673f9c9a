// Facts about a function that planning asks for: users, order of operations, what is written where, cost of a value.
#pragma once
#include "ir/Ir.h"
#include "passes/ArgumentAccess.h"
#include "passes/Users.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/SmallVector.h"

namespace tegula::cpu {

inline bool isTensorOp(const ir::Op &op) { return !op.results.empty() && op.results[0]->type.isTensor(); }
/// Elementwise or Shape trait, constants, ranges: computable anywhere from operands.
bool isVirtualizable(const ir::Op &op);
/// The condition of a `while` depends on memory that its body or test reads: it may wait for another program.
bool waitsForMemory(const ir::Op &loop);
/// Two tiles of pointers, or pointers, that have the same element at each place if the arguments they are made from are
/// one buffer.
bool sameOffsets(const ir::Value *a, const ir::Value *b, const ir::Function &f);
/// Work of the op alone, in vector instructions.
unsigned opCost(const ir::Op &op);

/// What memory an op (with everything nested in it) may write.
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
  /// True if what a load reads may change while the program does not write it: other programs may, or something orders
  /// memory (an atomic, a call). What all stores through its argument write at the load's own addresses is this
  /// program's own: nobody else may touch it.
  bool mayChange(const ir::Op &load) const;
  /// True if the kernel writes nothing through the load's argument, and nothing orders memory but atomics that the
  /// program learns nothing from, as nobody asks for what they give: it may have read earlier than it says, whatever
  /// others do meanwhile, and so the same in all programs.
  bool mayBeReadEarlier(const ir::Op &load) const;
  /// True if the program may learn what others have done: an atomic whose result is used, a call, assembly.
  bool learnsOfOthers() const { return learns_; }
  /// True if memory is ordered by something inside (atomics, calls), so that plain stores are all there may be.
  bool ordersMemory() const { return all_.writesAny; }
  /// True if the kernel loads through this argument, or through a pointer that may be derived from it.
  bool mayRead(int argument) const;
  /// Loop ops between an op's block and a block further out.
  bool loopBetween(const ir::Block *outer, const ir::Op *inner) const;
  /// Vector instructions to compute v from loads and buffers, counting shared parts again (capped).
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
  llvm::SmallVector<int, 4> read_; // arguments loaded through, -1: unknown
  llvm::SmallVector<const ir::Op *, 4> stores_;
  const ir::Function &function_;
};

} // namespace tegula::cpu
