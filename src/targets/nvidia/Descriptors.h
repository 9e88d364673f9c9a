// Accesses through tensor descriptors: which of them become TMA copies, and which tensor map the launch encodes for
// each.
#pragma once
#include "targets/nvidia/DotChoice.h"

namespace tegula::nvidia {

/// A tile in shared memory as bulk tensor copies read and write it, box by box. A box holds whole rows, or a column of
/// the tile. The leading dimensions count as rows, in row-major order.
struct TmaTile {
  std::vector<uint32_t> box; // extents, outermost first, at most 256 each
  uint8_t swizzle = 0;       // span in bytes; 0: none
  ir::Shape shape;
  unsigned bytes = 1; // per element
  // rows by index, each with its own copies, in which that many elements count as one; 0: boxes of many rows
  unsigned merged = 0;
  unsigned parts = 1; // of the first dimension: each CTA of a cluster multicasts one part to all of them
  /// Eight rows or more get the widest swizzle that their length allows: wgmma then reads the tile directly, and warps
  /// read it without bank conflicts. Fewer rows, or rows of 16 bytes, are stored contiguously.
  explicit TmaTile(const ir::Shape &shape, ir::Elem elem, unsigned parts = 1);
  /// The tile of a desc_load or tma_copy. Rows by index are stored contiguously: boxes begin at multiples of 128 bytes,
  /// and wider ones are not swizzled.
  explicit TmaTile(const ir::Op &load);
  layout::LinearLayout layout() const;
  /// Whether copies of the parts can write the tile: each part must begin at a repeat of the swizzle pattern.
  bool hasParts() const;
  /// Bytes from one part of a column of boxes to the next.
  uint32_t partBytes() const { return bytes * box.back() * static_cast<uint32_t>(rows() / parts); }
  /// One copy: the box's offset in the tile, in bytes, and its coordinates in the block, in elements.
  struct Box {
    uint32_t offset;
    std::vector<uint32_t> at;
  };
  /// The boxes of the first part; for rows by index, those of the first row.
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

/// The number of adjacent elements that form one element of the map when a desc_load reads rows by index. With 8-byte
/// elements of the map, a row of 2 KiB takes one copy.
int64_t mergedColumns(const ir::Op &load, const AxisFacts &facts);
/// Dimensions of a desc_store or desc_reduce in which `facts` and the extents do not rule out that the block begins
/// before the tensor.
std::vector<int64_t> signedOffsets(const ir::Op &access, const AxisFacts &facts);

} // namespace tegula::nvidia
