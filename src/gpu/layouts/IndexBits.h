// Integers that are made of the bits of an element's place in its tensor: positions, masks and shifts of them,
// exclusive or with constants. As linear maps, like layouts, so that what a register holds is a constant and what its
// thread adds.
#pragma once
#include "ir/Ir.h"
#include <unordered_map>

namespace tegula::gpu {

/// The images of the bits of the element's row-major index, and a constant, all joined by exclusive or.
struct BitMap {
  std::vector<uint32_t> images;
  uint32_t constant = 0;

  /// What the index contributes.
  uint32_t imageOf(uint64_t flat) const;
  /// All that occur.
  uint32_t bits() const;
};

class IndexBits {
public:
  /// Nothing: it is none of these, or negative. Extents are powers of two.
  const std::optional<BitMap> &of(const ir::Value *v);

private:
  std::optional<BitMap> make(const ir::Value *v);
  std::optional<BitMap> broadcast(const ir::Op &op);
  std::optional<BitMap> binary(const ir::Op &op);

  std::unordered_map<const ir::Value *, std::optional<BitMap>> known_;
};

} // namespace tegula::gpu
