// Represents integers made of the bits of an element's index in its tensor (positions, their masks and shifts,
// exclusive or with constants) as linear maps, like layouts. Then the value in a register is the exclusive or of a
// constant and a contribution of the thread.
#pragma once
#include "ir/Ir.h"
#include <unordered_map>

namespace tegula::gpu {

/// The images of the bits of the element's row-major index, and a constant. The value is the exclusive or of the
/// constant and the images of the bits that are set.
struct BitMap {
  std::vector<uint32_t> images;
  uint32_t constant = 0;

  /// The contribution of the index, without the constant.
  uint32_t imageOf(uint64_t flat) const;
  /// The bits that are set in an image or in the constant.
  uint32_t bits() const;
};

class IndexBits {
public:
  /// Nullopt if `v` is no such integer, or may be negative. Extents are powers of two.
  const std::optional<BitMap> &of(const ir::Value *v);

private:
  std::optional<BitMap> make(const ir::Value *v);
  std::optional<BitMap> broadcast(const ir::Op &op);
  std::optional<BitMap> binary(const ir::Op &op);

  std::unordered_map<const ir::Value *, std::optional<BitMap>> known_;
};

} // namespace tegula::gpu
