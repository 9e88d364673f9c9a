// Inline PTX: one statement under construction. Private to Instr*.cpp.
#pragma once
#include "targets/nvidia/instr/Instr.h"

namespace tegula::nvidia {

/// What a statement does to memory, which decides what LLVM may do with it.
enum class Touches : uint8_t {
  Nothing, // a function of its operands
  Reads,   // may be dropped, or merged with an equal one if no memory is written in between
  Writes   // stays, in order with all memory accesses
};

/// Results first, then operands, then emit(). in(), list() and guard() give the text that stands for an operand.
class Ptx {
public:
  Ptx(Instr &i, Touches touches, llvm::ArrayRef<llvm::Type *> results = {}, bool convergent = false)
      : b_(i.b), touches_(touches), convergent_(convergent), results_(results.begin(), results.end()),
        next_(results.size()) {}
  Ptx(const Ptx &) = delete;

  /// i1, i8 (in 16 bits), i16, i32, i64, ptr, float or double.
  std::string in(V x);
  /// An operand that shares the register of result k: its value before.
  void tie(size_t k, V x);
  /// "{$0, $1, ...}" of results, or of operands; a single one stands without braces.
  std::string results(size_t first = 0, size_t count = ~size_t(0)) const;
  std::string list(llvm::ArrayRef<V> xs, bool alwaysBraces = false);
  /// "@$3 ", or nothing for null.
  std::string guard(V pred) { return pred ? "@" + in(pred) + " " : ""; }
  Regs emit(const std::string &text);

private:
  llvm::IRBuilder<> &b_;
  Touches touches_;
  bool convergent_;
  llvm::SmallVector<llvm::Type *, 8> results_;
  size_t next_;
  Regs operands_;
  std::string constraints_;
  void add(std::string constraint, V x);
};

/// The type that carries `t` through an inline statement: i8 goes in 16 bits.
inline llvm::Type *ptxType(llvm::Type *t) { return t->isIntegerTy(8) ? llvm::Type::getInt16Ty(t->getContext()) : t; }

} // namespace tegula::nvidia
