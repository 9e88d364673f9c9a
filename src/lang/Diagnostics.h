// Every message of the language layer; the rows stand in Diagnostics.def.
#pragma once
#include "support/Diag.h"

namespace tegula::lang::diag {
#define LANG_DIAG(name, severity, format) inline constexpr DiagKind name{#name, Severity::severity, format};
#include "lang/Diagnostics.def"
} // namespace tegula::lang::diag
