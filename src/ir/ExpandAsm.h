// Turns inline PTX into plain operations, for executors of tile IR without a GPU: the simulator, CPUs, the interpreter.
//
//   %r = asm %x {constraints = "=r,r", result = 0, text = "shl.b32 $0, $1, 3;"} : tensor<64xi32>
//     =>  %r = shl %x, 3
//
// Registers become integers of their size, or tiles of integers where the statement has tiles; guards become selects.
// Supported are arithmetic on integers and floats (also packed ones), conversions, comparisons, bit fields, lop3, prmt,
// moves, the clock. Each operation rounds as its PTX instruction does; approximations are as precise as the IR's
// operation; `.ftz` and `.sat` are honoured. Jumps, memory, barriers and communication between threads are rejected.
//
// It runs before all passes, so that they also optimize its output.
#pragma once
#include "ir/Ir.h"
#include "support/Diag.h"

namespace tegula::ir {

/// The executor of the module: its name for messages, and whether text other than PTX (the assembly of a CPU) may stay.
struct AsmExecutor {
  const char *name; // "the simulator"
  bool keepsOther;
};

/// False if a statement was rejected, which is reported at the operation. `kept`: values that the caller holds outside
/// of the module; they are updated to their replacements.
bool expandAsm(Module &m, const AsmExecutor &by, DiagEngine &diag, std::span<Value *> kept = {});

} // namespace tegula::ir
