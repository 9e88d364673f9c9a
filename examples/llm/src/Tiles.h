// Tiles of products and of sampling on GPUs, as measured for the products of an 8B decoder on H200s (docs/llm.md, bench/llm_gpu.py).
#pragma once
#include "Device.h"
#include "Kernels.h"
#include <algorithm>

namespace llm {

/// What becomes of a product: it is stored as it is, added to the residual stream, or has gates and ups, of which silu(gate) * up is stored.
enum class Product { Plain, Added, Paired };

/// Of tiled_matmul (matmul.py): tiles of `bm` rows and `bn` + `more` outputs (pairs of them where there are gates and ups), `bk` inputs at a time, `lines` lines of tiles at a time.
struct Tiling {
  int64_t bm, bn, bk, lines;
  Launch how;
  int64_t parts = 1; // results, of programs that share the inputs of a tile; the norm behind the product adds them to the stream. 0: the product adds to the stream itself
  int64_t ahead = 0; // inputs whose weights are prefetched to L2 before the kernel waits for the one in front of it
  int64_t more = 0;  // outputs beside bn, for widths that are no power of two
  int64_t low = 0;   // rows below bm, likewise, where there are outputs beside bn

  static Tiling of(int64_t rows, int64_t outputs, int64_t inputs, Product product, int64_t cores);
  /// Rows of all parts of a product that is added, in a step of `rows` rows or of fewer.
  static int64_t mostPartRows(int64_t rows, int64_t outputs, int64_t inputs, int64_t cores);
  int64_t linesOf(int64_t rows) const { return cdiv(rows, bm + low) * (bm + low); }
  int64_t tilesOf(int64_t rows, int64_t outputs) const { return cdiv(rows, bm + low) * cdiv(outputs, bn + more); }
  /// Programs that a multiprocessor has shared memory for.
  int64_t held() const { return std::max<int64_t>(1, 232448 / ((bm + low + bn + more) * bk * 2 * how.stages)); }
  bool operator==(const Tiling &) const = default;
};

/// Of gemv_fused (matmul.py), a product of one row: `bn` outputs of `ahead` times `bk` inputs at a time.
struct RowTiling {
  int64_t bn, bk, ahead;
  Launch how;

  static RowTiling of(int64_t outputs, int64_t inputs, Product product);
};

/// Of shared_matmul (quantized.py), a product of some rows with quantized weights: a warp has a group of inputs at a time.
struct SharedTiling {
  static constexpr int64_t mostRows = 64, mostParts = 4; // with more rows, weights are dequantized before the product

  int64_t bm, step, parts, columns; // `columns`: outputs of a program, a block of the layout or half of one
  Launch how;

  /// `canBeParts`: the kernel behind it adds parts.
  static SharedTiling of(int64_t rows, int64_t outputs, int64_t inputs, int bits, bool isPaired, bool canBeParts, int64_t cores);
  bool operator==(const SharedTiling &) const = default;
};

/// Of `sample` (sampling.py): a program has a row, and goes over it many times: with many threads, of several blocks where they can share it, and in their registers where it fits.
struct SampleTiling {
  int64_t each, scan; // tokens of which it looks for weights, and makes running sums, at a time
  bool whole;
  int64_t cuts; // places that it asks for in one pass
  Launch how;

  static SampleTiling of(int64_t rows, int64_t vocab, const Device &device);
  bool operator==(const SampleTiling &) const = default;
};

/// The largest power of two that divides n, `most` at most.
inline int64_t divisor(int64_t n, int64_t most) { return std::min(n & -n, most); }

} // namespace llm
