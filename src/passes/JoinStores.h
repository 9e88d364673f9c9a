// Joins two consecutive stores to the same addresses into one store of a select:
//
//   store p, x, (and m, (xor c, 1))
//   store p, y, (and m, c)              becomes      store p, (select c, y, x), m
//
// Kernels write such stores to fill by masks (masked_fill), or to store the common value first and the exceptions after
// it. A mask that depends on the elements makes a target store single elements; joined, there are half as many stores.
// Without `c` the remaining mask is mostly one of bounds, which allows vector stores.
//
// The pass joins two stores if one mask has all conditions of the other, or if the masks differ in one condition, which
// is negated in the other mask: together they store what their common conditions select. Only pure operations may stand
// between the two. Both must compute addresses by arithmetic on positions: loaded offsets may give several elements one
// address, where the second store must win.
//
// Several positions may have one address, too, so that different elements of the two stores alias: the pass rejects
// axes along which addresses do not change, and constant steps that overlap. It trusts steps that are arguments (a
// tensor that is stored to has no stride of 0): on a GPU different threads store such elements, and nothing orders the
// two stores between them.
#pragma once
#include "ir/Ir.h"

namespace tegula {

void joinStores(ir::Module &m);

} // namespace tegula
