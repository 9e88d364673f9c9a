// Registers of a thread that the rows of a kernel without loops take across its reductions: what decides whether they
// are held, loaded late, read again or shared by a cluster.
#pragma once
#include "ir/Ir.h"

namespace tegula::gpu {

/// 32-bit registers of a thread that a kernel's rows take across a reduction, at the worst of them; the rows must be
/// split among that many threads.
struct HeldRows {
  unsigned words = 0;
  const ir::Op *reduction = nullptr; // the worst
};
/// A narrow row with several users that widen it: is it widened for all of them together, or held packed and widened
/// again for each?
enum class Widened : bool { Once, Again };
HeldRows heldRows(const ir::Function &kernel, unsigned threads, Widened widened = Widened::Once);

/// Registers of a thread beside the rows: addresses, what is being computed (targets/nvidia/occupancy/Occupancy.h).
inline constexpr unsigned besideRows = 24;

} // namespace tegula::gpu
