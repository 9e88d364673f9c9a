// Random kernels mean the same after each pass of the GPU level: compiled from there on with what lowering cannot do
// without, they leave in the simulator the memory that the reference interpreter leaves of their tile IR. And so they
// do if a pass is the only one beside those.
//
// Loops with dots, as those passes are about: operands by pointers or descriptors, masked, transposed; one dot, or two
// of which one needs the other's result; a loop over tiles around, or none. Small integers in all types, so that every
// sum is exact. GpuKernelTest.cpp has kernels without dots.
#include "ParsedIr.h"
#include "SimKernel.h"
#include "ir/Clone.h"
#include "ir/Interp.h"
#include "ir/Scalar.h"
#include <functional>
#include <set>
#include <utility>

using namespace tegula;
using namespace tegula::ir;

namespace {

class RandomLoop {
public:
  explicit RandomLoop(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 99) {
    byDescriptor = random(2);
    twoDots = random(5) < 2;
    overTiles = !twoDots && random(3) == 0;
    transposed = !byDescriptor && random(2);
    masked = !byDescriptor && random(2);
    warps = random(2) ? 4 : 1u << random(4); // four have instructions that others have not
    m = warps >= 4 ? 64 : 16 << random(3);
    n = 16 << random(3);
    k = 16 << random(3);
    if (twoDots)
      n = k = 64;
    trips = 1 + static_cast<int>(random(4));
    stages = random(4) ? 2 + static_cast<int>(random(3)) : 1;
    asks = byDescriptor && random(2);
    tiles = overTiles ? 2 : 1;
    depth = k * trips - (masked ? 8 : 0);
    splats = random(3) != 0;
  }

  /// Matrices a[tiles * m][depth], b[depth][n] (or transposed), c[tiles * m][n]; with two dots a[m][64], b[depth][64],
  /// c[m][64].
  std::string text() {
    if (twoDots)
      return attention();
    head();
    line("%mc = const {value = " + std::to_string(tiles * m) + "} : i32");
    line("%nc = const {value = " + std::to_string(n) + "} : i32");
    if (overTiles)
      line("for %lb, %tiles, %one (%t: i32) {");
    else
      line("%t = const {value = 0} : i32");
    line("%mh = const {value = " + std::to_string(m) + "} : i32");
    line("%m0 = mul %t, %mh : i32");
    line("%r = for %lb, %depth, %step, %zero {num_stages = " + std::to_string(stages) +
         (asks ? ", warp_specialize = 1" : "") + "} : " + tensor(m, n, "f32") +
         " (%i: i32, %acc: " + tensor(m, n, "f32") + ") {");
    if (byDescriptor) {
      line("%x = desc_load %a, %mc, %depth, %dl, %one64, %m0, %i : " + tensor(m, k, "f16"));
      line("%y = desc_load %b, %depth, %nc, %nl, %one64, %i, %lb : " + tensor(k, n, "f16"));
    } else {
      load("x", "a", m, k, "%m0", "%i", "%depth", "1", false, true);
      load("y", "b", k, n, "%i", "%lb", transposed ? "1" : std::to_string(n), transposed ? "%depth" : "1", true, false);
    }
    line("%d = dot %x, %y, %acc : " + tensor(m, n, "f32"));
    line("yield %d");
    line("}");
    store("r", n);
    if (overTiles)
      line("yield\n}");
    line("return\n}");
    return text_;
  }

  // splats: strides are scalars in every element, which addresses may be taken apart by
  bool byDescriptor, twoDots, overTiles, transposed, masked, asks, splats;
  unsigned warps;
  int m, n, k, trips, stages, tiles, depth;

private:
  uint32_t random(uint32_t below) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state_ >> 33) % below;
  }
  void line(const std::string &s) { text_ += s + "\n"; }
  static std::string tensor(int r, int s, const std::string &e) {
    return "tensor<" + std::to_string(r) + "x" + std::to_string(s) + "x" + e + ">";
  }

  void head() {
    line(
        "kernel @k(%a: ptr<f16> {divisibility = 16}, %b: ptr<f16> {divisibility = 16}, %c: ptr<f32> {divisibility = 16}, %depth: i32 {divisibility = " +
        std::to_string(masked ? 8 : 16) + "}) {");
    line("%lb = const {value = 0} : i32\n%one = const {value = 1} : i32\n%one64 = const {value = 1} : i64");
    line("%tiles = const {value = " + std::to_string(tiles) + "} : i32");
    line("%step = const {value = " + std::to_string(k) + "} : i32");
    line("%nl = const {value = " + std::to_string(n) + "} : i64\n%dl = sext %depth : i64");
    line("%zero = const {value = 0} : " + tensor(m, n, "f32"));
  }

  /// %v = the r x s elements from row0 and column0 on; strides are numbers or values. The rows or columns that lie
  /// beyond %depth are masked.
  void load(const std::string &v, const std::string &base, int r, int s, const std::string &row0,
            const std::string &column0, std::string rowStride, std::string columnStride, bool masksRows,
            bool masksColumns) {
    const std::string p = "%" + v + "_";
    auto axis = [&](const std::string &name, int extent, int at, const std::string &from, const std::string &stride,
                    bool masks) {
      std::string one = "tensor<" + std::to_string(extent) + "xi32>",
                  wide = at ? tensor(extent, 1, "i32") : tensor(1, extent, "i32");
      line(p + name + "r = range {start = 0} : " + one);
      line(p + name + "f = splat " + from + " : " + one);
      line(p + name + "i = add " + p + name + "r, " + p + name + "f");
      if (masks && masked) {
        line(p + name + "e = splat %depth : " + one);
        line(p + name + "m1 = cmpi " + p + name + "i, " + p + name + "e {pred = slt} : tensor<" +
             std::to_string(extent) + "xi1>");
        line(p + name + "m2 = expand_dims " + p + name + "m1 {axis = " + std::to_string(at) +
             "} : " + (at ? tensor(extent, 1, "i1") : tensor(1, extent, "i1")));
        line(p + "m = broadcast " + p + name + "m2 : " + tensor(r, s, "i1"));
      }
      line(p + name + "w = expand_dims " + p + name + "i {axis = " + std::to_string(at) + "} : " + wide);
      line(p + name + "b = broadcast " + p + name + "w : " + tensor(r, s, "i32"));
      if (stride[0] != '%' && splats)
        line(p + name + "n = const {value = " + stride + "} : i32");
      line(p + name + "s = " +
           (stride[0] == '%' ? "splat " + stride
            : splats         ? "splat " + p + name + "n"
                             : "const {value = " + stride + "}") +
           " : " + tensor(r, s, "i32"));
      line(p + name + "o = mul " + p + name + "b, " + p + name + "s");
    };
    axis("r", r, 1, row0, rowStride, masksRows);
    axis("c", s, 0, column0, columnStride, masksColumns);
    line(p + "o = add " + p + "ro, " + p + "co");
    line(p + "p = splat %" + base + " : " + tensor(r, s, "ptr<f16>"));
    line(p + "a = addptr " + p + "p, " + p + "o");
    if (!masked)
      return line("%" + v + " = load " + p + "a : " + tensor(r, s, "f16"));
    line(p + "z = const {value = 0} : " + tensor(r, s, "f16"));
    line("%" + v + " = load " + p + "a, " + p + "m, " + p + "z : " + tensor(r, s, "f16"));
  }

  void store(const std::string &v, int columns) {
    line("%s_r = range {start = 0} : tensor<" + std::to_string(m) + "xi32>\n%s_0 = splat %m0 : tensor<" +
         std::to_string(m) + "xi32>\n%s_i = add %s_r, %s_0");
    line("%s_c = range {start = 0} : tensor<" + std::to_string(columns) + "xi32>");
    line("%s_rw = expand_dims %s_i {axis = 1} : " + tensor(m, 1, "i32") +
         "\n%s_cw = expand_dims %s_c {axis = 0} : " + tensor(1, columns, "i32"));
    line("%s_rb = broadcast %s_rw : " + tensor(m, columns, "i32") +
         "\n%s_cb = broadcast %s_cw : " + tensor(m, columns, "i32"));
    line("%s_n = const {value = " + std::to_string(columns) + "} : " + tensor(m, columns, "i32") +
         "\n%s_ro = mul %s_rb, %s_n\n%s_o = add %s_ro, %s_cb");
    line("%s_p = splat %c : " + tensor(m, columns, "ptr<f32>") + "\n%s_a = addptr %s_p, %s_o\nstore %s_a, %" + v);
  }

  std::string attention() {
    head();
    line("%t = const {value = 0} : i32\n%m0 = const {value = 0} : i32\n%sixty = const {value = 64} : i32");
    const bool masks = std::exchange(masked, false);
    load("q", "a", m, 64, "%lb", "%lb", "64", "1", false, false);
    masked = masks;
    line("%r = for %lb, %depth, %step, %zero {num_stages = " + std::to_string(stages) +
         (asks ? ", warp_specialize = 1" : "") + "} : " + tensor(m, 64, "f32") +
         " (%i: i32, %acc: " + tensor(m, 64, "f32") + ") {");
    if (byDescriptor) {
      line("%v = desc_load %b, %depth, %sixty, %nl, %one64, %i, %lb : " + tensor(64, 64, "f16"));
      line("%w = desc_load %b, %depth, %sixty, %nl, %one64, %i, %lb : " + tensor(64, 64, "f16"));
    } else {
      load("v", "b", 64, 64, "%i", "%lb", "64", "1", true, false);
      load("w", "b", 64, 64, "%i", "%lb", "64", "1", true, false);
    }
    line("%kt = permute %w {perm = [1, 0]} : " + tensor(64, 64, "f16"));
    line("%score = dot %q, %kt, %zero : " + tensor(m, 64, "f32"));
    line("%half = const {value = 0.5} : " + tensor(m, 64, "f32") +
         "\n%less = fmul %score, %half\n%down = floor %less\n%p = fptrunc %down : " + tensor(m, 64, "f16"));
    line("%d = dot %p, %v, %acc : " + tensor(m, 64, "f32"));
    line("yield %d\n}");
    store("r", 64);
    line("return\n}");
    return text_;
  }

  uint64_t state_;
  std::string text_;
};

struct Matrices {
  std::vector<uint16_t> a, b;
  std::vector<float> c;
  explicit Matrices(const RandomLoop &l)
      : a(static_cast<size_t>(l.tiles * l.m * std::max(l.depth, 64))),
        b(static_cast<size_t>(std::max(l.depth, 64) * std::max(l.n, 64))),
        c(static_cast<size_t>(l.tiles * l.m * std::max(l.n, 64)), -1) {
    for (size_t i = 0; i < a.size(); ++i)
      a[i] = half(static_cast<int>(i * 7 % 5) - 2);
    for (size_t i = 0; i < b.size(); ++i)
      b[i] = half(static_cast<int>(i * 11 % 3) - 1);
  }
  static uint16_t half(int v) { return static_cast<uint16_t>(encodeFloat(Elem::F16, v)); }
};

/// Passes that lowering cannot do without.
bool isNeeded(std::string_view pass) {
  return pass == "assign-layouts" || pass == "copy-loads" || pass == "remove-dead" || pass == "allocate-shared" ||
         pass == "order-memory";
}

/// Runs those passes for which `runs` says so, and then the kernel; what is wrong with the memory that it leaves.
/// `effective` gets the passes that change something, `seen` the texts that have been run.
std::string differenceAfter(const Module &tile, const RandomLoop &loop, const std::vector<float> &want,
                            std::set<std::string> &seen, std::set<std::string> &effective,
                            const std::function<bool(size_t)> &runs) {
  const nvidia::NvTarget target = *nvidia::parseTarget("sim");
  gpu::Options options{.numWarps = loop.warps};
  auto m = ir::clone(tile);
  for (size_t i = 0; i < gpu::gpuPasses().size(); ++i)
    if (const gpu::GpuPass &pass = gpu::gpuPasses()[i]; runs(i) || isNeeded(pass.name))
      if (std::string before = ir::print(*m);
          pass.run(m, {nvidia::NvTargetInfo(target), options, nullptr}), ir::print(*m) != before)
        effective.insert(pass.name);
  if (!seen.insert(ir::print(*m)).second)
    return ""; // the pass changed nothing
  test::SimKernel k(std::move(m), loop.warps);
  if (!k.entry)
    return "no code: " + k.error;
  Matrices got(loop);
  const uint64_t args[] = {reinterpret_cast<uint64_t>(got.a.data()), reinterpret_cast<uint64_t>(got.b.data()),
                           reinterpret_cast<uint64_t>(got.c.data()), static_cast<uint64_t>(loop.depth)};
  const sim::Extent buffers[] = {{args[0], 2 * got.a.size()}, {args[1], 2 * got.b.size()}, {args[2], 4 * got.c.size()}};
  sim::Report r = k.run(args, buffers);
  if (r.fault)
    return r.fault.text;
  return got.c == want ? "" : "another result";
}

TEST(GpuPasses, RandomLoopsMeanTheSameAfterEachPass) {
  uint64_t first = 0, count = 12;
  if (const char *s = std::getenv("TEGULA_RANDOM_SEED"))
    first = std::strtoull(s, nullptr, 10), count = 1;
  std::set<std::string> effective;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    RandomLoop loop(seed);
    const std::string text = loop.text();
    std::unique_ptr<Module> m = test::parsed(text);
    ASSERT_TRUE(m);
    Matrices reference(loop);
    Interp interp(*m);
    interp.addBuffer(reference.a.data(), 2 * reference.a.size());
    interp.addBuffer(reference.b.data(), 2 * reference.b.size());
    interp.addBuffer(reference.c.data(), 4 * reference.c.size());
    const uint64_t args[] = {reinterpret_cast<uint64_t>(reference.a.data()),
                             reinterpret_cast<uint64_t>(reference.b.data()),
                             reinterpret_cast<uint64_t>(reference.c.data()), static_cast<uint64_t>(loop.depth)};
    auto done = interp.run(args, {1, 1, 1});
    ASSERT_TRUE(done.ok) << "seed " << seed << ": " << done.fault << "\n" << text;
    std::set<std::string> seen;
    for (size_t i = 0; i < gpu::gpuPasses().size(); ++i) {
      const std::string where = "seed " + std::to_string(seed) + ", pass " + gpu::gpuPasses()[i].name;
      ASSERT_EQ(differenceAfter(*m, loop, reference.c, seen, effective, [&](size_t n) { return n <= i; }), "")
          << where << " and those before it\n"
          << text;
      ASSERT_EQ(differenceAfter(*m, loop, reference.c, seen, effective, [&](size_t n) { return n == i; }), "")
          << where << " alone\n"
          << text;
    }
  }
  if (count > 1) // the draws reach what they are for
    for (const char *pass : {"assign-layouts", "hoist-addresses", "rotate-dots", "specialize-warps", "pipeline-loops",
                             "prefetch-loads", "copy-loads"})
      EXPECT_TRUE(effective.contains(pass)) << pass;
}

} // namespace
