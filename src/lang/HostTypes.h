// Types of compile-time objects, as `.type` gives them and kernels may make them to compare with: records that hold
// what they are types of.
#pragma once
#include "lang/Value.h"

namespace tegula::lang {

/// tl.constexpr_type(object): of a compile-time object, which it holds; of a tuple its tuple_type.
Value constexprType(const Value &object);
/// tl.tuple_type(types): of a tuple, by the types of its items.
Value tupleType(std::vector<Value> types);

} // namespace tegula::lang
