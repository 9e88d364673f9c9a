// Descriptors and swizzles of wgmma (docs/hopper.md). Every mode keeps 16 bytes together, so operands are read in such
// chunks.
#include "sim/WgmmaOperand.h"
#include "sim/Fragments.h"
#include "sim/MatrixMath.h"

namespace tegula::sim {

GroupReader::GroupReader(Thread *group, int32_t site) : group_(group), site_(site) {
  Clocks &clocks = group->cluster->clocks;
  common_ = clocks.share(group->clock);
  bool own = false;
  for (unsigned i = 1; i < 128; ++i) {
    const Clock *c = group[i].clock;
    if (c == group[i - 1].clock || c == common_)
      continue;
    if (!own) {
      Clock *copy = clocks.make(common_);
      clocks.drop(common_);
      common_ = copy;
      own = true;
    }
    clocks.meet(*common_, *c);
  }
  actor_ = {common_, clocks.groupEntry(group->id / 32), Actor::noThread, 0, 0, 0, site};
}

void GroupReader::finish() { group_->cluster->clocks.drop(common_); }

const uint8_t *GroupReader::chunk(uint32_t linear, uint32_t baseOffset, uint32_t mask) {
  Cta &cta = *group_->cta;
  uint32_t address = linear ^ ((((linear >> 7) - baseOffset) & mask) << 4);
  Cta *found;
  const uint8_t *from = sharedAt(group_, site_, "wgmma", address | cta.rank << 24, 16, 16, found);
  Conflict f = cta.shadow.access(group_->cluster->clocks, actor_, Touch::AsyncLoad, userOffset(address), 16);
  if (f)
    failAccess(group_, cta, site_, "wgmma", 16, f);
  return from;
}

void GroupReader::read(const MatrixOperand &o, uint32_t *to) {
  auto field = [&](unsigned low) { return uint32_t(o.descriptor >> low & 0x3fff) << 4; };
  uint32_t start = field(0), lbo = field(16), sbo = field(32), base = uint32_t(o.descriptor >> 49 & 7);
  static constexpr uint8_t masks[4] = {0, 7, 3, 1};
  static constexpr uint16_t widths[4] = {16, 128, 64, 32};
  uint32_t mode = uint32_t(o.descriptor >> 62), mask = masks[mode], width = widths[mode];
  uint32_t bytes = 1u << widthIndex(o.type), k = 32 / bytes, perChunk = 16 / bytes;
  // Element (r, i) goes to r * rowStep + i * kStep.
  uint32_t rowStep = o.columns ? 1 : k, kStep = o.columns ? o.rows : 1;
  auto decode = [&](const uint8_t *from, uint32_t *at, uint32_t step) {
    if (isIntType(o.type))
      decodeInts(o.type, from, perChunk, reinterpret_cast<int32_t *>(at), step);
    else
      decodeFloats(o.type, from, perChunk, reinterpret_cast<float *>(at), step);
  };
  if (!o.mnMajor) {
    for (uint32_t r = 0; r < o.rows; ++r)
      for (uint32_t c = 0; c < 2; ++c) {
        uint32_t linear =
            mode ? start + r % 8 * width + r / 8 * sbo + 16 * c : start + r % 8 * 16 + r / 8 * sbo + c * lbo;
        decode(chunk(linear, base, mask), to + r * rowStep + c * perChunk * kStep, kStep);
      }
    return;
  }
  for (uint32_t i = 0; i < k; ++i)
    for (uint32_t r = 0; r < o.rows; r += perChunk) {
      uint32_t mb = r * bytes;
      uint32_t linear = mode ? start + i % 8 * width + i / 8 * sbo + mb / width * lbo + mb % width
                             : start + i % 8 * 16 + i / 8 * lbo + mb / 16 * sbo;
      decode(chunk(linear, base, mask), to + r * rowStep + i * kStep, rowStep);
    }
}

} // namespace tegula::sim
