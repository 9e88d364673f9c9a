// A builder for one statement of inline PTX. Private to Instr*.cpp.
#pragma once
#include "targets/nvidia/instr/Instr.h"

namespace tegula::nvidia {

/// The memory effects of a statement, which decide how LLVM may move or remove it.
enum class Touches : uint8_t {
  Nothing, // a function of its operands
  Reads,   // may be removed, or merged with an equal one if no memory is written in between
  Writes   // is kept, in order with all memory accesses
};

/// Declare results first, then operands, then call emit(). in(), list() and guard() return the operand's text.
class Ptx {
public:
  Ptx(Instr &i, Touches touches, llvm::ArrayRef<llvm::Type *> results = {}, bool convergent = false)
      : b_(i.b), touches_(touches), convergent_(convergent), results_(results.begin(), results.end()),
        next_(results.size()) {}
  Ptx(const Ptx &) = delete;

  /// i1, i8 (in 16 bits), i16, i32, i64, ptr, float or double.
  std::string in(V x);
  /// Adds an operand that shares the register of result k and gives its initial value.
  void tie(size_t k, V x);
  /// "{$0, $1, ...}" for results, or for operands; without braces for a single one.
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

/// The type that carries `t` through an inline statement: i16 for i8, otherwise `t`.
inline llvm::Type *ptxType(llvm::Type *t) { return t->isIntegerTy(8) ? llvm::Type::getInt16Ty(t->getContext()) : t; }

} // namespace tegula::nvidia
