// The description of a compiled kernel that every target hands to the runtime: arguments, resources, and the source
// locations that faults and prints refer to. This header uses no LLVM; the api layer serializes the description into
// the cache.
//
// Information that is no error (an access that is not vectorized, a loop that is not pipelined) goes to the DiagEngine
// as a message of severity Remark: a row in Diagnostics.def, then diag.report(diag::row, op.loc, ...). The api layer
// stores remarks with the kernel, in the cache too.
#pragma once
#include "ir/Type.h"
#include "support/LaunchForms.h"
#include <cstdint>
#include <string>
#include <vector>

namespace tegula::targets {

/// A source location that a fault or a print refers to.
struct Site {
  enum class Kind : uint8_t { Assert, Load, Store, Atomic, Print, Other } kind;
  std::string file;
  uint32_t line = 0, column = 0;
  std::string function; // enclosing kernel or helper
  std::string text;     // message of an assert, prefix of a print
  int32_t arg = -1;     // index of the pointer argument that the access goes through, -1 if unknown
  // print only, one entry per operand:
  struct Operand {
    ir::Type type;
    bool isSigned = true;
  };
  std::vector<Operand> operands;
  bool hex = false;
};

/// One runtime argument: a field of the packed argument block.
struct ArgSlot {
  ir::Type type;
  uint32_t offset = 0;
  std::string name;
  bool isSigned = true;
  bool read = false, written = false; // the kernel may load or store through this pointer (kernelAccess)
};

/// A tile in shared memory, for the message about a kernel that exceeds the target's limit.
struct SharedTile {
  uint64_t bytes = 0;
  std::string what; // the operation that needs the tile: "dot", "convert"
  std::string file;
  uint32_t line = 0, column = 0;
};

/// One tensor map (TMA descriptor) that the runtime encodes at launch and appends to the packed arguments; at most 16
/// (runtime/TensorMaps.h).
///
/// Map i starts at byte mapsOffset + i * 128 of the argument block, 64-byte aligned; mapsOffset is argBytes rounded up
/// to 64. The record pointer follows the last map. Dimensions are in the language's order, outermost first.
struct TensorMap {
  /// A number that is known at launch: the product of `value` and of those other factors that are set (not -1).
  struct Term {
    int32_t arg = -1;      // index into KernelMeta::args (an integer of any width, sign-extended, or the base pointer)
    int64_t value = 1;
    int32_t gridAxis = -1; // factor: the number of programs along this axis
    int32_t arg2 = -1;     // factor: a second argument
    bool operator==(const Term &) const = default;
  };
  ir::Elem elem = ir::Elem::F32;
  bool isSigned = true;       // integers only: selects signed or unsigned minimum and maximum
  // out-of-range elements read as NaN instead of 0; not for 8-bit elements, which the hardware treats as bytes
  bool nanFill = false;
  bool roundTf32 = false;     // the copy rounds f32 to tf32
  uint8_t swizzle = 0;        // span in bytes: 0, 32, 64 or 128
  // that many adjacent elements of the last dimension form one 8-byte element of the box, the extent and coordinates
  uint8_t merged = 1;
  Term base;                  // must be an argument
  std::vector<Term> extents;  // one per dimension
  std::vector<Term> strides;  // in elements, all dimensions; the last one is the constant 1
  std::vector<uint32_t> box;  // elements of one copy along each dimension, at most 256
  bool operator==(const TensorMap &) const = default;
};

/// Everything the runtime needs to load and launch a compiled kernel. Serialized into the cache.
struct KernelMeta {
  std::string symbol;        // of the entry: TegulaCpuEntry or TegulaSimEntry in an object, .entry in PTX
  std::vector<ArgSlot> args;
  uint32_t argBytes = 0;     // packed arguments without the record pointer
  bool checked = false;
  std::vector<Site> sites;
  // CPUs
  uint64_t scratchBytes = 0; // per thread
  uint64_t stackBytes = 0;   // frames of the kernel and of all functions it may call
  bool waits = false;        // has loops that call TegulaCpuLaunch::wait
  // GPUs and the simulator
  uint32_t threads = 0;      // per CTA
  uint32_t clusterCtas = 1;
  // a loop's iterations may be split over CTAs that the launch would leave idle: num_ctas says over how many
  bool splitsByGrid = false;
  LaunchForms forms;         // other variants of the code that a launch may select
  uint8_t mostBlocks = 0;    // limit of resident blocks per multiprocessor, even if more fit; 0: no limit
  uint64_t sharedBytes = 0;  // dynamic shared memory per CTA; above the target's limit the code is empty
  std::vector<SharedTile> sharedTiles; // largest first: the tiles that account for sharedBytes
  bool cooperative = false, programmaticLaunch = false;
  std::vector<TensorMap> tensorMaps;
};

/// Time spent in each stage of compile(), in nanoseconds.
struct CompileTimes {
  uint64_t planNs = 0;     // tile IR to the target's own level: loop nests, or GPU IR
  uint64_t emitNs = 0;     // the target's own level to LLVM IR
  uint64_t optimizeNs = 0; // LLVM's optimizer
  uint64_t codegenNs = 0;  // LLVM IR to code
};

struct Compiled {
  // a relocatable ELF object (external symbols: abi/CpuSymbols.def, SimSymbols.def), or PTX text with a final NUL
  std::vector<char> code;
  KernelMeta meta;
  CompileTimes times;
  Work work;              // for the cost model
};

} // namespace tegula::targets
