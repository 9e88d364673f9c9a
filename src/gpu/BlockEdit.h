// Looking into blocks of GPU IR and changing them in place: what the passes on loops share.
#pragma once
#include "passes/Users.h"
#include <unordered_map>
#include <unordered_set>

namespace tegula::gpu {

/// The body of the function that `op` stands in.
const ir::Block &entryOf(const ir::Op &op);
size_t positionOf(const ir::Block &b, const ir::Op *op);
/// Does a For or a While stand around it?
bool isInLoop(const ir::Op &op);
/// Is it a constant whose bits are all zero, as copies write where a mask is off? -0.0 is not.
bool isZero(const ir::Value *v);
/// Operations of the block that use `v`, themselves or in their regions.
std::vector<ir::Op *> usersIn(const ir::Block &b, const ir::Value *v);
/// Does the operation use `v`, itself or in its regions?
bool uses(const ir::Op &op, const ir::Value *v);
/// In the operation and its regions.
void replaceUses(ir::Op &op, const ir::Value *from, ir::Value *to);
/// From `position` on, regions included.
void replaceUses(ir::Block &b, const ir::Value *from, ir::Value *to, size_t position = 0);
/// Each of `from` by its neighbour in `to`, in one walk.
void replaceUses(ir::Block &b, std::span<ir::Value *const> from, std::span<ir::Value *const> to, size_t position = 0);
/// Makes `op` define `values`, results of other operations, for all of their users but itself: results change owners,
/// so that nothing is walked, however much stands after. `op` has results of the same types, which nobody uses yet, and
/// stands before all those users.
void takeUsers(std::span<ir::Value *const> values, ir::Op &op);
/// Moves the operations of a temporary block to a place in another.
void splice(ir::Block &from, ir::Block &to, size_t position);
/// Many changes of one block in linear time: an index says who uses a value, and operations and uses change all at once
/// when the editor ends. Until then nothing else may change the block. Positions are those at the beginning.
class BlockEditor {
public:
  explicit BlockEditor(ir::Block &b);
  ~BlockEditor();
  BlockEditor(const BlockEditor &) = delete;
  ir::Block &block() { return block_; }
  /// Operations of the block that use `v`, themselves or in their regions: of those that were there at the beginning
  /// and stay, in their order.
  std::vector<ir::Op *> users(const ir::Value *v) const;
  size_t positionOf(const ir::Op *op) const { return positions_.at(op); }
  /// Moves the operations of a temporary block to a place after all that were moved there before.
  void insertBefore(const ir::Op *op, ir::Block &from);
  void replace(const ir::Op *op, ir::Block &by);
  void erase(const ir::Op *op) { gone_.insert(op); }
  /// In the whole block, regions and what is moved there included.
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
/// A new carried value of a For: its argument in the body. What the body yields for it is set by carryOn.
ir::Value *carry(ir::Module &m, ir::Op &loop, ir::Value *init, std::string name);
inline void carryOn(ir::Op &loop, const ir::Value *arg, ir::Value *next) {
  loop.region(0)->terminator()->operands[arg->index - 1] = next;
}
/// May write to global memory, itself or in its regions. (print and assert count: they are ordered like stores.)
bool writesGlobal(const ir::Op &op);

} // namespace tegula::gpu
