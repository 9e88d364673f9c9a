// Loads of tiles in which neighbours read one address: packed weights, of which `k // 8` finds the word of each
// element. A product's operand that is loaded so becomes a load of each address once, and its elements are repeated
// after it.
//
//   %i = sdiv %k, 8 : tensor<64xi32>                               %i = (%k0 / 8) + range : tensor<8xi32>
//   %p = ... (%i, %n) : tensor<64x128xptr<i32>>         =>         %p = ... (%i, %n) : tensor<8x128xptr<i32>>
//   %w = load %p : tensor<64x128xi32>                              %n = load %p : tensor<8x128xi32>
//                                                                  %w = reshape (broadcast (expand_dims %n)) :
//                                                                    tensor<64x128xi32>
// Copies ahead of a loop then take an eighth of the shared memory and of the instructions, and words that a quotient
// hides are consecutive (bytes of rows of k // 2). Repeating costs nothing: the elements of a group are in one thread
// (layout::repeat).
#pragma once
#include "ir/Ir.h"
#include <memory>
#include <optional>

namespace tegula::gpu {

/// A reshape that merges an axis with one after it along which the elements are all the same: each element of `of`
/// stands `times` times, side by side along `axis`.
struct Repeated {
  const ir::Value *of;
  unsigned axis;
  int64_t times;
};
/// Nothing if the operation is no such reshape.
std::optional<Repeated> repeatedBy(const ir::Op &reshape);

/// Tile IR to tile IR, before layouts. Null: there is no such load. `threads` of a program: tiles of fewer elements
/// stay.
std::unique_ptr<ir::Module> narrowLoads(const ir::Module &module, unsigned threads);

} // namespace tegula::gpu
