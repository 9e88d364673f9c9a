// What loads, stores and atomics ask of their operands.
#pragma once
#include "lang/builtins/Args.h"

namespace tegula::lang {

/// How a dtype lies in memory: int1 is a byte.
inline Dtype memoryDtype(Dtype d) { return d.isBool() ? dtype(Scalar::UInt8) : d; }
/// Argument i as a pointer or block of pointers to a type that the target has.
std::optional<Tensor> pointerOperand(Args &a, size_t i);
/// Argument i as a boolean mask.
std::optional<Tensor> maskOperand(Args &a, size_t i);
/// Argument i, converted before to `x`, broadcast to the pointer's shape; a pointer is never broadcast itself.
std::optional<Tensor> upTo(Args &a, const Tensor &x, const ir::Shape &pointerShape, size_t i);

} // namespace tegula::lang
