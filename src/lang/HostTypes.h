// Types of compile-time objects, as `.type` returns them and kernels may construct them to compare with: records that
// hold the typed object.
#pragma once
#include "lang/Value.h"

namespace tegula::lang {

/// tl.constexpr_type(object): holds the compile-time object; for a tuple, its tuple_type.
Value constexprType(const Value &object);
/// tl.tuple_type(types): the type of a tuple, from the types of its items.
Value tupleType(std::vector<Value> types);

} // namespace tegula::lang
