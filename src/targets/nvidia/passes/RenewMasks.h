// Rematerializes the masks of stores where the live ranges of the loads' masks would take all predicate registers.
//
// A thread has seven predicate registers. If eight masked loads share their masks with eight later stores, the masks
// are live from the loads to the stores, and the computation between them needs predicates, too. ptxas then issues the
// last loads only after the first results are done (softmax by blocks of 16384 by sixteen warps: 3 loads and 5).
// Recomputing a comparison costs two instructions. ptxas would merge equal comparisons, so one operand gets a zero
// added that ptxas cannot prove to be zero: the uppermost bit of the grid's extent. Only accesses of vectors qualify:
// rows of an odd stride, loaded element by element, lose up to a tenth when all their loads are issued in a row (cross
// entropy backward 8192x50257 in blocks of 4096, an H200).
#pragma once
#include "llvm/IR/Function.h"

namespace tegula::nvidia {

/// Rewrites blocks where more than six masks of vector loads from global memory are also masks of later vector stores:
/// these stores get recomputed masks, if the mask is built from integer comparisons alone. Masks that selects read as
/// well stay as they are: ptxas would compute the recomputed masks load by load, in one predicate register (softmax of
/// two rows of 32768 in a tile, eight warps, bf16: 0.75 of Triton instead of 1.49 on an H200). Accesses are calls of
/// inline assembly (Instr.h).
void renewMasks(llvm::Function &f);

} // namespace tegula::nvidia
