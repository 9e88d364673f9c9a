// Looking into blocks of GPU IR and changing them in place: what the passes on loops share.
#pragma once
#include "ir/Ir.h"

namespace tegula::nvidia {

/// The body of the function that `op` stands in.
const ir::Block &entryOf(const ir::Op &op);
size_t positionOf(const ir::Block &b, const ir::Op *op);
/// Operations of the block itself (not of regions in it) that use `v`.
std::vector<ir::Op *> usersIn(const ir::Block &b, const ir::Value *v);
/// From `position` on, regions included.
void replaceUses(ir::Block &b, const ir::Value *from, ir::Value *to, size_t position = 0);
/// Moves the operations of a temporary block to a place in another.
void splice(ir::Block &from, ir::Block &to, size_t position);
/// A new carried value of a For: its argument in the body. What the body yields for it is set by carryOn.
ir::Value *carry(ir::Module &m, ir::Op &loop, ir::Value *init, std::string name);
inline void carryOn(ir::Op &loop, const ir::Value *arg, ir::Value *next) { loop.region(0)->terminator()->operands[arg->index - 1] = next; }
/// May write to global memory, itself or in its regions. (print and assert count: they are ordered like stores.)
bool writesGlobal(const ir::Op &op);

} // namespace tegula::nvidia
