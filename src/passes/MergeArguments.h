// Replaces kernel arguments that have the same address in every launch (ArgInfo::sameAs) by one of them, and keeps only
// those groups of overlapping arguments (ArgInfo::overlap) that the kernel writes to.
//
// Alias analysis works by argument everywhere: it assumes that accesses through two arguments touch different memory,
// or the same element in the same thread. It would miscompile a program that reads through one argument what it writes
// through the other; once both go through one argument, the program is an ordinary one that reads and writes one
// buffer. ArgInfo::access records the accesses through each original argument, because a launch asks by argument
// whether a buffer may be read-only. Arguments that overlap otherwise (`y = x[1:]`) keep their addresses; memoryOf()
// treats them as one memory, and nothing is known about which of their accesses alias.
#pragma once
#include "ir/Ir.h"

namespace tegula {

/// Time: linear in the operations if there is a pair, else in the arguments. Merged arguments remain, without users.
void mergeArguments(ir::Module &m);

} // namespace tegula
