// What every target tells the runtime about a compiled kernel: arguments, and the places in the source that faults and
// prints refer to. No LLVM here; the api layer serializes it into the cache.
//
// What is worth knowing but no mistake (an access that is not vectorized, a loop that is not pipelined) goes to the DiagEngine as a
// message of severity Remark: a row in Diagnostics.def, then diag.report(diag::row, op.loc, ...). The api layer keeps remarks with the
// kernel, in the cache too.
#pragma once
#include "ir/Type.h"
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

} // namespace tegula::targets
