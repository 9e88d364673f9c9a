// Masked accesses to elements of one or two bytes with AVX2, whose masked instructions support elements of four bytes
// and more. Four-byte words whose elements are all on take one instruction per register; elements of other words are
// accessed one by one. If the mask is a prefix of the vector, at most one word is partial.
#pragma once
#include "targets/common/Vec.h"

namespace tegula::cpu {

/// Are vectors of `lanes` elements of `bytes` bytes accessed this way? Shorter vectors go element by element.
inline bool hasNarrowMask(unsigned lanes, unsigned bytes) { return bytes < 4 && lanes >= 8; }

/// A vector of 8- or 16-bit integers, split into `count` registers of 16 or 32 bytes. Elements of the last register
/// past the end of the vector are off.
struct NarrowRegisters {
  unsigned lanes, bytes, count;
  llvm::FixedVectorType *type, *words;

  explicit NarrowRegisters(llvm::FixedVectorType *all);
  /// The elements of register `i` in `all`; zeros past its end.
  llvm::Value *part(llvm::IRBuilder<> &b, llvm::Value *all, unsigned i) const;
};

/// A mask of one register, -1 for elements that are on and 0 for others. `words`: the mask of words that are on as a
/// whole; `left`: an integer with a bit for each element that is on in the other words.
struct NarrowMask {
  llvm::Value *words, *left;
};
NarrowMask narrowMask(llvm::IRBuilder<> &b, const NarrowRegisters &r, llvm::Value *on);

/// Load or store the words of one register at `at`. Words that are off are not accessed, and load as zero.
llvm::Value *loadWords(llvm::IRBuilder<> &b, const NarrowRegisters &r, llvm::Value *at, llvm::Value *words);
void storeWords(llvm::IRBuilder<> &b, const NarrowRegisters &r, llvm::Value *x, llvm::Value *at, llvm::Value *words);
/// Load into `x`, or store from `x`, the elements of `left`, which must not be zero. Calls of internal functions of the
/// module.
llvm::Value *loadLeft(llvm::IRBuilder<> &b, const NarrowRegisters &r, llvm::Value *x, llvm::Value *at,
                      llvm::Value *left);
void storeLeft(llvm::IRBuilder<> &b, const NarrowRegisters &r, llvm::Value *x, llvm::Value *at, llvm::Value *left);

} // namespace tegula::cpu
