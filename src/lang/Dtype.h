// The language's data types: IR elements plus signedness, pointers with constness. Reference:
// docs/language.md §2.1.
#pragma once
#include "ir/Type.h"
#include <optional>
#include <string>
#include <string_view>

namespace tegula::lang {

enum class Scalar : uint8_t {
  Void, Int1, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64,
  Fp8e5, Fp8e4nv, Fp8e4b15, Fp8e4b8, Fp8e5b16, Fp16, Bf16, Fp32, Fp64
};

/// A scalar type or a pointer to one. Blocks are a Dtype and a shape (see Value.h).
struct Dtype {
  Scalar scalar = Scalar::Void;
  bool isPtr = false;
  bool isConst = false; // only of pointers

  static Dtype ptr(Scalar pointee, bool isConst = false) { return {pointee, true, isConst}; }
  Dtype pointee() const { return {scalar, false, false}; }
  bool isBool() const { return !isPtr && scalar == Scalar::Int1; }
  /// Integers, int1 included; int1 counts as unsigned.
  bool isInt() const { return !isPtr && scalar >= Scalar::Int1 && scalar <= Scalar::UInt64; }
  bool isSigned() const { return !isPtr && scalar >= Scalar::Int8 && scalar <= Scalar::Int64; }
  bool isUnsigned() const { return isInt() && !isSigned(); }
  bool isFloat() const { return !isPtr && scalar >= Scalar::Fp8e5; }
  bool isFp8() const { return !isPtr && scalar >= Scalar::Fp8e5 && scalar <= Scalar::Fp8e5b16; }
  bool isVoid() const { return !isPtr && scalar == Scalar::Void; }
  /// Width of the primitive in bits; pointers: 64.
  unsigned bits() const;
  bool operator==(const Dtype &) const = default;
};
inline Dtype dtype(Scalar s) { return {s, false, false}; }

/// "fp32", "i32", "u8", "i1", "*fp16", "*kfp16": codes as in signatures (int1 is written "i1").
std::string code(Dtype d);
/// "float32", "int1", "uint8", "pointer<float16>", "pointer<const float16>": as `tl.` spells it, for messages and repr.
std::string spelling(Dtype d);
/// Any accepted spelling: fp32 f32 float32 float, i32 int32 int, u8 uint8, bf16 bfloat16, bool i1 u1 int1, half,
/// double, fp8e4nv float8e4nv float8_e4m3fn f8e4m3fn ..., with optional "tl." / "*" / "*k" / "const T*" / "T*" forms.
std::optional<Dtype> parseDtype(std::string_view text);
ir::Elem elem(Scalar s);
/// IR type of a runtime scalar of this dtype. A pointer to int1 is ptr<i8>: booleans in memory are bytes.
ir::Type irType(Dtype d);
ir::Type irType(Dtype d, const ir::Shape &shape);

} // namespace tegula::lang
