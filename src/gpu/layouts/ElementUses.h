// What becomes of the elements of a loaded tensor, one by one: AssignLayouts asks before it says which threads load them.
#pragma once
#include "passes/Users.h"
#include <functional>

namespace tegula::gpu {

/// Bytes in memory that an element of `v` becomes where joins lead to a store: unpacked quarters of a byte; 0 if it is stored elsewhere, or none is joined.
unsigned unpackedBytes(const Users &users, const ir::Value *v);
/// Bytes of an element of the operand that `v` becomes, element by element in `depth` steps, of a dot for which `readsTiles` is true (it reads shared memory); 0 if there
/// is none.
unsigned tileBytes(const Users &users, const ir::Value *v, unsigned depth, const std::function<bool(const ir::Op &dot)> &readsTiles);
/// Is `v`, or what is computed from it element by element in `depth` steps, split into halves of pairs?
bool isSplit(const Users &users, const ir::Value *v, unsigned depth);
/// Is an operand of a product computed from `v`, element by element in `depth` steps?
bool feedsDot(const Users &users, const ir::Value *v, unsigned depth);

} // namespace tegula::gpu
