// Semantics of PTX instructions as operations of the tile IR; used by ExpandAsm.cpp.
//
// A register is an integer value of its size (predicates: i1), of the statement's shape. Each handler does one family
// of instructions: it takes the modifiers it supports (`has`), reads, computes, writes. The instruction is rejected if
// a modifier remains.
//
//   PtxMeaning.cpp  frame, operands, the table       PtxInteger.cpp  integers, bits, comparisons
//   PtxFloat.cpp    arithmetic of floats             PtxConvert.cpp  cvt, mov, special registers
//   PtxSmallFloat.cpp  cvt of floats of 4, 6 and 8 bits
#pragma once
#include "ir/Builder.h"
#include "ir/PtxText.h"
#include <functional>

namespace tegula::ir::ptx {

/// A type of an instruction: `u32`, `f16x2`, `pred`.
struct Type {
  enum class Kind : uint8_t { Bits, Unsigned, Signed, Float, Pred };
  Kind kind = Kind::Bits;
  unsigned bits = 0;       // of one element
  unsigned lanes = 1;      // elements in a register
  Elem elem = Elem::Void;  // of floats
  bool tf32 = false;
  unsigned width() const { return bits * lanes; }
  bool isFloat() const { return kind == Kind::Float; }
  bool isSigned() const { return kind == Kind::Signed; }
};
std::optional<Type> typeOf(std::string_view suffix);

/// One $n. Several operand numbers may share one place: an input tied to an output.
struct Place {
  unsigned bits = 0;
  Value *value = nullptr; // null: not written yet
};

class Meaning {
public:
  /// Creates operations where `b` stands, for values of `shape` (rank 0: scalars).
  Meaning(Builder &b, const Shape &shape) : b_(b), shape_(shape) {}

  std::vector<Place> places;
  std::vector<unsigned> numbers; // $n -> place

  bool run(const Program &p, Problem &problem);

  ir::Type intType(unsigned bits) const;
  Value *constant(unsigned bits, uint64_t v) const { return b_.constInt(intType(bits), static_cast<int64_t>(v)); }
  /// Truncates or extends to another number of bits.
  Value *resize(Value *x, unsigned bits, bool isSigned = false) const;

private:
  using V = Value *;
  using Handler = bool (Meaning::*)();
  struct Row {
    std::string_view name;
    unsigned least, most; // operands
    Handler handler;
    bool mayBeGuarded = true, isTyped = true;
  };
  static const Row rows[];

  bool instruction(const Instruction &in);
  bool fail(std::string why);
  /// Whether the modifier is present. Marks it as handled.
  bool has(std::string_view modifier);
  /// The one of these modifiers that is present; empty if none is.
  std::string_view oneOf(std::initializer_list<std::string_view> modifiers);
  std::string_view name() const { return in_->opcode[0]; }

  // Operands. Reading gives null after a failure.
  V read(size_t i, unsigned bits, bool mayBeWider = false) { return read(in_->operands[i], bits, mayBeWider); }
  V read(const Operand &o, unsigned bits, bool mayBeWider = false);
  V special(const Operand &o);
  V predicate(const Operand &o);
  bool write(size_t i, V x) { return write(in_->operands[i], x); }
  bool write(const Operand &o, V x, bool mayBeWider = false, bool isSigned = false);
  std::optional<uint64_t> immediate(size_t i);
  Place *placeOf(const Operand &o);

  // Bits.
  V bin(OpKind k, V a, V b) { return b_.binary(k, a, b); }
  V bin(OpKind k, V a, uint64_t c) { return b_.binary(k, a, constant(bitWidth(a->type.elem), c)); }
  V invert(V x) { return bin(OpKind::Xor, x, ~uint64_t{0}); }
  V cmp(CmpPred p, V a, V b) { return b_.cmp(p, a, b); }
  V cmp(CmpPred p, V a, uint64_t c) { return b_.cmp(p, a, constant(bitWidth(a->type.elem), c)); }
  /// Shifts by any amount (i32): from the width on, PTX gives zeros or the sign.
  V shifted(OpKind k, V x, V amount);
  V lane(V x, const Type &t, unsigned i);
  V joinLanes(std::span<const V> lanes);
  /// `f` on each element of packed operands.
  V eachLane(const Type &t, std::span<const V> xs, const std::function<V(std::span<const V>)> &f);
  V toFloat(V bits, const Type &t) { return b_.cast(OpKind::Bitcast, bits, t.elem); }
  V toBits(V x) { return b_.cast(OpKind::Bitcast, x, intType(bitWidth(x->type.elem)).elem); }
  /// Flushes subnormals to zeros of their sign.
  V flushed(V bits, const Type &t);
  /// Clamps to [0, 1]; NaN becomes 0.
  V saturated(V x);

  // PtxInteger.cpp
  bool addSub(), mul(), mad(), divRem(), absNeg(), minMax(), logic(), notBits(), shift(), funnel(), countBits(),
      findBit(), reverse(), extractField(), insertField(), lop3(), permuteBytes(), setPredicate(), setValue(),
      selectByPredicate(), selectBySign(), sumOfDifferences(), dotOfBytes();
  V product(V a, V b, const Type &t, std::string_view part);
  V compared(const Type &t, V a, V b);
  bool comparison(const Type &t, V &result, size_t first, size_t predicate);

  // PtxFloat.cpp
  bool arithmetic(), fusedMultiplyAdd(), extremum(), signOperation(), elementary(), copySign(), testProperty();
  bool floats(size_t operands, const std::function<V(const Type &, std::span<const V>)> &f);

  // PtxConvert.cpp
  bool convert(), convertPacked(), move(), nothing(), prefetch(), gridEvent(), barrier();
  V convertFloat(V x, const Type &from, const Type &to);
  V toInteger(V x, const Type &from, const Type &to);
  V clamped(V x, const Type &from, const Type &to);

  // PtxSmallFloat.cpp
  struct Small;
  static const Small *smallOf(std::string_view name);
  std::string_view smallType();
  bool convertSmall(std::string_view name), convertRandomly();
  V toSmall(V bits, const Small &f, V random, bool relu);
  V fromSmall(V code, const Small &f);
  V toPower(V bits, bool up, bool saturates);
  V fromPower(V code);
  V widened(V bits, const Type &t);
  V narrowed(V bits, const Type &t, bool relu);

  Builder &b_;
  const Shape shape_;
  const Program *program_ = nullptr;
  std::vector<Place> registers_;
  const Instruction *in_ = nullptr;
  std::vector<Type> types_;                                  // suffixes that are types, in order
  std::vector<std::pair<std::string_view, bool>> modifiers_; // the others, and whether they are known
  V guard_ = nullptr;
  std::string why_;
};

} // namespace tegula::ir::ptx
