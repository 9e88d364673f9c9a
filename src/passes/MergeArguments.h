// Has one argument of the kernel stand for all that are the same address in every launch (ArgInfo::sameAs), and leaves
// only those groups of arguments that overlap (ArgInfo::overlap) of which one is written.
//
// Whether two accesses may be of the same memory is asked by argument everywhere: accesses through two arguments are
// taken to be of different memory, or of the same element by the same thread. A program that reads through one what it
// writes through the other would be compiled wrong; once both go through one argument it is any program that reads and
// writes one buffer. What happened through each is kept (ArgInfo::access), as launches ask whether a buffer may be
// read-only by argument. Arguments that overlap otherwise (`y = x[1:]`) keep their addresses; memoryOf() has them as
// one memory, in which nothing is known of where two of them meet.
#pragma once
#include "ir/Ir.h"

namespace tegula {

/// Time: linear in the operations if there is a pair, else in the arguments. Merged arguments stay, without users.
void mergeArguments(ir::Module &m);

} // namespace tegula
