// In which order a thread runs the programs of a product.
//
// Programs that follow one another should want the same tiles of the right operand, which are packed once then
// (EmitKeep.cpp), and rows of the left one few enough to stay in the caches and in what the processor knows of pages.
// An author who counts tiles by groups of rows says that. Most count along the rows of the result (`pid // n, pid % n`,
// or columns along x of the grid): each program packs columns of its own, and comes back to them when all others have
// passed. So what the right operand's addresses depend on is looked for: a remainder of the program's number by a
// number of the launch, or one axis of the grid. Then `rows` tiles above each other run before the next columns:
//
//   pid // n, pid % n, groups of two rows:     0 2 4 6      numbers in the order in which programs run; n = 4
//                                              1 3 5 7
//                                              8 . . .
//
// Groups of the author's that have few rows (tiles of 16) are joined in the same way. Where the left operand is packed
// (transposed, cut to tf32) a group has as many rows of tiles as find places for it together (KeptLeft), which the
// loop's bounds say at launch: groups of the author's that have more are divided. Where rows of the left operand differ
// from column to column (queries of several heads), nothing of them comes back, and all rows run first.
// Any order is right: programs are independent, and what they could learn of others keepTiles() has asked.
#pragma once
#include "targets/cpu/plan/Plan.h"

namespace tegula::cpu {

/// Kernels: decides in which order programs run whose dots keep packed tiles, after keepTiles().
void orderTiles(Plan &p);

} // namespace tegula::cpu
