// Values as trees of tensors: which of them a loop or a branch carries, and how two compare.
#pragma once
#include "lang/Value.h"
#include <span>
#include <string>
#include <vector>

namespace tegula::sema {

using lang::Value;

/// The tensors inside a value, in order (tuples and records are entered).
void flatten(const Value &v, std::vector<lang::Tensor> &out);
std::vector<lang::Tensor> flatten(const Value &v);
/// The same value with its tensors replaced, in the order of flatten().
Value rebuild(const Value &v, std::span<ir::Value *const> tensors);
/// Same dtypes, shapes and compile-time parts.
bool sameType(const Value &a, const Value &b);
/// "tensor float32[128]", or "3" for compile-time values: for messages about a mismatch.
std::string describe(const Value &v);

} // namespace tegula::sema
