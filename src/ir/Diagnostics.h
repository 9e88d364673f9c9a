// Every message of the IR layer; the rows stand in Diagnostics.def.
#pragma once
#include "support/Diag.h"

namespace tegula::ir::diag {
#define IR_DIAG(name, severity, format) inline constexpr DiagKind name{#name, Severity::severity, format};
#include "ir/Diagnostics.def"
} // namespace tegula::ir::diag
