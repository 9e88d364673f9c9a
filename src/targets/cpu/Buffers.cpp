// Scratch memory: which buffers can be one, and where each lies.
#include "targets/cpu/Plan.h"

namespace tegula::cpu {

void coalesceBuffers(Plan &p) {}

void placeBuffers(Plan &p) {
  uint64_t at = 0;
  for (Buffer &b : p.buffers) {
    if (b.external >= 0)
      continue;
    b.offset = at;
    at += (b.bytes() + 63) / 64 * 64;
  }
  // Never empty: masked-off scalar loads read its first bytes.
  p.scratchBytes = std::max<uint64_t>(at, 64);
}

} // namespace tegula::cpu
