// What every target tells the runtime about a compiled kernel: arguments, and the places in the source that faults and
// prints refer to. No LLVM here; the api layer serializes it into the cache.
//
// What is worth knowing but no mistake (an access that is not vectorized, a loop that is not pipelined) goes to the
// DiagEngine as a message of severity Remark: a row in Diagnostics.def, then diag.report(diag::row, op.loc, ...). The
// api layer keeps remarks with the kernel, in the cache too.
#pragma once
#include "ir/Type.h"
#include "support/LaunchForms.h"
#include <cstdint>
#include <string>
#include <vector>

namespace tegula::targets {

/// A place that a fault or a print refers to.
struct Site {
  enum class Kind : uint8_t { Assert, Load, Store, Atomic, Print, Other } kind;
  std::string file;
  uint32_t line = 0, column = 0;
  std::string function; // enclosing kernel or helper
  std::string text;     // message of an assert, prefix of a print
  int32_t arg = -1;     // pointer argument an access goes through, -1 if unknown
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
  bool read = false, written = false; // the kernel may load, store through this pointer (kernelAccess)
};

/// A tile in shared memory, for the message of a kernel that needs more than there is.
struct SharedTile {
  uint64_t bytes = 0;
  std::string what; // of the operation it is for: "dot", "convert"
  std::string file;
  uint32_t line = 0, column = 0;
};

/// One tensor map (TMA descriptor) that the runtime encodes at launch and appends to the packed arguments; at most 16
/// (runtime/TensorMaps.h).
///
/// Map i lies 64-byte aligned at mapsOffset + i * 128 of the argument block, mapsOffset being argBytes rounded up to
/// 64; the record pointer comes after the last map. Dimensions are in the language's order, outermost first.
struct TensorMap {
  /// A number that is known when the kernel is launched: the product of a constant and what is given of the others.
  struct Term {
    int32_t arg = -1;      // index into KernelMeta::args (an integer of any width, sign-extended, or the base pointer)
    int64_t value = 1;
    int32_t gridAxis = -1; // the number of programs along this axis
    int32_t arg2 = -1;     // another argument
    bool operator==(const Term &) const = default;
  };
  ir::Elem elem = ir::Elem::F32;
  bool isSigned = true;       // of integers: decides minimum and maximum
  // what is out of range reads as NaN instead of 0; not for elements of 8 bits, which are bytes to the hardware
  bool nanFill = false;
  bool roundTf32 = false;     // f32 is rounded to tf32 on the way
  uint8_t swizzle = 0;        // span in bytes: 0, 32, 64 or 128
  // so many neighbours of the last dimension count as one element of 8 bytes: in the box, the extent and coordinates
  uint8_t merged = 1;
  Term base;                  // must be an argument
  std::vector<Term> extents;  // as many as dimensions
  std::vector<Term> strides;  // in elements, all dimensions; the last one is the constant 1
  std::vector<uint32_t> box;  // elements of one copy along each dimension, at most 256
  bool operator==(const TensorMap &) const = default;
};

/// Everything the runtime must know about a compiled kernel. Serialized into the cache.
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
  // a loop whose iterations several CTAs may share, as many as the launch leaves idle: num_ctas says how many
  bool splitsByGrid = false;
  LaunchForms forms;         // other code that launches may want
  uint8_t mostBlocks = 0;    // on a multiprocessor at once, however many fit; 0: any number
  uint64_t sharedBytes = 0;  // dynamic shared memory per CTA; more than the target's limit: the code is empty
  std::vector<SharedTile> sharedTiles; // largest first, as far as they explain sharedBytes
  bool cooperative = false, programmaticLaunch = false;
  std::vector<TensorMap> tensorMaps;
};

/// Where compile() spent its time, nanoseconds.
struct CompileTimes {
  uint64_t planNs = 0;     // tile IR to what the target works on: loop nests, the GPU level
  uint64_t emitNs = 0;     // that to LLVM IR
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
