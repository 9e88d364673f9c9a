// Estimates the registers of a thread that the rows of a kernel without loops take across its reductions. Passes decide
// by it whether rows are held, loaded late, read again or shared by a cluster.
#pragma once
#include "ir/Ir.h"

namespace tegula::gpu {

/// The 32-bit registers of a thread that the rows of a kernel take across the reduction with the most live rows; the
/// rows are partitioned over `threads` threads.
struct HeldRows {
  unsigned words = 0;
  const ir::Op *reduction = nullptr; // the one with the most live rows
};
/// Is a narrow row with several users widened once for all of them, or held packed and widened again for each?
enum class Widened : bool { Once, Again };
HeldRows heldRows(const ir::Function &kernel, unsigned threads, Widened widened = Widened::Once);

/// Registers of a thread beside the rows: addresses, intermediate values (targets/nvidia/occupancy/Occupancy.h).
inline constexpr unsigned besideRows = 24;

} // namespace tegula::gpu
