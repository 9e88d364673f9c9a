// Neighbouring programs as one: a tile of short pieces of rows becomes one of longer pieces.
//
// A program that works on a tile of 32 x 64 floats touches 256 bytes of each of 32 rows, often on as many pages. Memory
// is read well in pieces of some KiB: the hardware looks ahead along a row, not from row to row. The next program goes
// on where each of these pieces ends. So up to `size` programs that follow each other along one axis of the grid run as
// one, whose tiles have the columns of all of them:
//
//   cols = program_id(1) * 64 + arange(0, 64)        tensor<64>       becomes     tensor<512>: of 8 programs, one after the other
//   x + rows[:, None] * stride + cols[None, :]       tensor<32x64>                tensor<32x512>
//
// Everything that differs from program to program, scalars included, gets the programs as a part of its last dimension;
// what does not stays. A group is cut where the grid ends, where a thread's programs end, and where a quotient of the
// program's number changes (`program_id(0) // n`): its loops end earlier then (FunctionEmitter::tripsOf), there is no
// second copy of the code.
//
// It is right for each kernel of operations that treat elements one by one: programs are independent of each other, so
// nobody can tell in which order their elements are done. Kernels with atomics, loops, branches, assertions or output
// are left as they are, as are accesses that are volatile. It is done where the tiles that are loaded and stored go on
// in memory from program to program, and where their rows are short.
#pragma once
#include "targets/cpu/Cpu.h"
#include <memory>

namespace tegula::cpu {

/// Programs that run as one, here or as lanes (rewrite/ProgramsAsLanes.h).
struct ProgramGroup {
  unsigned axis = 0;                     // of the grid: the one that runs fastest
  int64_t size = 0;                      // programs, a power of two
  int64_t least = 1;                     // fewer run one by one
  std::vector<const ir::Value *> limits; // integer scalars of the module: at most that many programs, but at least one
  // i32, programs as lanes: how many run, which the kernel asks; null: they are columns of its tiles
  const ir::Value *count = nullptr;
  const ir::Op *access = nullptr;        // the load or store of the longest rows,
  int64_t rowBytes = 0;                  // in one program
  bool isColumns() const { return !count; }
};

struct GroupedPrograms {
  std::unique_ptr<ir::Module> module;
  ProgramGroup group;
};

/// The kernel of `m` by groups of programs along the axis that runs fastest; null if that is not worth it, or not known
/// to be right.
std::optional<GroupedPrograms> groupPrograms(const ir::Module &m);

} // namespace tegula::cpu
