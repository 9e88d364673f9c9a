// Bulk copies with a tensor map: loads (with multicast), stores and reductions of a box.
#include "sim/Bulk.h"
#include "sim/Mbarrier.h"
#include "sim/Numeric.h"
#include "sim/TensorMap.h"
#include <cstring>

using namespace tegula::sim;

namespace tegula::sim {

/// A box of a tensor at its place: rows of the innermost dimension, one after the other.
struct Box {
  TensorMapSpec map;
  int32_t coord[5] = {};
  uint32_t size = 0;       // of an element
  uint32_t extent[5] = {}; // elements that are copied (the box divided by the element strides)
  uint32_t rows = 1, rowBytes = 0, pitch = 0, swizzleMask = 0;

  /// Address of the row's first element and whether the row exists; element j of it is at coordinate x(j).
  bool row(uint32_t index, uint64_t &address) const {
    address = map.address;
    bool inside = true;
    for (uint32_t d = 1; d < map.rank; ++d) {
      int64_t x = coord[d] + int64_t(index % extent[d]) * map.elementStrides[d];
      index /= extent[d];
      inside &= x >= 0 && uint64_t(x) < map.dims[d];
      address += uint64_t(x) * map.strides[d - 1];
    }
    return inside;
  }
  int64_t x(uint32_t j) const { return coord[0] + int64_t(j) * map.elementStrides[0]; }
  bool inRow(uint32_t j) const { return x(j) >= 0 && uint64_t(x(j)) < map.dims[0]; }
  /// Offset from the CTA's shared address 0 of 16 bytes of the box at `base`.
  uint32_t place(uint32_t base, uint32_t row, uint32_t byte) const {
    uint32_t linear = base + row * pitch + byte;
    return linear ^ ((linear >> 7 & swizzleMask) << 4);
  }
  uint32_t sharedBytes() const { return rows * pitch; }
};

static void describe(Thread *t, int32_t site, const char *verb, uint64_t map, int32_t rank, const int32_t *coord,
                     Box &box) {
  using ull = unsigned long long;
  uint64_t args = reinterpret_cast<uint64_t>(t->cluster->launch->config.args);
  bool isArgument = map >= args && map - args < 4096;
  if (map % 64)
    fail(t, FaultKind::Tensor, site, -1, "executes a %s at site %d with a map at 0x%llx, which is no multiple of 64",
         verb, site, ull(map));
  if (!isArgument)
    checkGlobal(t, site, verb, map, 128, 64);
  if (!decodeTensorMap(reinterpret_cast<const void *>(map), box.map))
    fail(t, FaultKind::Tensor, site, -1, "executes a %s at site %d; there is no tensor map at 0x%llx", verb, site,
         ull(map));
  if (rank != int32_t(box.map.rank))
    fail(t, FaultKind::Tensor, site, -1, "executes a %s of rank %d at site %d with a map of rank %u", verb, rank, site,
         box.map.rank);
  box.size = tensorElementBytes(box.map.dataType);
  for (int32_t d = 0; d < rank; ++d) {
    box.coord[d] = coord[d];
    box.extent[d] = (box.map.box[d] + box.map.elementStrides[d] - 1) / box.map.elementStrides[d];
    if (d)
      box.rows *= box.extent[d];
  }
  box.rowBytes = box.extent[0] * box.size;
  box.pitch = box.map.swizzle ? 16u << box.map.swizzle : box.rowBytes;
  box.swizzleMask = (1u << box.map.swizzle) - 1;
  if (int64_t(coord[0]) * box.size % 16)
    fail(t, FaultKind::Tensor, site, -1,
         "executes a %s at site %d with innermost coordinate %d: times the element size of %u it must be a multiple of "
         "16 bytes",
         verb, site, coord[0], box.size);
}

/// The part of a row inside the tensor must lie in a buffer. `writes`: the bytes will be written, with this `op`.
static void checkRow(Thread *t, int32_t site, const char *verb, const Box &box, uint64_t address, bool writes = false,
                     int32_t op = -1) {
  int64_t first = std::max<int64_t>(box.x(0), 0);
  int64_t last = std::min<int64_t>(box.x(box.extent[0] - 1), int64_t(box.map.dims[0]) - 1);
  if (first > last)
    return;
  uint64_t begin = address + uint64_t(first) * box.size, bytes = uint64_t(last - first + 1) * box.size;
  checkGlobal(t, site, verb, begin, bytes, 1, op);
  if (writes)
    noteBulkWrite(t, site, begin, bytes, op);
}

static void fillOutside(const Box &box, uint8_t *to) {
  // 16-bit types show 0x7ff7 on the hardware; the wider ones repeat it here.
  static constexpr uint16_t nan = 0x7ff7;
  for (uint32_t i = 0; i < box.size; ++i)
    to[i] = box.map.oobFill ? uint8_t(nan >> (i % 2 * 8)) : 0;
}

static void loadElement(const Box &box, uint64_t address, uint8_t *to) {
  std::memcpy(to, reinterpret_cast<const void *>(address), box.size);
  if (box.map.dataType == 11 || box.map.dataType == 12) {
    uint32_t bits;
    std::memcpy(&bits, to, 4);
    bits = roundToTf32(bits);
    std::memcpy(to, &bits, 4);
  }
}

/// Up to 16 bytes of one row, from global memory.
static void loadChunk(const Box &box, uint64_t rowAddress, bool inside, uint32_t firstElement, uint32_t count,
                      uint8_t *to) {
  for (uint32_t j = firstElement; j < firstElement + count; ++j, to += box.size) {
    if (inside && box.inRow(j))
      loadElement(box, rowAddress + uint64_t(box.x(j)) * box.size, to);
    else
      fillOutside(box, to);
  }
}

static void loadInto(Thread *t, int32_t site, const Box &box, Cta &cta, uint32_t base, uint32_t agent) {
  uint32_t perChunk = 16 / box.size;
  for (uint32_t r = 0; r < box.rows; ++r) {
    uint64_t address;
    bool inside = box.row(r, address);
    if (inside)
      checkRow(t, site, "bulk tensor load", box, address);
    for (uint32_t j = 0; j < box.extent[0]; j += perChunk) {
      uint32_t count = std::min(perChunk, box.extent[0] - j);
      uint32_t at = box.place(base, r, j * box.size) - sharedBase;
      touchBulk(t, site, "bulk tensor load", cta, at, count * box.size, Touch::AsyncStore, agent);
      loadChunk(box, address, inside, j, count, cta.memory.data() + at);
    }
  }
}

/// Type of a reduction in terms of tegula_sim_atom; -1: none.
static int32_t atomType(int32_t dataType) {
  static constexpr int8_t types[] = {-1,
                                     -1,
                                     TEGULA_SIM_I32,
                                     TEGULA_SIM_I32,
                                     TEGULA_SIM_I64,
                                     TEGULA_SIM_I64,
                                     TEGULA_SIM_F16,
                                     TEGULA_SIM_F32,
                                     TEGULA_SIM_F64,
                                     TEGULA_SIM_BF16,
                                     TEGULA_SIM_F32,
                                     TEGULA_SIM_F32,
                                     TEGULA_SIM_F32};
  return types[dataType];
}

/// Stores (op < 0) or reduces a box.
static void storeBox(Thread *t, int32_t site, const char *verb, uint64_t map, int32_t rank, const int32_t *coord,
                     uint32_t src, int32_t op) {
  Box box;
  describe(t, site, verb, map, rank, coord, box);
  int32_t type = atomType(box.map.dataType);
  if (op >= 0 && (type < 0 || op > TEGULA_ATOM_XOR))
    fail(t, FaultKind::Tensor, site, -1, "executes a %s at site %d: operation %d on elements of type %d", verb, site,
         op, box.map.dataType);
  for (int32_t d = 0; d < rank; ++d)
    if (coord[d] < 0)
      fail(t, FaultKind::Tensor, site, -1,
           "executes a %s at site %d with coordinate %d along dimension %d: writes take no negative ones", verb, site,
           coord[d], d);
  // A row that ends inside the box is clipped to groups of 16 bytes: what belongs to a neighbour would be overwritten.
  if (uint64_t(coord[0]) + box.map.box[0] > box.map.dims[0] && uint64_t(coord[0]) < box.map.dims[0] &&
      box.map.dims[0] * box.size % 16)
    fail(
        t, FaultKind::Tensor, site, -1,
        "executes a %s at site %d beyond rows of %llu elements of %u bytes: rows that writes clip must be multiples of 16 bytes",
        verb, site, static_cast<unsigned long long>(box.map.dims[0]), box.size);
  Cta *cta;
  sharedAt(t, site, verb, src, box.sharedBytes(), 128, cta);
  if (cta != t->cta)
    fail(t, FaultKind::Tensor, site, -1, "executes a %s from another CTA (0x%x) at site %d", verb, src, site);
  uint32_t agent = beginBulkStore(t, site), perChunk = 16 / box.size;
  for (uint32_t r = 0; r < box.rows; ++r) {
    uint64_t address;
    if (!box.row(r, address))
      continue;
    checkRow(t, site, verb, box, address, true, op);
    for (uint32_t j = 0; j < box.extent[0]; j += perChunk) {
      uint32_t end = std::min(j + perChunk, box.extent[0]);
      uint32_t at = box.place(src & 0xffffff, r, j * box.size) - sharedBase;
      // What is clipped is not read.
      bool any = false;
      for (uint32_t i = j; i < end; ++i)
        any |= box.inRow(i);
      if (!any)
        continue;
      touchBulk(t, site, verb, *cta, at, (end - j) * box.size, Touch::AsyncLoad, agent);
      for (uint32_t i = j; i < end; ++i) {
        if (!box.inRow(i))
          continue;
        auto *to = reinterpret_cast<uint8_t *>(address + uint64_t(box.x(i)) * box.size);
        const uint8_t *from = cta->memory.data() + at + (i - j) * box.size;
        if (op < 0)
          std::memcpy(to, from, box.size);
        else
          reduceGlobal(to, type, op, from);
      }
    }
  }
  advance(t);
}

} // namespace tegula::sim

void tegula_sim_tma_load(TegulaSimThread *t, int32_t site, uint32_t dst, uint64_t map, int32_t rank,
                         const int32_t *coord, uint32_t bar, int32_t multicastMask, int32_t p) {
  if (!p)
    return;
  Cluster &c = *t->cluster;
  c.count(Instr::BulkLoad);
  Box box;
  describe(t, site, "bulk tensor load", map, rank, coord, box);
  uint32_t mask = multicastMask ? uint32_t(multicastMask) : 1u << (dst >> 24 & 31);
  if (dst >> 24 != bar >> 24 || mask >> c.ctas.size())
    fail(t, FaultKind::Tensor, site, -1,
         "executes a bulk tensor load to 0x%x with the mbarrier at 0x%x and multicast mask 0x%x at site %d; barrier "
         "and destination must "
         "be in one CTA and the mask in the cluster",
         dst, bar, mask, site);
  // Elements outside the tensor count, what pads narrow rows does not.
  auto bytes = int64_t(box.rows) * box.rowBytes;
  for (uint32_t rank = 0; rank < c.ctas.size(); ++rank) {
    if (!(mask >> rank & 1))
      continue;
    uint32_t to = rank << 24 | (dst & 0xffffff), toBar = rank << 24 | (bar & 0xffffff);
    Cta *cta;
    sharedAt(t, site, "bulk tensor load", to, box.sharedBytes(), 128, cta);
    Mbarrier &b = mbarrierAt(t, site, "bulk tensor load", toBar, true);
    loadInto(t, site, box, *cta, to & 0xffffff, b.agent);
    uint32_t stamp = c.clocks.now;
    advance(t);
    completeBytes(t, site, b, bytes, stamp);
  }
}

void tegula_sim_tma_store(TegulaSimThread *t, int32_t site, uint64_t map, int32_t rank, const int32_t *coord,
                          uint32_t src, int32_t p) {
  if (p)
    storeBox(t, site, "bulk tensor store", map, rank, coord, src, -1);
}

void tegula_sim_tma_reduce(TegulaSimThread *t, int32_t site, uint64_t map, int32_t rank, const int32_t *coord,
                           uint32_t src, int32_t op, int32_t p) {
  if (p)
    storeBox(t, site, "bulk tensor reduction", map, rank, coord, src, op);
}
