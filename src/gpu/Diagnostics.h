// The messages of the GPU level, from the rows of Diagnostics.def.
#pragma once
#include "support/Diag.h"

namespace tegula::gpu::diag {
#define GPU_DIAG(name, severity, format) inline constexpr DiagKind name{#name, Severity::severity, format};
#include "gpu/Diagnostics.def"
} // namespace tegula::gpu::diag
