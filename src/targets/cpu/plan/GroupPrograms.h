// Fuses neighbouring programs: a tile of short row pieces becomes a tile of longer ones.
//
// A program that works on a tile of 32 x 64 floats accesses 256 bytes of each of 32 rows, often on as many pages.
// Memory is read efficiently in pieces of some KiB: the hardware prefetches along a row, not from row to row. The next
// program continues where each of these pieces ends. So up to `size` consecutive programs along one axis of the grid
// run as one program whose tiles have the columns of all of them:
//
//   cols = program_id(1) * 64 + arange(0, 64)        tensor<64>       becomes     tensor<512>: of 8 programs, one after the other
//   x + rows[:, None] * stride + cols[None, :]       tensor<32x64>                tensor<32x512>
//
// Every value that differs between programs, scalars included, gets the programs as a part of its last dimension; other
// values are unchanged. A group is cut short at the end of the grid, at the end of a thread's programs, and where a
// quotient of the program's number changes (`program_id(0) // n`): its loops then end earlier
// (FunctionEmitter::tripsOf), there is no second copy of the code.
//
// Correct for each kernel of elementwise operations: programs are independent of each other, so the order of their
// elements cannot be observed. Kernels with atomics, loops, branches, assertions, output or volatile accesses are left
// unchanged. Applies where the tiles that are loaded and stored are contiguous in memory from program to program, and
// their rows are short.
#pragma once
#include "targets/cpu/Cpu.h"
#include <memory>

namespace tegula::cpu {

/// Programs that run as one, as columns of its tiles (here) or as lanes (rewrite/ProgramsAsLanes.h).
struct ProgramGroup {
  unsigned axis = 0;                     // of the grid: the one that runs fastest
  int64_t size = 0;                      // programs, a power of two
  int64_t least = 1;                     // fewer programs than this run one by one
  std::vector<const ir::Value *> limits; // integer scalars of the module: at most that many programs, but at least one
  // i32, programs as lanes: how many run, which the kernel tests; null: the programs are columns of its tiles
  const ir::Value *count = nullptr;
  const ir::Op *access = nullptr;        // the load or store of the longest rows,
  int64_t rowBytes = 0;                  // in one program
  bool isColumns() const { return !count; }
};

struct GroupedPrograms {
  std::unique_ptr<ir::Module> module;
  ProgramGroup group;
};

/// The kernel of `m` rewritten for groups of programs along the axis that runs fastest; nullopt if that does not pay or
/// is not known to be correct.
std::optional<GroupedPrograms> groupPrograms(const ir::Module &m);

} // namespace tegula::cpu
