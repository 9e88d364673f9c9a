// Narrows loads of tiles in which neighbours read one address: packed weights, of which `k // 8` finds the word of each
// element. Such a load of a dot's operand becomes a load of each address once, and the elements are repeated after it.
//
//   %i = sdiv %k, 8 : tensor<64xi32>                               %i = (%k0 / 8) + range : tensor<8xi32>
//   %p = ... (%i, %n) : tensor<64x128xptr<i32>>         =>         %p = ... (%i, %n) : tensor<8x128xptr<i32>>
//   %w = load %p : tensor<64x128xi32>                              %n = load %p : tensor<8x128xi32>
//                                                                  %w = reshape (broadcast (expand_dims %n)) :
//                                                                    tensor<64x128xi32>
// Copies ahead in a loop then take an eighth of the shared memory and of the instructions, and addresses that were
// hidden by a quotient are consecutive (bytes of rows of k // 2). Repeating costs nothing: the elements of a group are
// in one thread (layout::repeat).
#pragma once
#include "ir/Ir.h"
#include <memory>
#include <optional>

namespace tegula::gpu {

/// A reshape that merges an axis with the next one, along which all elements are equal: each element of `of` is
/// repeated `times` times, consecutively along `axis`.
struct Repeated {
  const ir::Value *of;
  unsigned axis;
  int64_t times;
};
/// Nullopt if the operation is no such reshape.
std::optional<Repeated> repeatedBy(const ir::Op &reshape);

/// Tile IR to tile IR, before layouts. Null if there is no such load. `threads`: the threads of a program; tiles of
/// fewer elements are left alone.
std::unique_ptr<ir::Module> narrowLoads(const ir::Module &module, unsigned threads);

} // namespace tegula::gpu
