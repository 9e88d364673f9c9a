// Long expressions: how much of one a nest computes, and that the pieces compute the same.
#include "KernelHarness.h"
#include "targets/cpu/plan/Materialize.h"
#include <numeric>

using namespace tegula;
using namespace tegula::cpu;
using test::Kernel;

namespace {

constexpr int elements = 64;

/// x[i] is replaced by x[i] - x[i + step] `steps` times. With `integers`, the same is done to the offset of one load
/// instead: a linear form, however long.
std::string chainText(int steps, bool integers) {
  std::string text = R"(
kernel @chain(%x: ptr<f32>, %o: ptr<f32>, %step: i32) {
  %i = range {start = 0} : tensor<64xi32>
  %s = splat %step : tensor<64xi32>
  %xp = splat %x : tensor<64xptr<f32>>
  %op = splat %o : tensor<64xptr<f32>>
  %oo = addptr %op, %i : tensor<64xptr<f32>>
  %x0 = addptr %xp, %i : tensor<64xptr<f32>>
  %v0 = load %x0 : tensor<64xf32>
  %at = add %i, %s : tensor<64xi32>
  %xw = addptr %xp, %at : tensor<64xptr<f32>>
  %w = load %xw : tensor<64xf32>
  %i0 = add %i, %s : tensor<64xi32>
)";
  for (int k = 0; k < steps; ++k) {
    std::string from = std::to_string(k), to = std::to_string(k + 1);
    text += integers ? "  %i" + to + " = add %i" + from + ", %s : tensor<64xi32>\n"
                     : "  %v" + to + " = fsub %v" + from + ", %w : tensor<64xf32>\n";
  }
  std::string last = std::to_string(steps);
  if (integers)
    text += "  %p = addptr %xp, %i" + last +
            " : tensor<64xptr<f32>>\n  %r = load %p : tensor<64xf32>\n  store %oo, %r\n}\n";
  else
    text += "  store %oo, %v" + last + "\n}\n";
  return text;
}

size_t nestsOf(const std::string &text) {
  std::string plan = test::stage(text, *parseTarget("cpu:x86-64"), Stage::Plan);
  size_t nests = 0;
  for (size_t at = 0; (at = plan.find("\n  nest ", at)) != std::string::npos; ++at)
    ++nests;
  return nests;
}

// One nest for all of them took LLVM quadratic time: its loop is one block.
TEST(Materialize, LongExpressionsAreCut) {
  constexpr int limit = Materialization::longestChain;
  EXPECT_EQ(nestsOf(chainText(limit / 2, false)), 1u);
  EXPECT_EQ(nestsOf(chainText(2 * limit, false)), 3u);
  EXPECT_EQ(nestsOf(chainText(20 * limit, false)), 21u);
  EXPECT_EQ(nestsOf(chainText(20 * limit, true)), 1u);
}

TEST(Materialize, PiecesComputeTheSame) {
  for (int steps : {3, 1000}) {
    Kernel k(chainText(steps, false));
    std::vector<float> x(2 * elements), out(elements);
    std::iota(x.begin(), x.end(), 1.0f);
    ASSERT_EQ(k.run({x, out, elements / 2}), 0) << k.error;
    for (size_t i = 0; i < elements; ++i)
      EXPECT_EQ(out[i], x[i] - static_cast<float>(steps) * x[i + elements / 2]);
  }
}

/// out[r, c] = x[r, c] * w[c * stride], or with w[r * stride] if `column`.
std::string rowTimes(int stride, bool column) {
  const std::string axis = column ? "1" : "0", shape = column ? "64x1" : "1x64";
  return R"(
kernel @rows(%x: ptr<f32>, %w: ptr<f32>, %o: ptr<f32>) {
  %i = range {start = 0} : tensor<64xi32>
  %s = const {value = )" + std::to_string(stride) + R"(} : tensor<64xi32>
  %is = mul %i, %s : tensor<64xi32>
  %wp = splat %w : tensor<64xptr<f32>>
  %wa = addptr %wp, )" + (stride == 1 ? "%i" : "%is") + R"( : tensor<64xptr<f32>>
  %wv = load %wa : tensor<64xf32>
  %we = expand_dims %wv {axis = )" + axis + R"(} : tensor<)" + shape + R"(xf32>
  %wb = broadcast %we : tensor<64x64xf32>
  %sixty4 = const {value = 64} : tensor<64xi32>
  %im = mul %i, %sixty4 : tensor<64xi32>
  %r = expand_dims %im {axis = 1} : tensor<64x1xi32>
  %rb = broadcast %r : tensor<64x64xi32>
  %c = expand_dims %i {axis = 0} : tensor<1x64xi32>
  %cb = broadcast %c : tensor<64x64xi32>
  %at = add %rb, %cb : tensor<64x64xi32>
  %xp = splat %x : tensor<64x64xptr<f32>>
  %xa = addptr %xp, %at : tensor<64x64xptr<f32>>
  %v = load %xa : tensor<64x64xf32>
  %y = fmul %v, %wb : tensor<64x64xf32>
  %op = splat %o : tensor<64x64xptr<f32>>
  %oa = addptr %op, %at : tensor<64x64xptr<f32>>
  store %oa, %y
}
)";
}

// Weights that lie apart are gathered once for a tile, not once for each of its rows.
TEST(Materialize, ScatteredRowsAreGatheredOnce) {
  EXPECT_EQ(nestsOf(rowTimes(4, false)), 2u);
  EXPECT_EQ(nestsOf(rowTimes(1, false)), 1u);
  EXPECT_EQ(nestsOf(rowTimes(4, true)), 1u); // one number a row
  for (bool column : {false, true}) {
    Kernel k(rowTimes(4, column));
    std::vector<float> x(4096), w(256), out(4096);
    std::iota(x.begin(), x.end(), 1.0f), std::iota(w.begin(), w.end(), 1.0f);
    ASSERT_EQ(k.run({x, w, out}), 0) << k.error;
    for (size_t i = 0; i < 4096; ++i)
      ASSERT_EQ(out[i], x[i] * w[4 * (column ? i / 64 : i % 64)]);
  }
}

/// x += y, both loaded by this text's operations; the sum, or (`apart`) its two parts, is asked for again after the
/// store.
std::string residualText(bool apart) {
  std::string text = R"(
kernel @residual(%x: ptr<f32>, %y: ptr<f32>, %o: ptr<f32>) {
  %i = range {start = 0} : tensor<64xi32>
  %xp = splat %x : tensor<64xptr<f32>>
  %yp = splat %y : tensor<64xptr<f32>>
  %op = splat %o : tensor<64xptr<f32>>
  %xa = addptr %xp, %i : tensor<64xptr<f32>>
  %ya = addptr %yp, %i : tensor<64xptr<f32>>
  %oa = addptr %op, %i : tensor<64xptr<f32>>
  %a = load %xa : tensor<64xf32>
  %b = load %ya : tensor<64xf32>
  %v = fadd %a, %b : tensor<64xf32>
  store %xa, %v
)";
  return text +
         (apart ? "  %d = fsub %a, %b : tensor<64xf32>\n  %w = fmul %d, %d : tensor<64xf32>\n"
                : "  %w = fmul %v, %v : tensor<64xf32>\n") +
         "  store %oa, %w\n}\n";
}

// A norm with the residual's addition fused: with both loads in buffers a row of 2048 was half as large again as the L1
// cache.
TEST(Materialize, OneBufferForASumOfLoads) {
  auto buffers = [](bool apart) {
    std::string plan = test::stage(residualText(apart), *parseTarget("cpu:x86-64"), Stage::Plan);
    return std::pair(plan.find("buffer 0") != plan.npos, plan.find("buffer 1") != plan.npos);
  };
  EXPECT_EQ(buffers(false), std::pair(true, false));
  EXPECT_EQ(buffers(true), std::pair(true, true)); // each of them is asked for by itself
  for (bool apart : {false, true}) {
    Kernel k(residualText(apart));
    std::vector<float> x(elements), y(elements), out(elements);
    std::iota(x.begin(), x.end(), 1.0f);
    std::iota(y.begin(), y.end(), -20.0f);
    ASSERT_EQ(k.run({x, y, out}), 0) << k.error;
    for (size_t i = 0; i < elements; ++i) {
      float a = static_cast<float>(i) + 1, b = static_cast<float>(i) - 20, w = apart ? a - b : a + b;
      EXPECT_EQ(x[i], a + b);
      EXPECT_EQ(out[i], w * w);
    }
  }
}

} // namespace
