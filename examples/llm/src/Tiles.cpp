#include "Tiles.h"
#include <algorithm>
#include <cstdint>

namespace llm {

namespace {

constexpr int64_t any = INT64_MAX;

/// A tile of steps with `above` < rows <= `rows`, of products with up to `outputs` outputs. `isOneWave`: only where there are no more tiles than multiprocessors.
struct Row {
  Product product;
  int64_t above, rows, outputs;
  bool isOneWave;
  Tiling tiling;
};

// The first row that fits. Up to 32 rows the weights are read once, which takes the time; few outputs want narrow tiles with long rows of them, so that there are as many programs as multiprocessors.
// Tiles whose sizes are no powers of two are for q, k and v: 128 tiles of 48, 96 or 192 outputs, at 384 rows of 192 rows, for 132 multiprocessors. `parts` is the most that there may be.
constexpr Row table[] = {
    {Product::Plain, 0, 16, 4096, false, {16, 32, 256, 8, {4, 4}}},
    {Product::Plain, 0, 16, any, false, {16, 64, 128, 8, {4, 5}}},
    {Product::Plain, 16, 32, 4096, false, {32, 32, 256, 8, {4, 4}}},
    {Product::Plain, 16, 32, any, false, {32, 64, 128, 8, {4, 5}}},
    {Product::Plain, 32, 64, any, false, {64, 64, 128, 8, {4, 4}}},
    {Product::Plain, 96, 128, any, true, {64, 64, 128, 8, {4, 4}, 1, 0, 32}},
    {Product::Plain, 64, 128, any, false, {128, 64, 64, 8, {8, 6}}},
    {Product::Plain, 128, 256, any, true, {64, 128, 64, 8, {4, 5}, 1, 0, 64}},
    {Product::Plain, 128, 256, any, false, {128, 128, 64, 8, {8, 5}}},
    {Product::Plain, 256, 384, any, true, {128, 64, 64, 8, {4, 5}, 1, 0, 32, 64}},
    {Product::Plain, 256, 512, any, true, {128, 128, 64, 8, {8, 4}, 1, 0, 64}},
    {Product::Plain, 256, 512, any, false, {64, 128, 64, 8, {4, 6}}},
    {Product::Plain, 512, any, any, false, {128, 256, 64, 16, {8, 3}}},
    {Product::Added, 0, 16, any, false, {16, 32, 256, 8, {4, 4}, 2}},
    {Product::Added, 16, 32, any, false, {32, 32, 256, 8, {4, 4}, 0}},
    {Product::Added, 32, 64, any, false, {64, 64, 128, 8, {4, 4}, 4}},
    {Product::Added, 64, 128, any, false, {64, 128, 128, 8, {4, 4}, 4}},
    {Product::Added, 128, 256, any, false, {128, 128, 64, 8, {8, 5}, 4}},
    {Product::Added, 256, 384, any, true, {128, 128, 64, 8, {8, 4}, 2, 0, 64}},
    {Product::Added, 256, 512, any, false, {128, 128, 64, 8, {8, 6}, 1}},
    {Product::Added, 512, any, any, false, {128, 256, 64, 8, {8, 4}, 0}},
    {Product::Paired, 0, 16, any, false, {16, 64, 128, 8, {4, 4}, 1, 1024}},
    {Product::Paired, 16, 32, any, false, {32, 64, 128, 8, {4, 4}}},
    {Product::Paired, 32, 64, any, false, {64, 128, 64, 8, {8, 3}}},
    {Product::Paired, 64, 256, any, false, {128, 128, 64, 8, {8, 4}}},
    {Product::Paired, 256, 512, any, false, {128, 64, 64, 8, {8, 5}}},
    {Product::Paired, 512, any, any, false, {128, 128, 64, 16, {8, 3}}},
};

} // namespace

Tiling Tiling::of(int64_t rows, int64_t outputs, int64_t inputs, Product product, int64_t cores) {
  const Row *row = std::ranges::find_if(table, [&](const Row &r) {
    return r.product == product && rows > r.above && rows <= r.rows && outputs <= r.outputs && (!r.isOneWave || r.tiling.tilesOf(rows, outputs) <= cores / r.tiling.how.blocks);
  });
  Tiling t = row->tiling;
  if (t.parts > 1) t.parts = std::clamp<int64_t>(int64_t(std::bit_floor(uint64_t(std::max<int64_t>(cores * t.held() / t.tilesOf(rows, outputs), 1)))), 1, t.parts);
  if (product == Product::Added && rows > 512 && inputs > 8192 && t.how.blocks == 1) t.how.stages = 3;
  return t;
}

int64_t Tiling::mostPartRows(int64_t rows, int64_t outputs, int64_t inputs, int64_t cores) {
  int64_t most = 0;
  for (int64_t r = 1; r <= rows; ++r) {
    Tiling t = of(r, outputs, inputs, Product::Added, cores);
    most = std::max(most, t.parts * t.linesOf(r));
  }
  return most;
}

RowTiling RowTiling::of(int64_t outputs, int64_t inputs, Product product) {
  // Few outputs want programs that wait for much memory at once, many want small ones. What a program loads before it waits for the kernel in front of it keeps memory busy while that one ends: behind
  // attention, which reads little, the whole matrix is worth it. Fewer registers than the compiler would take leave room for more programs.
  auto launch = [](int32_t warps, int32_t registers) { return Launch{warps, 3, true, 1, registers}; };
  RowTiling t = product == Product::Paired ? RowTiling{2, 1024, 2, launch(2, 160)}
                : product == Product::Added ? (inputs <= 4096 ? RowTiling{4, 1024, 4, launch(4, 128)} : RowTiling{16, 512, 2, launch(8, 128)})
                : outputs > 65536 ? RowTiling{8, 256, 1, launch(1, 0)} : RowTiling{4, 512, 1, launch(1, 0)};
  t.bk = divisor(inputs, t.bk);
  t.ahead = divisor(inputs / t.bk, t.ahead);
  return t;
}

SharedTiling SharedTiling::of(int64_t rows, int64_t outputs, int64_t inputs, int bits, bool isPaired, bool canBeParts, int64_t cores) {
  int64_t bm = rows <= 16 ? 16 : rows <= 32 ? 32 : 64, groups = inputs / quantGroup, step = divisor(groups, 4);
  // Of eight bits half a block where a whole one has twice as many sums as 32 rows of it: registers for more programs beside one another.
  bool isHalf = bits == 8 && bm * (isPaired ? 2 : 1) == 64;
  int64_t columns = isHalf ? quantBlock / 2 : quantBlock, tiles = cdiv(outputs, columns);
  int64_t parts = canBeParts && !isPaired ? divisor(groups / step, std::clamp<int64_t>(int64_t(std::bit_floor(uint64_t(std::max<int64_t>(4 * cores / tiles, 1)))), 1, mostParts)) : 1;
  // Of four bits two warps have more under way than four.
  bool isNarrow = bm == 16 && bits == 4 && parts > 1;
  int64_t warps = isNarrow ? std::min<int64_t>(step, 2) : isHalf || bm * (isPaired ? 2 : 1) <= 32 ? step : 2 * step;
  return {bm, step, parts, columns, {int32_t(warps), isNarrow || (isHalf && bm == 32) ? 3 : 2}};
}

SampleTiling SampleTiling::of(int64_t rows, int64_t vocab, const Device &d) {
  int64_t n = nextPowerOf2(vocab), blocks = std::min<int64_t>(d.blocksTogether(), std::max<int64_t>(1, n / 4096));
  int64_t each = std::min<int64_t>(n, blocks * 16384), scan = std::min<int64_t>(each, 2048);
  // Rows for which there are not enough multiprocessors at once share them, with half the registers.
  bool isShared = 8 * rows * blocks > 7 * d.cores();
  return {each, scan, each == n, isShared ? 1 : 2, {int32_t(std::clamp<int64_t>(each / blocks / 2048, 4, 16)), 3, false, int32_t(blocks), isShared ? 128 : 0}};
}

} // namespace llm
