// Text of device_print: one line per element,
//   pid (x, y, z) idx (i, j) prefix: value
// indices right-aligned to the width of the extent, `idx ()` for scalars, `(operand n)` before the value if there are
// several.
#pragma once
#include "runtime/Dtype.h"
#include "runtime/Kernel.h"

namespace tegula::runtime {

/// The lines of one operand of one program. `data` holds `count` elements row-major (for print sites without operands:
/// null, 0).
std::string printText(const SiteInfo &site, int32_t operand, const int32_t pid[3], const void *data, int64_t count);

/// The line of element `index` (row-major) of an operand; `bits` is its value in the low bits.
std::string printElement(const SiteInfo &site, int32_t operand, const int32_t pid[3], int64_t index, uint64_t bits);

} // namespace tegula::runtime
