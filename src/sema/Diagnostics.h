// Every message of the partial evaluator and the module loader; Diagnostics.def lists them.
#pragma once
#include "support/Diag.h"

namespace tegula::sema::diag {
#define DIAG(name, severity, format) inline constexpr DiagKind name{#name, Severity::severity, format};
#include "sema/Diagnostics.def"
#undef DIAG
} // namespace tegula::sema::diag
