// Two stores to the same addresses, one after the other, become one of a selection:
//
//   store p, x, (and m, (xor c, 1))
//   store p, y, (and m, c)              becomes      store p, (select c, y, x), m
//
// So kernels fill by masks (masked_fill), and write what is usual before what is not. Masks that depend on elements
// leave a store of single elements, of which there are half as many then; and without `c` the mask is mostly one of
// bounds, under which elements are stored together.
//
// Joined are masks of which one has all conditions of the other, and those that differ in one condition, which is the
// other's opposite: all that either stores is stored by conditions that both have. Between the two nothing but pure
// operations, and both address memory by arithmetic on positions, as elements that were found somewhere may have the
// same address, where the second store wins.
//
// Several positions may have one address, too, and an element of the first store then meets another one of the second:
// axes along which addresses do not change, and constant steps that reach over each other, are left alone. Steps that
// are arguments are trusted (a tensor that is stored to has no stride of 0): between such elements nothing orders the
// two stores on a GPU, where they are different threads'.
#pragma once
#include "ir/Ir.h"

namespace tegula {

void joinStores(ir::Module &m);

} // namespace tegula
