// Messages of severity Remark about kernels: information, not mistakes.
#pragma once
#include "passes/AxisFacts.h"
#include "support/Diag.h"

namespace tegula::gpu {

/// The location in the user's source; for an operation of the library's source, that of the call into the library.
Loc userLocation(const ir::Module &m, const ir::Op &op);

/// Reports why a load or store accesses fewer elements per instruction than would fit into 16 bytes: `vec` are possible
/// along `axis`, `wanted` would fit. Reports nothing if `vec` is not less than `wanted`.
void remarkAccess(const ir::Op &op, const AxisFacts &facts, unsigned axis, int64_t vec, int64_t wanted,
                  DiagEngine &diag);

} // namespace tegula::gpu
