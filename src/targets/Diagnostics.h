// Every message of the targets layer. Diagnostics.def lists them, one row each.
#pragma once
#include "support/Diag.h"

namespace tegula::targets::diag {
#define TARGETS_DIAG(name, severity, format) inline constexpr DiagKind name{#name, Severity::severity, format};
#include "targets/Diagnostics.def"
} // namespace tegula::targets::diag

namespace tegula::cpu {
namespace diag = targets::diag;
} // namespace tegula::cpu
namespace tegula::nvidia {
namespace diag = targets::diag;
} // namespace tegula::nvidia
