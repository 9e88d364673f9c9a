// The families of builtins, one file each in this folder. A new family is declared here and added to `families`.
#pragma once
#include "lang/Builtin.h"

namespace tegula::lang {

std::span<const Builtin> typeBuiltins();     // Types.cpp: dtypes and their methods, constexpr, pointer_type, ...
std::span<const Builtin> pythonBuiltins();   // Python.cpp: len, range, min, ..., the host module math
std::span<const Builtin> creationBuiltins(); // Creation.cpp: program_id, arange, full, cast, ...

using Family = std::span<const Builtin> (*)();
inline constexpr Family families[] = {typeBuiltins, pythonBuiltins, creationBuiltins};

} // namespace tegula::lang
