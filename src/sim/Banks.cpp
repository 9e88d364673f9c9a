// Bank conflicts. A phase of a 16-byte access is 8 lanes, of an 8-byte access 16 lanes, else all 32; within a phase
// every bank delivers one 4-byte word a pass, to all lanes that want that word.
#include "sim/Banks.h"
#include <algorithm>

namespace tegula::sim {

static unsigned passes(const uint32_t *words, unsigned count) {
  uint32_t perBank[32][64];
  unsigned used[32] = {}, most = 0;
  for (unsigned i = 0; i < count; ++i) {
    uint32_t bank = words[i] % 32;
    uint32_t *end = perBank[bank] + used[bank];
    if (std::find(perBank[bank], end, words[i]) != end)
      continue;
    if (used[bank] < 64)
      *end = words[i], ++used[bank];
    most = std::max(most, used[bank]);
  }
  return most;
}

unsigned wavefronts(const uint32_t *addresses, uint32_t mask, uint32_t bytes, unsigned &ideal) {
  unsigned lanes = bytes == 16 ? 8 : bytes == 8 ? 16 : 32, total = 0;
  ideal = 0;
  for (unsigned first = 0; first < 32; first += lanes) {
    uint32_t words[64];
    unsigned count = 0;
    for (unsigned lane = first; lane < first + lanes; ++lane)
      if (mask >> lane & 1)
        for (uint32_t w = addresses[lane] / 4; w <= (addresses[lane] + bytes - 1) / 4; ++w)
          words[count++] = w & 0x3fffff;
    if (!count)
      continue;
    ++ideal;
    total += passes(words, count);
  }
  return total;
}

void BankCounter::count(const Group &g, SharedAccess kind, Counters &counters) {
  if (!g.active)
    return;
  unsigned ideal, n = wavefronts(g.addresses, g.active, g.bytes, ideal);
  BankStats &s = counters.banks[size_t(kind)];
  ++s.instructions, s.wavefronts += n, s.conflicts += n - ideal;
}

void BankCounter::add(uint32_t warp, uint32_t lane, int32_t site, SharedAccess kind, uint32_t addr, uint32_t bytes,
                      bool active, Counters &counters) {
  uint64_t key = uint64_t(uint32_t(site)) << 16 | warp << 8 | uint64_t(kind) << 5 | (bytes & 31);
  Sequence &s = sequences_[key];
  s.kind = kind;
  uint32_t at = s.next[lane]++ - s.done;
  while (s.open.size() <= at)
    s.open.emplace_back();
  Group &g = s.open[at];
  g.came |= 1u << lane;
  g.bytes = bytes;
  if (active)
    g.active |= 1u << lane, g.addresses[lane] = addr;
  while (!s.open.empty() && s.open.front().came == ~0u) {
    count(s.open.front(), kind, counters);
    s.open.pop_front();
    ++s.done;
  }
}

void BankCounter::addMatrix(SharedAccess kind, const uint32_t *rows, unsigned n, Counters &counters) {
  BankStats &s = counters.banks[size_t(kind)];
  ++s.instructions;
  for (unsigned i = 0; i < n; ++i) {
    unsigned ideal, passesNeeded = wavefronts(rows + 8 * i, 0xff, 16, ideal);
    s.wavefronts += passesNeeded, s.conflicts += passesNeeded - ideal;
  }
}

void BankCounter::flush(Counters &counters) {
  for (auto &[key, s] : sequences_)
    for (const Group &g : s.open)
      count(g, s.kind, counters);
  sequences_.clear();
}

} // namespace tegula::sim
