// Accesses through tensor descriptors that become TMA copies: which do, and what map the launch has to encode for them.
#pragma once
#include "targets/nvidia/DotChoice.h"

namespace tegula::nvidia {

/// A tile in shared memory as bulk tensor copies read and write it, box by box: boxes of the whole rows, or columns of
/// them. The leading dimensions count as rows, in row-major order.
struct TmaTile {
  std::vector<uint32_t> box; // extents, outermost first, at most 256 each
  uint8_t swizzle = 0;       // span in bytes; 0: none
  ir::Shape shape;
  unsigned bytes = 1; // of an element
  // rows by index, each by copies of its own, in which that many elements count as one; 0: boxes of many rows
  unsigned merged = 0;
  unsigned parts = 1; // of the first dimension: the CTAs of a cluster copy one each, to all of them
  /// At least eight rows are swizzled as widely as their length allows: wgmma reads them as they lie, warps without
  /// bank conflicts. Fewer, or rows of 16 bytes, lie one after the other.
  explicit TmaTile(const ir::Shape &shape, ir::Elem elem, unsigned parts = 1);
  /// Of a desc_load or tma_copy. Rows by index lie one after the other: boxes begin at multiples of 128 bytes, and
  /// wider ones are not swizzled.
  explicit TmaTile(const ir::Op &load);
  layout::LinearLayout layout() const;
  /// Can copies of the parts write the tile? A part begins where a pattern of the swizzle does.
  bool hasParts() const;
  /// Bytes from one part of a column of boxes to the next.
  uint32_t partBytes() const { return bytes * box.back() * static_cast<uint32_t>(rows() / parts); }
  /// One copy: where the box lies in the tile, in bytes, and where in the block, in elements.
  struct Box {
    uint32_t offset;
    std::vector<uint32_t> at;
  };
  /// Of the first part; of rows by index those of the first row.
  std::vector<Box> boxes() const;

private:
  int64_t rows() const { return shape.numel() / shape[shape.rank() - 1]; }
  int64_t extent(unsigned d) const { return d ? shape[d] : shape[d] / parts; }
};
inline layout::LinearLayout tmaTile(const ir::Op &load) { return TmaTile(load).layout(); }
/// The map for a tma_copy.
TensorMap tensorMapOf(const ir::Op &tmaCopy);
/// The map for a desc_store or desc_reduce that writes tiles of this form.
TensorMap tensorMapOf(const ir::Op &access, const TmaTile &tile);

/// So many neighbours one element of the map stands for when a desc_load reads rows by index: a row of 2 KiB is one
/// copy then.
int64_t mergedColumns(const ir::Op &load, const AxisFacts &facts);
/// Dimensions of a desc_store or desc_reduce in which the block may begin before the tensor, as far as `facts` and the
/// extents tell.
std::vector<int64_t> signedOffsets(const ir::Op &access, const AxisFacts &facts);

} // namespace tegula::nvidia
