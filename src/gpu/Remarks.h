// What the compiler tells about a kernel that is no mistake, as messages of severity Remark.
#pragma once
#include "passes/AxisFacts.h"
#include "support/Diag.h"

namespace tegula::gpu {

/// Where the user wrote it: of what the library's text does, the call.
Loc userLocation(const ir::Module &m, const ir::Op &op);

/// Says why a load or store takes fewer elements per instruction than would fit into 16 bytes: `vec` were possible
/// along `axis`, `wanted` would fit. Nothing is said where all fit.
void remarkAccess(const ir::Op &op, const AxisFacts &facts, unsigned axis, int64_t vec, int64_t wanted,
                  DiagEngine &diag);

} // namespace tegula::gpu
