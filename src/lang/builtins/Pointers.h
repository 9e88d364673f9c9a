// Checks and conversions of the operands of loads, stores and atomics.
#pragma once
#include "lang/builtins/Args.h"

namespace tegula::lang {

/// The dtype of a value in memory: int1 is stored as a byte.
inline Dtype memoryDtype(Dtype d) { return d.isBool() ? dtype(Scalar::UInt8) : d; }
/// Argument i as a pointer or block of pointers to a type that the target has.
std::optional<Tensor> pointerOperand(Args &a, size_t i);
/// Argument i as a boolean mask.
std::optional<Tensor> maskOperand(Args &a, size_t i);
/// `x`, the converted argument i, broadcast to the pointer's shape; the pointer itself is never broadcast.
std::optional<Tensor> upTo(Args &a, const Tensor &x, const ir::Shape &pointerShape, size_t i);

} // namespace tegula::lang
