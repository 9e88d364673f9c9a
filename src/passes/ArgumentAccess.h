// Finds which arguments' memory a kernel reads and writes, by following addresses from their definitions to their uses.
//
// Users: a launch (may this array be read-only?), planners (may a load move after a store?), and callers that run a
// kernel several times on the same memory. The answers are conservative ("may"), never exact.
#pragma once
#include "ir/Ir.h"
#include <vector>

namespace tegula {

/// Index of the argument of the function that `pointer`, a scalar or a tile of pointers, is computed from on every
/// path; -1 if there are several, if it comes from elsewhere (from memory, from a number, out of a call), or if the
/// search takes more than some thousand steps.
int baseArgument(const ir::Value *pointer);

/// The memory that `pointer` addresses, as a number: accesses of two memories never alias, unless at the same element
/// by the same thread. It is baseArgument(), or the first argument of those that may overlap (ArgInfo::overlap); all
/// pointers of a function that is not a kernel may overlap. -1: any memory.
int memoryOf(const ir::Value *pointer);

/// What may happen to the memory behind one argument.
struct ArgumentAccess {
  bool reads = false, writes = false;
};

/// One entry for each argument of the module's kernel, at any stage of compilation; includes the functions it calls. An
/// access through an address of other origin counts for all pointer arguments; a merged argument has the accesses
/// recorded in its ArgInfo::access. Time: linear in the operations, for each argument that an address may come from.
std::vector<ArgumentAccess> kernelAccess(const ir::Module &m);

} // namespace tegula
