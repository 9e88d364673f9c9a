// Queries and in-place edits of blocks of GPU IR, shared by the loop passes.
#pragma once
#include "passes/Users.h"
#include <unordered_map>
#include <unordered_set>

namespace tegula::gpu {

/// The body of the function that contains `op`.
const ir::Block &entryOf(const ir::Op &op);
size_t positionOf(const ir::Block &b, const ir::Op *op);
/// Is `op` nested in a For or a While?
bool isInLoop(const ir::Op &op);
/// Is `v` a constant (also through splat and broadcast) whose bits are all zero, which is what copies write where a
/// mask is off? -0.0 is not.
bool isZero(const ir::Value *v);
/// Operations of the block that use `v`, themselves or in their regions.
std::vector<ir::Op *> usersIn(const ir::Block &b, const ir::Value *v);
/// Does the operation use `v`, itself or in its regions?
bool uses(const ir::Op &op, const ir::Value *v);
/// Replaces uses in the operation and its regions.
void replaceUses(ir::Op &op, const ir::Value *from, ir::Value *to);
/// Replaces uses in the operations from `position` on, regions included.
void replaceUses(ir::Block &b, const ir::Value *from, ir::Value *to, size_t position = 0);
/// Replaces each value of `from` by the one at the same index in `to`, in one walk.
void replaceUses(ir::Block &b, std::span<ir::Value *const> from, std::span<ir::Value *const> to, size_t position = 0);
/// Makes `op` define `values`, results of other operations, for all of their users except `op`. It swaps the owners of
/// the results, so it visits no users, however many operations follow. `op` must have unused results of the same types
/// and dominate those users.
void takeUsers(std::span<ir::Value *const> values, ir::Op &op);
/// Moves the operations of a temporary block to a place in another.
void splice(ir::Block &from, ir::Block &to, size_t position);
/// Makes many changes to one block in linear time: an index has the users of each value, and the destructor applies all
/// changes of operations and uses at once. Until then nothing else may change the block. Positions are those at
/// construction.
class BlockEditor {
public:
  explicit BlockEditor(ir::Block &b);
  ~BlockEditor();
  BlockEditor(const BlockEditor &) = delete;
  ir::Block &block() { return block_; }
  /// Operations of the block that use `v`, themselves or in their regions, in order. Only operations that the block had
  /// at construction and that were not erased.
  std::vector<ir::Op *> users(const ir::Value *v) const;
  size_t positionOf(const ir::Op *op) const { return positions_.at(op); }
  /// Moves the operations of a temporary block to just before `op`, after those that earlier calls have moved there.
  void insertBefore(const ir::Op *op, ir::Block &from);
  void replace(const ir::Op *op, ir::Block &by);
  void erase(const ir::Op *op) { gone_.insert(op); }
  /// Replaces uses in the whole block, including regions and moved operations.
  void replaceUses(const ir::Value *from, ir::Value *to);

private:
  ir::Value *now(ir::Value *v) const;
  void rename(ir::Block &b) const;
  ir::Block &block_;
  std::unordered_map<const ir::Op *, size_t> positions_;
  Users users_;
  std::unordered_map<const ir::Op *, std::vector<ir::Op *>> before_;
  std::unordered_set<const ir::Op *> gone_;
  std::unordered_map<const ir::Value *, ir::Value *> replaced_;
};
/// Adds a carried value to a For and returns its argument in the body. carryOn sets the value that the body yields for
/// it.
ir::Value *carry(ir::Module &m, ir::Op &loop, ir::Value *init, std::string name);
inline void carryOn(ir::Op &loop, const ir::Value *arg, ir::Value *next) {
  loop.region(0)->terminator()->operands[arg->index - 1] = next;
}
/// May the operation write to global memory, itself or in its regions? (print and assert count: they are ordered like
/// stores.)
bool writesGlobal(const ir::Op &op);

} // namespace tegula::gpu
