// Masks of stores, computed again where those of the loads before them would take all predicate registers.
//
// A thread has seven predicate registers. Eight masked loads whose masks are those of eight stores after them keep all
// of them until then, and what is computed in between wants some, too: ptxas issues the last loads when the first
// results are done (softmax by blocks of 16384 by sixteen warps: 3 loads and 5). The comparisons cost two instructions
// each. As ptxas finds equal comparisons, one side of them gets a zero added that it does not know of: the uppermost
// bit of the grid's extent. Vectors alone: rows of an odd stride, element by element, lose up to a tenth by all their
// loads in a row (cross entropy backward 8192x50257 in blocks of 4096, an H200).
#pragma once
#include "llvm/IR/Function.h"

namespace tegula::nvidia {

/// In blocks where more than six masks of loads of vectors from global memory are those of later stores of vectors:
/// these stores get masks of their own, where they are comparisons of integers or made of such. Not masks that selects
/// read, too:
/// ptxas would do these load by load, in one predicate register (softmax of two rows of 32768 in a tile, eight warps,
/// bf16: 0.75 of Triton for 1.49 on an H200). Accesses are calls of inline assembly (Instr.h).
void renewMasks(llvm::Function &f);

} // namespace tegula::nvidia
