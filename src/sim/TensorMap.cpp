// Encoding with the driver's checks, each seen on an H200 (docs/hopper.md).
#include "sim/TensorMap.h"
#include <cstring>

namespace tegula::sim {

static constexpr uint8_t elementBytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
uint32_t tensorElementBytes(int32_t type) { return uint32_t(type) < sizeof elementBytes ? elementBytes[type] : 0; }

static bool isFloat(int32_t type) { return type >= 6; }

/// What the 128 bytes hold.
struct EncodedMap {
  uint64_t magic;
  uint64_t address;
  uint64_t strides[4];
  uint32_t dimsMinus1[5];
  uint16_t boxMinus1[5];
  uint8_t elementStrides[5];
  uint8_t dataType, rank, swizzle, oobFill;
};
static_assert(sizeof(EncodedMap) <= 128);
static constexpr uint64_t mapMagic = 0x70616d616c756765; // says that the bytes are a map of this encoder

static std::string say(const char *what, uint64_t value, const char *rule) {
  return std::string(what) + " is " + std::to_string(value) + "; " + rule;
}

static std::string refuseDimension(const TensorMapSpec &s, uint32_t i) {
  if (s.dims[i] < 1 || s.dims[i] > uint64_t(1) << 32)
    return say("a tensor extent", s.dims[i], "it must be in 1..2^32");
  if (s.box[i] < 1 || s.box[i] > 256)
    return say("a box extent", s.box[i], "it must be in 1..256");
  if (s.elementStrides[i] < 1 || s.elementStrides[i] > 8)
    return say("an element stride", s.elementStrides[i], "it must be in 1..8");
  if (i + 1 < s.rank && s.strides[i] % 16)
    return say("a stride", s.strides[i], "it must be a multiple of 16 bytes");
  if (i + 1 < s.rank && s.strides[i] >= uint64_t(1) << 40)
    return say("a stride", s.strides[i], "it must be below 2^40 bytes");
  return {};
}

static std::string refuse(const TensorMapSpec &s, const void *map) {
  uint32_t size = tensorElementBytes(s.dataType);
  if (reinterpret_cast<uintptr_t>(map) % 64)
    return "the map is not aligned to 64 bytes";
  if (!size)
    return say("the data type", uint64_t(s.dataType), "there is no such type");
  if (s.rank < 1 || s.rank > 5)
    return say("the rank", s.rank, "it must be in 1..5");
  if (!s.stridesGiven)
    return "the strides are missing; even rank 1 needs a pointer";
  if (s.address == 0 || s.address % 16)
    return say("the address", s.address, "it must be a multiple of 16");
  if (s.interleave != 0)
    return "interleaved layouts are not supported";
  if (s.swizzle < 0 || s.swizzle > 3)
    return say("the swizzle", uint64_t(s.swizzle), "there is no such mode");
  if (s.oobFill != 0 && !isFloat(s.dataType))
    return "NaN fill needs a float type";
  uint64_t bytes = size;
  for (uint32_t i = 0; i < s.rank; ++i) {
    if (std::string why = refuseDimension(s, i); !why.empty())
      return why;
    bytes *= s.box[i];
  }
  uint64_t inner = uint64_t(s.box[0]) * size, span = s.swizzle ? 16u << s.swizzle : 0;
  if (inner % 16)
    return say("the innermost box extent in bytes", inner, "it must be a multiple of 16");
  if (span && inner > span)
    return say("the innermost box extent in bytes", inner, "it must not exceed the swizzle span");
  if (bytes > 232448)
    return say("the box in bytes", bytes, "it must fit into shared memory");
  return {};
}

std::string encodeTensorMap(const TensorMapSpec &s, void *map) {
  if (std::string why = refuse(s, map); !why.empty())
    return why;
  EncodedMap e{};
  e.magic = mapMagic;
  e.address = s.address;
  for (uint32_t i = 0; i < s.rank; ++i) {
    if (i)
      e.strides[i - 1] = s.strides[i - 1];
    e.dimsMinus1[i] = uint32_t(s.dims[i] - 1);
    e.boxMinus1[i] = uint16_t(s.box[i] - 1);
    e.elementStrides[i] = uint8_t(s.elementStrides[i]);
  }
  e.dataType = uint8_t(s.dataType), e.rank = uint8_t(s.rank), e.swizzle = uint8_t(s.swizzle),
  e.oobFill = uint8_t(s.oobFill);
  std::memset(map, 0, 128);
  std::memcpy(map, &e, sizeof e);
  return {};
}

bool decodeTensorMap(const void *map, TensorMapSpec &s) {
  EncodedMap e;
  std::memcpy(&e, map, sizeof e);
  // Memory that a kernel overwrote must not become a wild map.
  if (e.magic != mapMagic || e.rank < 1 || e.rank > 5)
    return false;
  s = {};
  s.address = e.address;
  s.dataType = e.dataType, s.rank = e.rank, s.swizzle = e.swizzle, s.oobFill = e.oobFill;
  for (uint32_t i = 0; i < s.rank; ++i) {
    if (i)
      s.strides[i - 1] = e.strides[i - 1];
    s.dims[i] = uint64_t(e.dimsMinus1[i]) + 1;
    s.box[i] = uint32_t(e.boxMinus1[i]) + 1;
    s.elementStrides[i] = e.elementStrides[i];
  }
  return refuse(s, reinterpret_cast<const void *>(uintptr_t(64))).empty();
}

} // namespace tegula::sim
