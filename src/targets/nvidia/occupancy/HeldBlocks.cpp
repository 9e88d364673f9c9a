// See HeldBlocks.h.
#include "targets/nvidia/occupancy/HeldBlocks.h"
#include "gpu/parts/ChooseCluster.h"
#include <algorithm>

namespace tegula::nvidia {

namespace {

namespace sm = abi::multiprocessor;

// Bytes of a row in shared memory: shorter ones are in the caches anyway. What blocks have room for of their rows, in
// tenths, at least.
constexpr uint64_t leastHeld = 24 << 10, roomForRows = sm::sharedBytes - (8 << 10), leastTenths = 7;
// Bytes of a row that a CTA holds at most where several can share it: two blocks have room for all of theirs.
constexpr uint64_t mostOfOne = 96 << 10;

/// Of which a block can hold whole iterations.
uint64_t wholeIterations(uint64_t bytes, uint64_t iteration) { return bytes / iteration * iteration; }
uint64_t mostlyHeld(uint64_t blocks, uint64_t iteration) {
  return 10 * wholeIterations(roomForRows / blocks, iteration) / leastTenths;
}

/// Bytes of the longest row of which two blocks hold so much that loops read again no more than a fifth of it.
uint64_t mostBesides(const HeldIterations &iteration) {
  return wholeIterations(sm::sharedBytes / 2 - (2 << 10), iteration.bytes) * 5 * iteration.again /
         (5 * iteration.again - 1);
}

} // namespace

/// Each block has its row, its share of one, or most of that: two blocks rather than one, which has nothing under way
/// while it reduces, and that many warps that elements are computed in time. No blocks: rows are short, or of one
/// iteration; too long; or so few that blocks do not come in turns, whose copies are waited for all at once (softmax of
/// 32768 floats, 132 rows, 13.8 -> 15.9 us). Two and three loops over rows, an H200, us, all blocks or those of the L2
/// cache / one / two (a copy 257 and 129): softmax of 32768 floats by 16 warps 344 / 268 / 279, layer norm 377 / 312 /
/// 297, of 65536 522 / 367 / 421; of 65536 in bf16 216 / 199 / 172, softmax 192 / 167 / 147. Two fifths of a row held
/// by two blocks: cross entropy of 131072 in bf16 213 -> 273.
///
/// The fewest CTAs that hold all of a row with enough warps. Iterations of 4096 by 8 warps, us, what one CTA does /
/// clusters whose CTAs have up to 128, 96 and 48 KiB each: softmax of 131072 floats 405 / 306 / 284 / 286, layer norm
/// 528 / 342 / 308 / 309;
/// of 131072 in bf16 208 / 174 / 156 / 152, layer norm 279 / 212 / 169 / 158; by 2048 an iteration 288 / 226 / 215 /
/// 161; by 8192 and 16 warps, of which 48 KiB take 64, 221 / 184 / 158 / 165. Not in place of one CTA that holds seven
/// eighths:
/// softmax of 32768 floats 277 -> 270, but cross entropy 277 -> 294 and RMS norm 283 -> 290; unless two loops load the
/// rest again, layer norm 319 -> 281. Nor of narrow elements where threads have many of an iteration, whose registers
/// leave no room for warps: softmax of 65536 in bf16, 16384 by 16 warps, 147 -> 161, 32768 by 32 178 -> 238.
/// Nor as many blocks as leave no registers for what is alive of many elements: maxima and sums by elements, softmax of
/// 262144 floats, 16384 by 16 warps, 454 with two blocks and 64 registers for 96, 318 with one.
/// Sixteen CTAs where eight have no room: of 262144 floats 314 -> 294, layer norm 371 -> 334.
Holding blocksThatHold(const HeldIterations &iteration, int64_t trips, unsigned warps, uint64_t programs,
                       unsigned mostCtas) {
  // that compute elements in time; where CTAs wait for each other
  constexpr unsigned leastWarps = 16, narrowWarps = 32, sharedWarps = 24;
  // of which each has registers for its elements; for many of them
  constexpr unsigned mostWarps = 48, fewWarps = 32, manyElements = 32;
  const uint64_t row = iteration.bytes * static_cast<uint64_t>(trips),
                 elements = iteration.bytes / (iteration.isNarrow ? 2 : 4) / (uint64_t{sm::lanes} * warps);
  const auto bytesOf = [&](unsigned ctas) {
    return iteration.bytes * ((static_cast<uint64_t>(trips) + ctas - 1) / ctas);
  };
  bool areFew = false; // of the last question
  const auto blocksOf = [&](unsigned ctas) -> unsigned {
    const uint64_t bytes = bytesOf(ctas);
    uint64_t blocks =
        std::max<uint64_t>({roomForRows / bytes, bytes <= roomForRows ? 2u : 1u, (leastWarps + warps - 1) / warps});
    blocks = std::min<uint64_t>(blocks, sm::threads / sm::lanes / warps);
    if (ctas > 1)
      blocks = std::clamp<uint64_t>((elements < manyElements ? mostWarps : fewWarps) / warps, 1,
                                    std::min<uint64_t>(blocks, mostLimited));
    if (ctas > 1 &&
        ((blocks < 2 && iteration.isNarrow) ||
         (elements >= manyElements && iteration.registers > sm::registersOf(static_cast<unsigned>(blocks) * warps))))
      return 0;
    if (trips <= 1 || row <= leastHeld || mostlyHeld(blocks, iteration.bytes) < bytes || blocks > mostLimited)
      return 0;
    areFew = programs && programs * ctas <= 2 * blocks;
    return areFew ? 0 : static_cast<unsigned>(blocks);
  };
  const auto hasAll = [&](const Holding &h) {
    return h.blocks && wholeIterations(roomForRows / h.blocks, iteration.bytes) >= bytesOf(h.ctas);
  };
  Holding best{blocksOf(1), 1};
  if (row <= mostOfOne || areFew || (best.blocks && iteration.isNarrow && elements >= manyElements) ||
      (best.blocks * warps >= (iteration.isNarrow ? narrowWarps : leastWarps) && row <= mostBesides(iteration)))
    return best;
  const auto isEnough = [&](const Holding &h) {
    return h.ctas > 1 && hasAll(h) &&
           (h.ctas == gpu::portableCluster || h.blocks * warps >= (iteration.isNarrow ? narrowWarps : sharedWarps));
  };
  for (unsigned ctas = 2; ctas <= mostCtas && ctas <= trips && !isEnough(best); ctas *= 2)
    if (const Holding next{blocksOf(ctas), ctas};
        next.blocks && (best.ctas == 1 || !hasAll(best) || next.blocks > best.blocks))
      best = next;
  return best;
}

std::vector<uint64_t> limitsOfHolding(const HeldIterations &iteration, unsigned mostCtas) {
  std::vector<uint64_t> out{leastHeld};
  for (uint64_t blocks = 1; blocks <= mostLimited + 1; ++blocks)
    out.insert(out.end(), {roomForRows / blocks, mostlyHeld(blocks, iteration.bytes)});
  if (mostCtas > 1)
    out.insert(out.end(), {mostOfOne, mostBesides(iteration)});
  for (uint64_t ctas = 2; ctas <= mostCtas; ctas *= 2) {
    for (uint64_t blocks = 1; blocks <= mostLimited; ++blocks)
      out.push_back(wholeIterations(roomForRows / blocks, iteration.bytes) * ctas);
    if (ctas == mostCtas)
      out.push_back(wholeIterations(mostlyHeld(2, iteration.bytes), iteration.bytes) * ctas);
  }
  return out;
}

} // namespace tegula::nvidia
