// Plans of bulk stores: every element of a tile is in exactly one box, at the place where the copy reads it.
#include "gpu/Layouts.h"
#include "layout/Constructors.h"
#include "targets/nvidia/BulkStores.h"
#include <gtest/gtest.h>
#include <map>

using namespace tegula;
using namespace tegula::ir;
using namespace tegula::nvidia;
using layout::Dim;

namespace {

/// Where the hardware reads element `at` of a box: docs/hopper.md §2.3, written down independently.
uint32_t placeInBox(const TmaTile &tile, const std::vector<uint32_t> &at) {
  uint32_t row = 0, columns = tile.box.back();
  for (size_t d = 0; d + 1 < at.size(); ++d)
    row = row * tile.box[d] + at[d];
  uint32_t linear = row * columns * tile.bytes + at.back() * tile.bytes, mask = tile.swizzle / 16u;
  return tile.swizzle ? linear ^ ((linear >> 7 & (mask - 1)) << 4) : linear;
}

std::vector<uint32_t> coordinates(const Shape &s, uint64_t flat) {
  std::vector<uint32_t> out(s.rank());
  for (unsigned d = s.rank(); d-- > 0; flat /= static_cast<uint64_t>(s[d]))
    out[d] = static_cast<uint32_t>(flat % static_cast<uint64_t>(s[d]));
  return out;
}

uint64_t flatOf(const Shape &s, const std::vector<uint32_t> &at) {
  uint64_t flat = 0;
  for (unsigned d = 0; d < s.rank(); ++d)
    flat = flat * static_cast<uint64_t>(s[d]) + at[d];
  return flat;
}

/// Byte offset -> flat index in the tile, by the boxes; boxes must cover the tile once.
std::map<uint32_t, uint64_t> bytesOfBoxes(const TmaTile &tile) {
  std::map<uint32_t, uint64_t> out;
  Shape box;
  for (uint32_t n : tile.box)
    box.push(n);
  for (const TmaTile::Box &b : tile.boxes()) {
    EXPECT_EQ(b.offset % 128, 0u) << "copies start at multiples of 128 bytes";
    for (uint64_t i = 0; i < static_cast<uint64_t>(box.numel()); ++i) {
      std::vector<uint32_t> at = coordinates(box, i);
      uint32_t place = b.offset + placeInBox(tile, at);
      for (size_t d = 0; d < at.size(); ++d)
        at[d] += b.at[d];
      EXPECT_TRUE(out.emplace(place, flatOf(tile.shape, at)).second);
    }
  }
  return out;
}

void checkPlan(const layout::LinearLayout &l, const Shape &shape, Elem elem, const BulkStore &p) {
  std::map<uint32_t, uint64_t> boxes = bytesOfBoxes(p.step);
  ASSERT_EQ(boxes.size(), static_cast<size_t>(p.step.shape.numel()));
  for (auto [byte, flat] : boxes)
    ASSERT_EQ(p.memory.apply(byte / p.step.bytes), flat);
  EXPECT_LE(p.step.shape.numel() * p.step.bytes, p.bytes);
  std::vector<unsigned> stored(static_cast<size_t>(shape.numel()));
  uint64_t laneAt = 1u << l.inBits(Dim::Register), warpAt = laneAt << l.inBits(Dim::Lane),
           ownLane = 1u << p.registers.inBits(Dim::Register);
  uint32_t idleLanes = p.registers.freeMask(Dim::Lane), copies = p.registers.freeMask(Dim::Register);
  for (uint32_t warp = 0; warp < p.warps; ++warp) {
    if (warp & p.idleWarps)
      continue;
    std::vector<uint32_t> first = coordinates(shape, l.apply(warp * warpAt));
    for (const BulkStore::Step &s : p.steps)
      for (uint32_t lane = 0; lane < 32; ++lane)
        for (uint32_t r = 0; r < s.registers.size(); ++r) {
          if ((lane & idleLanes) || (r & copies))
            continue;
          std::vector<uint32_t> at = coordinates(p.step.shape, p.registers.apply(r + lane * ownLane));
          for (size_t d = 0; d < at.size(); ++d)
            at[d] += first[d] + s.at[d];
          ASSERT_EQ(flatOf(shape, at), l.apply(s.registers[r] + lane * laneAt + warp * warpAt))
              << "register, lane, warp " << r << " " << lane << " " << warp;
          ++stored[flatOf(shape, at)];
        }
  }
  for (unsigned n : stored)
    ASSERT_EQ(n, 1u) << str(Type::tensor(shape, elem)) << " " << l.print();
}

const Shape shapes[] = {{16},      {4096},       {1, 64},    {8, 16},       {64, 64},         {128, 256}, {256, 16},
                        {2, 1024}, {1, 128, 64}, {4, 8, 32}, {2, 2, 4, 16}, {2, 1, 4, 2, 32}, {512, 8}};
const Elem elems[] = {Elem::I8, Elem::F16, Elem::F32, Elem::I64};

} // namespace

TEST(BulkStores, ThereIsAlwaysALayoutWithAPlan) {
  for (const Shape &shape : shapes)
    for (Elem elem : elems)
      for (unsigned warps : {1u, 2u, 4u, 8u, 16u}) {
        if (shape[shape.rank() - 1] * byteWidth(elem) < 16)
          continue;
        layout::LinearLayout l = bulkStoreLayout(shape, elem, warps);
        std::optional<BulkStore> p = planBulkStore(l, shape, elem);
        ASSERT_TRUE(p) << str(Type::tensor(shape, elem)) << " " << warps << " " << l.print();
        EXPECT_FALSE(p->isPoor) << str(Type::tensor(shape, elem)) << " " << warps << " " << l.print();
        checkPlan(l, shape, elem, *p);
      }
}

TEST(BulkStores, WhatDotsAndAccessesLeaveBehind) {
  unsigned plans = 0;
  for (Elem elem : elems)
    for (unsigned warps : {4u, 8u}) {
      for (const Shape &shape : {Shape{64, 64}, Shape{128, 256}, Shape{128, 32}, Shape{256, 64}}) {
        layout::WarpGrid grid{shape[0] >= 16 * warps ? warps : 4, shape[0] >= 16 * warps ? 1 : warps / 4, 1};
        layout::LinearLayout l = layout::wgmmaAccumulator(shape, grid);
        std::optional<BulkStore> p = planBulkStore(l, shape, elem);
        ASSERT_TRUE(p) << l.print();
        checkPlan(l, shape, elem, *p);
        // 32 KiB for eight warps, two buffers each.
        EXPECT_LE(p->sharedBytes(2), warps * 4096);
        EXPECT_FALSE(p->isPoor);
      }
      for (const Shape &shape : shapes) {
        layout::LinearLayout l = layout::dealtByRows(shape, {32, warps});
        std::optional<BulkStore> p = planBulkStore(l, shape, elem);
        plans += p.has_value();
        if (p)
          checkPlan(l, shape, elem, *p);
      }
    }
  EXPECT_GT(plans, 40u);
}

/// A tile that was read along the other axis: a warp has four neighbours of each of 32 rows. The copy would write half
/// a sector a row.
TEST(BulkStores, ShortRowsArePoor) {
  const Shape shape{32, 128};
  auto turned = [&](int64_t step) {
    return layout::LinearLayout::tensor(shape,
                                        {{Dim::Register, {{1, 0}, {2, 0}, {0, 16}, {0, 32}, {0, step == 1 ? 64 : 1}}},
                                         {Dim::Lane, {{4, 0}, {8, 0}, {16, 0}, {0, step}, {0, 2 * step}}},
                                         {Dim::Warp, {{0, step == 1 ? 4 : 8}, {0, step == 1 ? 8 : 64}}}});
  };
  EXPECT_TRUE(planBulkStore(turned(1), shape, Elem::F32)->isPoor);  // 16 bytes
  EXPECT_FALSE(planBulkStore(turned(2), shape, Elem::F32)->isPoor); // 32 bytes
  // All that there is.
  EXPECT_FALSE(planBulkStore(bulkStoreLayout({1024, 4}, Elem::F32, 4), {1024, 4}, Elem::F32)->isPoor);
}
