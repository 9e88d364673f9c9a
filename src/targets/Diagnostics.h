// Every message of the targets layer; the rows stand in Diagnostics.def.
#pragma once
#include "support/Diag.h"

namespace tegula::cpu::diag {
#define TARGETS_DIAG(name, severity, format) inline constexpr DiagKind name{#name, Severity::severity, format};
#include "targets/Diagnostics.def"
} // namespace tegula::cpu::diag
