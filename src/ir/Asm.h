// Reads the text attributes of the operations asm and asm_effect: the constraints, and whether the statement is PTX.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace tegula::ir {

/// The parts of a constraint string ("=r,=&f,r,0,~{memory}"), as written except for blanks.
struct AsmConstraints {
  std::vector<std::string> outputs, inputs, clobbers;
};
AsmConstraints asmConstraints(std::string_view text);

/// The first substring that begins with a dollar and is none of $0, $1, ... (below `operands`), ${0}, ${0:m} with a
/// modifier of one letter, and $$ for a dollar; empty if there is none. LLVM aborts the process on anything else.
std::string_view badAsmOperand(std::string_view text, size_t operands);

/// Bits of the PTX register that a constraint ("=r", "l", "=&f") names: h 16, r and f 32, l and d 64, c 8, b 1; 0 if it
/// names none.
unsigned ptxRegisterBits(std::string_view constraint);
/// Whether the constraint names a float register of PTX: f or d.
bool isPtxFloat(std::string_view constraint);

/// Whether `text` is PTX rather than the assembly of a CPU. The form of its first instruction or directive decides:
/// `add.s32`, `.reg`, `@p`, `{`. A text without any counts as PTX and as assembly.
bool looksLikePtx(std::string_view text);

} // namespace tegula::ir
