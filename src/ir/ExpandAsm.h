// Turns inline assembly whose text is PTX into plain operations, for what executes tile IR without a GPU: the
// simulator, CPUs, the interpreter.
//
//   %r = asm %x {constraints = "=r,r", result = 0, text = "shl.b32 $0, $1, 3;"} : tensor<64xi32>
//     =>  %r = shl %x, 3
//
// Registers become integers of their size, a tile of them where the statement has tiles; guards become selections.
// Known are arithmetic on integers and floats (also packed ones), conversions, comparisons, bit fields, lop3, prmt,
// moves, the clock. Rounding is that of the operation; approximations are as precise as the operation of the IR is,
// `.ftz` and `.sat` do what they say. Jumps, memory, barriers and what threads say to each other are refused.
//
// It stands before all passes, as what it makes is subject to them like anything else.
#pragma once
#include "ir/Ir.h"
#include "support/Diag.h"

namespace tegula::ir {

/// Who executes the module: for messages, and whether text that is no PTX (the assembly of a CPU) may stay.
struct AsmExecutor {
  const char *name; // "the simulator"
  bool keepsOther;
};

/// False: reported, at the operation's place. `kept` are values that somebody holds outside of the module; they become
/// what replaces them.
bool expandAsm(Module &m, const AsmExecutor &by, DiagEngine &diag, std::span<Value *> kept = {});

} // namespace tegula::ir
