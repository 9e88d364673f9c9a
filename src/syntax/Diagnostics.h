// Every message of the lexer and parser; the rows stand in Diagnostics.def.
#pragma once
#include "support/Diag.h"

namespace tegula::syntax::diag {
#define DIAG(name, severity, format) inline constexpr DiagKind name{#name, Severity::severity, format};
#include "syntax/Diagnostics.def"
#undef DIAG
} // namespace tegula::syntax::diag
