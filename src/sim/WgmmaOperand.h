// Reading a matrix operand of wgmma through its shared-memory descriptor.
#pragma once
#include "sim/State.h"

namespace tegula::sim {

/// An operand of `rows` rows (M or N) of 32 bytes of K. `columns`: it is wanted as a k x rows matrix (B), else rows x k
/// (A).
struct MatrixOperand {
  uint64_t descriptor;
  int32_t type;
  bool mnMajor;
  uint32_t rows;
  bool columns;
};

/// Reads for a whole warpgroup: checks that all its threads know the writers.
class GroupReader {
public:
  GroupReader(Thread *group, int32_t site);
  /// Decodes the operand into 32-bit floats or integers.
  void read(const MatrixOperand &o, uint32_t *to);
  void finish();

private:
  const uint8_t *chunk(uint32_t linear, uint32_t baseOffset, uint32_t mask);
  Thread *group_;
  int32_t site_;
  Clock *common_; // what all 128 threads know
  Actor actor_;
};

} // namespace tegula::sim
