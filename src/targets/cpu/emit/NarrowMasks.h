// Accesses under masks for elements of one or two bytes with AVX2, whose instructions know masks of four bytes and
// more: words of which all elements are on are read or written by one instruction for a register, the elements of
// others one by one, which are those of one word if the mask ends somewhere in the vector.
#pragma once
#include "targets/common/Vec.h"

namespace tegula::cpu {

/// Whether vectors of that many elements of that many bytes are done so. Fewer elements go one by one.
inline bool hasNarrowMask(unsigned lanes, unsigned bytes) { return bytes < 4 && lanes >= 8; }

/// Vectors of integers of 8 or 16 bits in registers of 16 or 32 bytes: how many registers, and what is in one. Elements
/// past the end of the last one are off.
struct NarrowRegisters {
  unsigned lanes, bytes, count;
  llvm::FixedVectorType *type, *words;

  explicit NarrowRegisters(llvm::FixedVectorType *all);
  /// The elements of register `i` in `all`; zeros past its end.
  llvm::Value *part(llvm::IRBuilder<> &b, llvm::Value *all, unsigned i) const;
};

/// A mask of one register, -1 for elements that are on and 0 for others: the same for words, and the bits of the
/// elements that are on in the words that are not (an integer).
struct NarrowMask {
  llvm::Value *words, *left;
};
NarrowMask narrowMask(llvm::IRBuilder<> &b, const NarrowRegisters &r, llvm::Value *on);

/// Of one register at `at`. What is off is neither read nor written, and read as zero.
llvm::Value *loadWords(llvm::IRBuilder<> &b, const NarrowRegisters &r, llvm::Value *at, llvm::Value *words);
void storeWords(llvm::IRBuilder<> &b, const NarrowRegisters &r, llvm::Value *x, llvm::Value *at, llvm::Value *words);
/// The elements of `left`, of which there are some: x with those at `at`, or those of x to `at`. Calls of internal
/// functions of the module.
llvm::Value *loadLeft(llvm::IRBuilder<> &b, const NarrowRegisters &r, llvm::Value *x, llvm::Value *at,
                      llvm::Value *left);
void storeLeft(llvm::IRBuilder<> &b, const NarrowRegisters &r, llvm::Value *x, llvm::Value *at, llvm::Value *left);

} // namespace tegula::cpu
