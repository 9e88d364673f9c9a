// Functions that bulk copies with and without a tensor map share.
#pragma once
#include "sim/AsyncState.h"

namespace tegula::sim {

/// Checks and records an access of the asynchronous proxy by clock entry `agent`, issued by `t`.
void touchBulk(Thread *t, int32_t site, const char *verb, Cta &cta, uint32_t offset, uint32_t bytes, Touch touch,
               uint32_t agent);
/// Adds a bulk store to the open group; returns the clock entry of this thread's stores. Call advance() after its
/// reads.
uint32_t beginBulkStore(Thread *t, int32_t site);
/// Records the bytes of global memory that the store just begun writes (op < 0), or reduces into.
void noteBulkWrite(Thread *t, int32_t site, uint64_t address, uint64_t bytes, int32_t op);

} // namespace tegula::sim
