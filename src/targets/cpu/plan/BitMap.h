// Maps the index bits of a tensor to their sources: the one mechanism behind all shape operations.
//
// Extents are powers of two, so the position of an element is a string of bits: bit 0 is the lowest bit of the last
// dimension's index, then upwards through that dimension, then the dimension before it (row-major order). Reshape and
// expand_dims leave that string unchanged; broadcast drops bits; permute reorders groups of bits; join and split add
// or fix one bit. A loop nest walks the bit string of its iteration space; the position at which a value is needed
// inside the nest is a Bits: for each bit of the value, its bit of the space or its constant.
//
//   space 4x8 (5 bits: columns are bits 0-2, rows 3-4), x: tensor<4>, broadcast(expand_dims(x, 1)) at {0,1,2,3,4}
//   -> expand_dims at {3,4} -> x at {3,4}: x depends on the row bits alone.
#pragma once
#include "ir/Ir.h"
#include "layout/Dim.h"
#include "support/Bits.h"
#include "llvm/ADT/SmallVector.h"

namespace tegula::cpu {

/// Source of one bit: a bit number of the iteration space, or a constant.
using BitSource = int8_t;
constexpr BitSource zeroBit = -1, oneBit = -2;

/// One source per bit of a value, lowest bit first.
using Bits = llvm::SmallVector<BitSource, 20>;

using layout::log2Exact;
/// Number of index bits of a tensor of this shape (0 for a scalar).
unsigned bitCount(const ir::Shape &s);
/// First bit and number of bits of a dimension.
unsigned dimOffset(const ir::Shape &s, unsigned dim);
inline unsigned dimBits(const ir::Shape &s, unsigned dim) { return log2Exact(s[dim]); }

/// {0, 1, ..., n-1}.
Bits identityBits(unsigned n);
bool isIdentity(const Bits &b);

/// Is `op` a view operation, which only rearranges the elements of one operand? All Shape operations but join, cat,
/// split.
bool isView(const ir::Op &op);
/// The position of operand `i` of `op` when result `result` is needed at `at`. `op` is elementwise or has the Shape
/// trait. For join and cat the choice between the operands is selectorBit(op, at), not part of the result.
Bits operandBits(const ir::Op &op, unsigned i, unsigned result, const Bits &at);
/// join, cat: the bit that chooses the second operand.
BitSource selectorBit(const ir::Op &op, const Bits &at);
/// reduce, scan, gather: the bits of a tensor without dimension `axis`, as positions in the tensor with it.
Bits bitsWithout(const ir::Shape &s, unsigned axis);

} // namespace tegula::cpu
