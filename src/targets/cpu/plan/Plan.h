// The plan: how the operations of a kernel become loop nests over native vectors and buffers in scratch memory.
//
// A tensor value is *virtual* (no storage: computed chunk by chunk inside each nest that uses it) or *buffered*
// (written once to scratch by a nest, read back by others). A nest walks the elements of one shape and executes its
// roots for each: a store, a write to a buffer, a step of a reduction. The nest also computes the virtual values that
// its roots need. Example, softmax of a row (x = load; m = max(x); e = exp(x - m); y = e / sum(e); store y):
//
//   nest 1024        reduce m             x is virtual, loaded here ...
//   nest 1024        buffer e, reduce s   ... and loaded again here: cheaper than a trip through scratch
//   nest 1024        store y
//
// planFunction() decides; PlanPrinter shows the result (`--emit cpu`); FunctionEmitter turns it into LLVM IR.
#pragma once
#include "ir/Ir.h"
#include "targets/cpu/plan/BitMap.h"
#include "targets/cpu/Cpu.h"
#include "targets/cpu/plan/DotPlan.h"
#include "targets/cpu/plan/GroupPrograms.h"
#include "targets/cpu/plan/Part.h"
#include "llvm/ADT/DenseMap.h"
#include <memory>
#include <vector>

namespace tegula::cpu {
/// A piece of scratch memory that holds one tensor (or several with disjoint live ranges).
struct Buffer {
  ir::Type element;              // scalar type; i1 takes a byte
  std::vector<int64_t> stride;   // in elements, per index bit of the tensor, lowest bit first
  int64_t elems = 0;             // >= the tensor's elements (padding of packed operands)
  bool tf32 = false;             // operand of a tf32 dot: stores truncate significands
  bool biased = false;           // right operand of a dot of bytes: stores add 128 (DotPlan::bBiased)
  uint64_t offset = 0;           // bytes from the start of the function's scratch
  int external = -1;             // result tensor of a noinline function: number of the pointer parameter instead
  uint32_t firstStep = ~0u, lastStep = 0; // lifetime in step numbers
  uint64_t bytes() const { return static_cast<uint64_t>(elems) * (element.isPtr ? 8 : ir::byteWidth(element.elem)); }
};

/// Atomic: also inline assembly with effects. Update: the non-atomic form of an atomic, for a launch that runs alone
/// (never in a plan, see FunctionEmitter::atomicStep).
enum class RootKind : uint8_t { Store, Materialize, Reduce, Scan, Atomic, Update, Histogram, Assert };

struct Root {
  RootKind kind;
  const ir::Op *op = nullptr;       // store, reduce, ...; null for materialize
  // materialize: the value to write; reduce: the loop-carried value that combines its result with `buffer`, or null
  const ir::Value *value = nullptr;
  // materialize: the destination; -1: a load that is executed before the nest's stores. reduce: of `value`. Results of
  // other roots: Plan::bufferOf
  int buffer = -1;
  bool makes = false;               // materialize: this root defines the value's buffer; else it writes a copy
  bool streams = false;             // store: may be non-temporal, see markStreaming()
  /// The values that the root needs: the operands of its operation, or the value that it materializes.
  llvm::SmallVector<const ir::Value *, 4> asked() const;
};

struct Nest {
  ir::Shape space;
  int axis = -1;           // of the reductions or the scan among the roots
  bool sequential = false; // element by element, in order (atomics, histogram)
  std::vector<Root> roots;
  /// Loads whose elements of the next iteration of a loop around the nest (null: of the next program) the nest
  /// prefetches; near: only if they are a quarter of L2 away at most.
  struct Ahead {
    const ir::Op *load, *loop;
    bool near;
  };
  std::vector<Ahead> ahead; // if stores of the nest may stream, it prefetches only where they do
  /// If the nest packs the right operand of a dot by panels: the number of low index bits of columns and of k that a
  /// panel covers. The loops over the other bits are outermost.
  unsigned panelColumnBits = 0, panelDepthBits = 0;
  unsigned columnBits() const { return dimBits(space, space.rank() - 1); }
  bool streams() const; // may one of its stores be non-temporal?
  /// Does it have exactly one root, of this kind?
  bool isOnly(RootKind kind) const { return roots.size() == 1 && roots[0].kind == kind; }
};

enum class StepKind : uint8_t { Define, Nest, Dot, For, While, If, Call, Print, Return };

/// The place in scratch where the packed tiles of the right operand of a dot are kept for later programs
/// (EmitKeep.cpp), in the order in which a loop needs them.
struct KeptTiles {
  int64_t count = 0;       // tiles; 0: none are kept
  // bytes from the start of scratch: KeptTiles::Word, then what the first tile of the program before was packed from,
  uint64_t state = 0;
  uint64_t from = 0;       // what each one was packed from: up to `words` numbers of 64 bits,
  uint64_t tiles = 0;      // and the tiles
  static constexpr unsigned words = 16;
  static constexpr uint64_t wordBytes = 8, line = 64;
  // the next tile's number, how many are filled, whether this program fills more, whether they were used
  enum Word : uint8_t { Next, Filled, Fills, Used, Last };
};

/// The place where packed tiles of the left operand are kept, looked up by the numbers that they were packed from: the
/// same rows are used again a few programs later, not by the next one.
struct KeptLeft {
  unsigned slots = 0;                       // 0: none are kept
  // bytes from the start of scratch: Word, firstSlots, a word for each slot; what each was packed from; the tiles
  uint64_t state = 0, from = 0, tiles = 0;
  uint64_t tileBytes = 0;
  static constexpr unsigned rowSets = 256;
  // number of the tile in the loop; tiles that the last program needed; first slot for the next new rows; first slot
  // of this program; whether its rows are new
  enum Word : uint8_t { Next, Asked, Cursor, Base, Fresh, Last };
};

struct Step;
using Steps = std::vector<Step>;

struct Step {
  StepKind kind;
  const ir::Op *op = nullptr;   // null for nests
  uint32_t number = 0;          // in program order, all functions' blocks flattened
  std::unique_ptr<cpu::Nest> nest, left;
  std::vector<Steps> bodies;    // per region
  // Dot: packed operands, result buffer, sizes; `nest` packs B if that is done by panels; `left` packs A unless it can
  // be read in place. Print: the operand's buffer in bufferA.
  int bufferA = -1, bufferB = -1, bufferC = -1;
  bool accumulate = true;       // dot: false if the accumulator starts at zero
  std::optional<DotPlan> dot;
  KeptTiles kept;
  KeptLeft keptLeft;
  bool leftInMemory = false; // `left` only copies loaded elements: A may be readable in place
  DotPart part; // dots by panels: loops end after the last element that counts
  int64_t batch = 1;
  unsigned operand = 0;         // print
  uint64_t streamBytes = 0;     // for: written by its streaming stores in one iteration, without inner loops
};

/// An order of a product's programs other than by their numbers, OrderTiles.h.
struct TileOrder {
  // the column of a program's tile: its number along x modulo `divisor` (Remainder), or that number (AlongX)
  enum Kind : uint8_t { None, Remainder, AlongX };
  Kind kind = None;
  const ir::Value *divisor = nullptr; // computed from arguments only
  int64_t unit = 1;                   // that many consecutive programs share a column in the original order
  int64_t rows = 0;                   // that many rows of tiles run before the next column; 0: all
  /// If not null, the rows are limited to as many as find room in `slots` for the left operand's tiles, one per
  /// iteration of this loop, but at least `fewest`. The loop's bounds are computed from arguments only.
  const ir::Op *loop = nullptr;
  int64_t slots = 0, fewest = 0;
};

struct Plan {
  const ir::Function *function = nullptr;
  Steps steps;
  std::vector<Buffer> buffers;
  llvm::DenseMap<const ir::Value *, int> bufferOf;
  /// Combine regions with loops or calls: their steps, all on scalars. Others are emitted on vectors
  /// (FunctionEmitter::combine).
  llvm::DenseMap<const ir::Region *, Steps> regions;
  uint64_t scratchBytes = 0;
  const ProgramGroup *group = nullptr; // the function runs these programs as one
  bool groupsColumns() const { return group && group->isColumns(); }
  bool alongY = false; // a thread runs programs along y before it moves on along x, runsAlongY()
  TileOrder order;
  // packed tiles are kept, keepTiles(): scratch begins with 64 bytes for the number of the launch that packed them
  bool keeps = false;
  uint64_t streamBytes = 0; // written by the streaming stores of one program, counting one iteration of each loop

  int bufferFor(const ir::Value *v) const {
    auto it = bufferOf.find(v);
    return it == bufferOf.end() ? -1 : it->second;
  }
};

/// Plans one function. The module must be valid, and all extents powers of two.
/// `group`: the programs that groupPrograms() fused in this function, or null.
Plan planFunction(const ir::Function &f, const CpuTarget &target, const ProgramGroup *group = nullptr);
std::string print(const Plan &p);

} // namespace tegula::cpu
