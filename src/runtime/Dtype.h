// Element types by number (TegulaDtype): names, sizes, kinds. One table.
#pragma once
#include "tegula/tegula.h"

namespace tegula::runtime {

struct DtypeInfo {
  const char *name;
  uint8_t bytes; // in memory
  uint8_t bits;  // of the value
  enum Kind : uint8_t { Void, Signed, Unsigned, Float } kind;
};

inline constexpr DtypeInfo dtypeTable[] = {
    {"void", 0, 0, DtypeInfo::Void},      {"i1", 1, 1, DtypeInfo::Unsigned},   {"i8", 1, 8, DtypeInfo::Signed},
    {"i16", 2, 16, DtypeInfo::Signed},    {"i32", 4, 32, DtypeInfo::Signed},   {"i64", 8, 64, DtypeInfo::Signed},
    {"u8", 1, 8, DtypeInfo::Unsigned},    {"u16", 2, 16, DtypeInfo::Unsigned}, {"u32", 4, 32, DtypeInfo::Unsigned},
    {"u64", 8, 64, DtypeInfo::Unsigned},  {"fp8e5", 1, 8, DtypeInfo::Float},   {"fp8e4nv", 1, 8, DtypeInfo::Float},
    {"fp8e4b15", 1, 8, DtypeInfo::Float}, {"fp8e4b8", 1, 8, DtypeInfo::Float}, {"fp8e5b16", 1, 8, DtypeInfo::Float},
    {"fp16", 2, 16, DtypeInfo::Float},    {"bf16", 2, 16, DtypeInfo::Float},   {"fp32", 4, 32, DtypeInfo::Float},
    {"fp64", 8, 64, DtypeInfo::Float}};
inline constexpr unsigned dtypeCount = sizeof dtypeTable / sizeof dtypeTable[0];
static_assert(dtypeCount == TEGULA_FP64 + 1);

/// `d` must be in range.
inline const DtypeInfo &dtypeInfo(TegulaDtype d) { return dtypeTable[d]; }
/// The value of an element of a float dtype, from the low bits of `bits` (support/FloatFormat.h).
double floatFromBits(TegulaDtype d, uint64_t bits);
/// The element of a float dtype nearest to `v`, ties to even; fp8 saturates.
uint64_t floatToBits(TegulaDtype d, double v);

} // namespace tegula::runtime
