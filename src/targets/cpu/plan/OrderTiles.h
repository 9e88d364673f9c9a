// In which order a thread runs the programs of a product.
//
// Consecutive programs should use the same tiles of the right operand, which are then packed once (EmitKeep.cpp), and
// few enough rows of the left operand that these stay in the caches and their pages in the TLB. An author who numbers
// tiles by groups of rows gets that order. Most authors number tiles along the rows of the result (`pid // n, pid % n`,
// or columns along x of the grid): each program packs other columns than the one before, and the same columns return
// only after all others. So the planner looks for what the right operand's addresses depend on: a remainder of the
// program's number by a number known at launch, or one axis of the grid. Then `rows` tiles of one column run before the
// next column:
//
//   pid // n, pid % n, groups of two rows:     0 2 4 6      numbers in the order in which programs run; n = 4
//                                              1 3 5 7
//                                              8 . . .
//
// Author-written groups with few rows (tiles of 16) are joined in the same way. If the left operand is packed
// (transposed, truncated to tf32), a group has as many rows of tiles as fit together in KeptLeft's slots, which the
// loop's bounds determine at launch; larger author-written groups are divided. If the rows of the left operand differ
// from column to column (queries of several heads), they are never reused, and all rows run first.
// Any order is correct: programs are independent, and keepTiles() has excluded those that could observe others.
#pragma once
#include "targets/cpu/plan/Plan.h"

namespace tegula::cpu {

/// Decides the order of a kernel's programs if its dots keep packed tiles. Runs after keepTiles().
void orderTiles(Plan &p);

} // namespace tegula::cpu
