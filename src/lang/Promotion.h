// The promotion table: the dtype to which two operands are promoted (LANGUAGE 2.3).
//
// Kinds are ordered bool < int < float. A compile-time number whose kind is not above the tensor's takes the tensor's
// dtype. Otherwise the first matching line decides:
//
//   pair                                       result       for / // %
//   any float64                                float64      float64
//   any other float, from level 3.9 on                      float32
//   any float32                                float32      float32
//   any float16 (with fp16, bf16, fp8, int)    float16      float32
//   bfloat16, bfloat16                         bfloat16     float32
//   bfloat16, anything else                    float32      float32
//   fp8, the same fp8                          that fp8     that fp8
//   fp8, another fp8                           float16      float16
//   fp8, int                                   none
//   int, int of other signedness               see below    none
//   int, int                                   same signedness: the wider; else the unsigned one if it is not narrower
#pragma once
#include "lang/Dtype.h"
#include "lang/Level.h"

namespace tegula::lang {

enum class NoPromotion : uint8_t { None, Signedness, NoCommonType };

struct Promotion {
  Dtype dtype;
  NoPromotion failure = NoPromotion::None;
};

/// Two tensors (runtime scalars are tensors). Neither may be a pointer or void.
Promotion promoteDtypes(Dtype a, Dtype b, bool isDivOrMod, Level level = latestLevel);
/// A tensor with a compile-time number whose own dtype (LANGUAGE 2.2) is `number`.
Promotion promoteWithNumber(Dtype tensor, Dtype number, bool isDivOrMod, Level level = latestLevel);
/// The line "int, int" alone.
Dtype promoteInts(Dtype a, Dtype b);

} // namespace tegula::lang
