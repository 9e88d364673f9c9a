// The families of builtins, one file each in this folder. A new family is declared here and added to `families`.
#pragma once
#include "lang/Builtin.h"

namespace tegula::lang {

std::span<const Builtin> typeBuiltins();        // Types.cpp: dtypes and their methods, constexpr, pointer_type, ...
std::span<const Builtin> pythonBuiltins();      // Python.cpp: len, range, min, ..., the host module math
std::span<const Builtin> methodBuiltins();      // Methods.cpp: methods of str, int, float, tuple, dict
std::span<const Builtin> aggregateBuiltins();   // Aggregate.cpp: aggregate_replace
std::span<const Builtin> creationBuiltins();    // Creation.cpp: program_id, arange, full, cast, ...
std::span<const Builtin> shapeBuiltins();       // Shape.cpp: reshape, permute, join, ...
std::span<const Builtin> memoryBuiltins();      // Memory.cpp: load, store
std::span<const Builtin> blockPtrBuiltins();    // BlockPtr.cpp: make_block_ptr, advance
std::span<const Builtin> descriptorBuiltins();  // Descriptor.cpp: make_tensor_descriptor, methods of descriptors
std::span<const Builtin> atomicBuiltins();      // Atomics.cpp
std::span<const Builtin> dotBuiltins();         // Dot.cpp
std::span<const Builtin> mathBuiltins();        // Math.cpp: exp, sqrt, ... and their method forms
std::span<const Builtin> elementwiseBuiltins(); // Elementwise.cpp: where, minimum, fma, ...
std::span<const Builtin> reduceBuiltins();      // Reduce.cpp: reduce, associative_scan, histogram, gather
std::span<const Builtin> mapBuiltins();         // Map.cpp: map_elementwise
std::span<const Builtin> asmBuiltins();         // InlineAsm.cpp: inline_asm_elementwise
std::span<const Builtin> debugBuiltins();       // Debug.cpp: hints, printing, assertions, target_info
std::span<const Builtin> cudaBuiltins();        // Cuda.cpp: tl.extra.cuda
std::span<const Builtin> libdeviceBuiltins();   // Libdevice.cpp: tl.extra.libdevice

using Family = std::span<const Builtin> (*)();
inline constexpr Family families[] = {
    typeBuiltins,  pythonBuiltins, methodBuiltins,      aggregateBuiltins,  creationBuiltins,
    shapeBuiltins, memoryBuiltins, blockPtrBuiltins,    descriptorBuiltins, atomicBuiltins,
    dotBuiltins,   mathBuiltins,   elementwiseBuiltins, reduceBuiltins,     mapBuiltins,
    asmBuiltins,   debugBuiltins,  cudaBuiltins,        libdeviceBuiltins,
};

} // namespace tegula::lang
