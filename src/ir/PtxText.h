// Reads the PTX of an inline statement: instructions, registers that it declares, scopes. Semantics are in
// ExpandAsm.cpp.
//
//   { .reg .b32 t<2>; and.b32 t0, $1, 0xf; @p add.s32 $0, t0, 1; }
//
// Operands from outside are $0, $1, ... (also ${0}); `$$` is a dollar. Names are resolved: the innermost scope that
// declares one wins.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tegula::ir::ptx {

struct Operand {
  enum class Kind : uint8_t {
    Register, // `index` in Program::registers
    Given,    // $index
    Special,  // %laneid, ...: its name is `text`
    Int,      // `bits`
    Float,    // `bits` of an f32 (0f...), or of an f64 (0d..., 1.5): `wide`
    Sink,     // _
    Vector,   // {a, b}
    Other,    // [address] and what else there is
  };
  Kind kind = Kind::Other;
  bool negated = false; // !p
  bool wide = false;
  unsigned index = 0;
  uint64_t bits = 0;
  std::vector<Operand> items;
  std::string_view text;
};

struct Instruction {
  std::string_view text;                // without guard and semicolon
  std::optional<Operand> guard;         // @p, @!p
  std::vector<std::string_view> opcode; // "cvt", "rn", "f16x2", "f32"
  std::vector<Operand> operands;        // `p|q` is two operands
};

struct Register {
  std::string_view name;
  unsigned bits = 0; // 1: a predicate
};

struct Program {
  std::vector<Register> registers;
  std::vector<Instruction> instructions;
};

/// What parse() refuses: the place in the text, and why.
struct Problem {
  std::string_view text;
  std::string why;
};

/// The result points into `text`. nullopt: `problem` says why.
std::optional<Program> parse(std::string_view text, Problem &problem);

} // namespace tegula::ir::ptx
