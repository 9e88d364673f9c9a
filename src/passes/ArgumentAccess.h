// Which arguments' memory a kernel reads and writes, found by following addresses from where they come from to where
// they are used.
//
// A launch asks (may this array be read-only?), planners do (may a load be moved after a store?), and so does whoever
// runs a kernel several times on the same memory. The answers are sound, never exact: "may".
#pragma once
#include "ir/Ir.h"
#include <vector>

namespace tegula {

/// Index of the argument of the function that `pointer`, a scalar or a tile of pointers, is computed from on every
/// path; -1 if there are several, if it comes from elsewhere (from memory, from a number, out of a call), or if that
/// takes more than some thousand steps to say.
int baseArgument(const ir::Value *pointer);

/// The memory that `pointer` goes to, as a number: accesses of two memories never meet, unless at the same element by
/// the same thread. It is baseArgument(), or the first argument of those that may overlap (ArgInfo::overlap), as all
/// pointers of a function that is no kernel may; -1: it may be any.
int memoryOf(const ir::Value *pointer);

/// What may happen to the memory behind one argument.
struct ArgumentAccess {
  bool reads = false, writes = false;
};

/// One for each argument of the module's kernel, at any stage of compilation, functions it calls included. An access by
/// an address that comes from elsewhere counts for all arguments that are pointers; arguments that were merged have
/// what is written at them (ArgInfo::access). Time: linear in the operations, for each argument that an address may
/// come from.
std::vector<ArgumentAccess> kernelAccess(const ir::Module &m);

} // namespace tegula
