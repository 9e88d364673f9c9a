// What the operations asm and asm_effect say in text: the constraints, and whether the statement is PTX.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace tegula::ir {

/// The parts of a constraint string ("=r,=&f,r,0,~{memory}"), as written but for blanks.
struct AsmConstraints {
  std::vector<std::string> outputs, inputs, clobbers;
};
AsmConstraints asmConstraints(std::string_view text);

/// The first thing in a text that begins with a dollar and is none of $0, $1, ... (below `operands`), ${0}, ${0:m} with
/// a modifier of one letter, and $$ for a dollar; empty if there is none. LLVM ends the process over anything else.
std::string_view badAsmOperand(std::string_view text, size_t operands);

/// Bits of the PTX register that a constraint ("=r", "l", "=&f") names: h 16, r and f 32, l and d 64, c 8, b 1. 0: it
/// names none.
unsigned ptxRegisterBits(std::string_view constraint);
/// A float register of PTX: f or d.
bool isPtxFloat(std::string_view constraint);

/// Is this PTX, not the assembly of a CPU? What its first instruction or directive looks like decides: `add.s32`,
/// `.reg`, `@p`, `{`. A text without any is both.
bool looksLikePtx(std::string_view text);

} // namespace tegula::ir
