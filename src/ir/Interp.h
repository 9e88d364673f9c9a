// Reference interpreter of tile IR: slow and simple, the oracle for generated code.
//
// One element at a time, programs one after another (x fastest). Integers wrap, floats round once per operation
// (Scalar.h), reductions and scans go left to right, dot of floats sums in double (f64: long double) and rounds once at
// the end, whatever its precision attribute says; elementary functions are the C library's, in double. Values that the
// IR leaves undefined (division by zero, poison, masked-off loads without `other`) are zero. The caller owns the
// memory: every access must lie in one of the given buffers.
//
//   Interp in(module);
//   in.addBuffer(x.data(), x.size() * 4);
//   InterpResult r = in.run({address(x), address(y), 1000}, {8, 1, 1});
#pragma once
#include "ir/Ir.h"
#include <array>
#include <functional>
#include <memory>

namespace tegula::ir {

/// Elements of a tile or one scalar, row-major, as raw bits (Scalar.h).
using Tile = std::vector<uint64_t>;

/// A value with known contents that belongs to no function: an operand of code that is evaluated piecewise
/// (Interp::evaluate).
struct GivenValue : Value, std::enable_shared_from_this<GivenValue> {
  Tile tile;
};

struct InterpResult {
  bool ok = true;
  /// The error ("load of 4 bytes outside all buffers", an assertion's message) and its operation.
  std::string fault;
  const Op *op = nullptr;
  int32_t pid[3] = {0, 0, 0};
  /// The address of the element of a rejected access; 0: the fault is not an access.
  uint64_t address = 0;
};

class Interp {
public:
  explicit Interp(const Module &m) : module_(m) {}

  /// Memory that programs may touch. Read-only memory faults on stores.
  void addBuffer(void *begin, size_t bytes, bool writable = true);
  /// Called for every operand of every print; without it, prints are ignored.
  std::function<void(const Op &print, unsigned operand, const int32_t pid[3], const Tile &value)> onPrint;
  /// Number of operations (times elements) after which a program counts as hanging.
  uint64_t maxSteps = 2'000'000'000;

  /// Runs the kernel for a whole grid. `args`: raw bits, one per kernel argument. Stops at the first fault.
  InterpResult run(std::span<const uint64_t> args, std::array<int32_t, 3> grid);
  /// Runs any function once; stores its results.
  InterpResult call(const Function &f, std::span<const Tile> args, std::vector<Tile> &results);
  /// Runs the operations of a block as a part of one program; operands defined outside must be GivenValues. `results`:
  /// the contents of `wanted` after the run.
  InterpResult evaluate(const Block &b, std::array<int32_t, 3> pid, std::array<int32_t, 3> grid,
                        std::span<Value *const> wanted, std::vector<Tile> &results);

  struct Buffer {
    uintptr_t begin;
    size_t bytes;
    bool writable;
  };
  /// False: every address counts as valid memory, and the buffers are ignored.
  bool checksAccesses = true;
  void setBuffers(std::vector<Buffer> buffers) { buffers_ = std::move(buffers); }

private:
  friend class InterpRun;
  const Module &module_;
  std::vector<Buffer> buffers_;
};

/// Row-major index arithmetic of tiles, for the interpreter and tests.
std::vector<int64_t> coordinates(const Shape &s, int64_t linear);
int64_t linearIndex(const Shape &s, std::span<const int64_t> coordinates);

/// Value of a region-free, memory-free operation that is not elementwise (constants, shape operations, gather,
/// histogram, dot). nullopt: not such an operation. Gather indices outside the source read zero, histogram drops values
/// without a bin.
std::optional<std::vector<Tile>> evalTileOp(const Op &op, std::span<const Tile *const> args);

} // namespace tegula::ir
