// Reads the text form of tile IR, as print() writes it and as tests write it by hand.
//
//   kernel @add(%x: ptr<f32> {divisibility = 16}, %n: i32) {
//     %pid = program_id {axis = 0} : i32
//     %offs = range {start = 0} : tensor<128xi32>
//     %v = load %ptrs, %mask, %other {cache = ".cg"} : tensor<128xf32>
//     %lo, %hi = split %pairs : tensor<64xf32>, tensor<64xf32>
//     %sum = reduce %v {axis = 0} : f32 (%a: f32, %b: f32) { %c = fadd %a, %b : f32  yield %c }
//     %r = for %lb, %ub, %step, %sum : f32 (%i: i32, %acc: f32) {
//       yield %acc
//     }
//     %s = if %cond : f32 { yield %r } else { yield %sum }
//     %k = while %zero : i32 (%i: i32) { %c = cmpi %i, %n {pred = slt}  condition %c, %i } do (%i: i32) { yield %i }
//     store %ptrs, %v, %mask
//   }
//
// On the GPU level types name layouts: `tensor<128xf32, L1>`, `shared<128xf32, L2>`; a kernel may be `ordered`
// (gpu/shared/OrderMemory.h).
//
// Grammar ([] optional, * repeated; white space is free except where noted; `#` and `//` start comments):
//   module    = layout* function*
//   layout    = "layout" name "=" the text of a layout (layout/Parse.h), to the end of the line
//   function  = ("kernel" | "func") ["noinline"] ["ordered"] "@" name "(" [farg ("," farg)*] ")" ["->" types] "{" op* "}"
//   farg      = "%" name ":" type ["{" divisibility = N, const = 1, signed = 0 "}"]
//   op        = [values "="] opname [values] ["{" attrs "}"] [":" types] region*
//   region    = ["else" | "do"] ["(" [arg ("," arg)*] ")"] "{" op* "}"          as many as the operation has
//   values    = "%" name ("," "%" name)*          the first operand stands on the line of the operation's name
//   attrs     = key "=" (int | float | "string" | "[" ints "]" | predicate)
//   types     = type ("," type)*
//   type      = elem | "ptr<" elem ">" | ("tensor<" | "shared<") (extent "x")* (elem | "ptr<" elem ">") ["," name of a layout] ">"
// floats have a point, an exponent, or are inf, -inf, nan, nan(0xBITS); "\xHH" escapes bytes in strings. A `cmpi` or
// `cmpf` may leave its type out (i1 of the operands' shape), as may any elementwise op whose result has the type of its
// first operand. A region that lacks a terminator gets an empty `yield`, a function an empty `return`. `const` of a
// float type takes an integer literal too. Names of digits only mean "no name".
//
// Not in the text: source locations and inlining chains; the locations of a parsed module are places in the text.
#pragma once
#include "ir/Ir.h"
#include "support/Diag.h"

namespace tegula::ir {

/// Null if the text is wrong; the reasons have been reported. The result has passed verify(). The module keeps `file`
/// alive; code that shows the messages must do so too, because they point into it.
std::unique_ptr<Module> parse(std::shared_ptr<const SourceFile> file, DiagEngine &diag);

} // namespace tegula::ir
