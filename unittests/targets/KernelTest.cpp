// Small kernels from text IR to results in memory: the planner and the emitter end to end.
#include "KernelHarness.h"
#include <cmath>
#include <numeric>

using namespace tegula;
using namespace tegula::cpu;
using test::Kernel;

static const char *const addText = R"(
kernel @add(%x: ptr<f32>, %y: ptr<f32>, %o: ptr<f32>, %n: i32) {
  %pid = program_id {axis = 0} : i32
  %b = const {value = 1024} : i32
  %start = mul %pid, %b : i32
  %s = splat %start : tensor<1024xi32>
  %r = range {start = 0} : tensor<1024xi32>
  %off = add %s, %r : tensor<1024xi32>
  %nn = splat %n : tensor<1024xi32>
  %m = cmpi %off, %nn {pred = slt}
  %xp = splat %x : tensor<1024xptr<f32>>
  %xo = addptr %xp, %off : tensor<1024xptr<f32>>
  %xv = load %xo, %m : tensor<1024xf32>
  %yp = splat %y : tensor<1024xptr<f32>>
  %yo = addptr %yp, %off : tensor<1024xptr<f32>>
  %yv = load %yo, %m : tensor<1024xf32>
  %sum = fadd %xv, %yv : tensor<1024xf32>
  %op = splat %o : tensor<1024xptr<f32>>
  %oo = addptr %op, %off : tensor<1024xptr<f32>>
  store %oo, %sum, %m
}
)";

TEST(Kernel, AddWithTailOnEveryTarget) {
  for (const std::string &target : {std::string("cpu:x86-64"), std::string("cpu:avx2"), std::string("cpu:avx512"),
                                    tegula::cpu::test::machineName()}) {
    if (!tegula::cpu::test::runsHere(target))
      continue;
    Kernel k(addText, target);
    for (int n : {0, 1, 1000, 1024, 1025, 5000}) {
      std::vector<float> x(static_cast<size_t>(n)), y(x), o(x.size() + 1, -1.f);
      std::iota(x.begin(), x.end(), 1.f);
      std::iota(y.begin(), y.end(), 1000.f);
      int grid = std::max(1, (n + 1023) / 1024);
      ASSERT_EQ(k.run({x, y, o, n}, grid), 0) << target;
      for (size_t i = 0; i < x.size(); ++i)
        ASSERT_EQ(o[i], x[i] + y[i]) << target << " n=" << n << " i=" << i;
      ASSERT_EQ(o[x.size()], -1.f) << target;
    }
  }
}

static const char *const softmaxText = R"(
kernel @softmax(%x: ptr<f32>, %o: ptr<f32>, %n: i32, %stride: i32) {
  %pid = program_id {axis = 0} : i32
  %row = mul %pid, %stride : i32
  %xr = addptr %x, %row : ptr<f32>
  %or = addptr %o, %row : ptr<f32>
  %r = range {start = 0} : tensor<1024xi32>
  %nn = splat %n : tensor<1024xi32>
  %m = cmpi %r, %nn {pred = slt}
  %xp = splat %xr : tensor<1024xptr<f32>>
  %xo = addptr %xp, %r : tensor<1024xptr<f32>>
  %inf = const {value = -inf} : tensor<1024xf32>
  %v = load %xo, %m, %inf : tensor<1024xf32>
  %max = reduce %v {axis = 0} : f32 (%a: f32, %b: f32) { %c = maxnum %a, %b : f32  yield %c }
  %ms = splat %max : tensor<1024xf32>
  %d = fsub %v, %ms : tensor<1024xf32>
  %e = exp %d : tensor<1024xf32>
  %sum = reduce %e {axis = 0} : f32 (%a: f32, %b: f32) { %c = fadd %a, %b : f32  yield %c }
  %ss = splat %sum : tensor<1024xf32>
  %q = fdiv %e, %ss : tensor<1024xf32>
  %op = splat %or : tensor<1024xptr<f32>>
  %oo = addptr %op, %r : tensor<1024xptr<f32>>
  store %oo, %q, %m
}
)";

TEST(Kernel, Softmax) {
  Kernel k(softmaxText);
  for (int n : {1, 17, 781, 1024}) {
    int rows = 3;
    std::vector<float> x(static_cast<size_t>(rows * n)), o(x.size(), -1.f);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = std::sin(static_cast<float>(i)) * 5;
    ASSERT_EQ(k.run({x, o, n, n}, rows), 0);
    for (int r = 0; r < rows; ++r) {
      double max = -1e30, sum = 0;
      for (int i = 0; i < n; ++i)
        max = std::max<double>(max, x[static_cast<size_t>(r * n + i)]);
      for (int i = 0; i < n; ++i)
        sum += std::exp(x[static_cast<size_t>(r * n + i)] - max);
      for (int i = 0; i < n; ++i)
        ASSERT_NEAR(o[static_cast<size_t>(r * n + i)], std::exp(x[static_cast<size_t>(r * n + i)] - max) / sum, 1e-6);
    }
  }
}

// 2-D tile, both reductions, transposed store.
TEST(Kernel, ReduceBothAxesAndTranspose) {
  Kernel k(R"(
kernel @k(%x: ptr<f32>, %rows: ptr<f32>, %cols: ptr<f32>, %t: ptr<f32>) {
  %i = range {start = 0} : tensor<8xi32>
  %j = range {start = 0} : tensor<64xi32>
  %i1 = expand_dims %i {axis = 1} : tensor<8x1xi32>
  %j1 = expand_dims %j {axis = 0} : tensor<1x64xi32>
  %w = const {value = 64} : tensor<8x1xi32>
  %iw = mul %i1, %w : tensor<8x1xi32>
  %ib = broadcast %iw : tensor<8x64xi32>
  %jb = broadcast %j1 : tensor<8x64xi32>
  %off = add %ib, %jb : tensor<8x64xi32>
  %p = splat %x : tensor<8x64xptr<f32>>
  %a = addptr %p, %off : tensor<8x64xptr<f32>>
  %v = load %a : tensor<8x64xf32>
  %r = reduce %v {axis = 1} : tensor<8xf32> (%a1: f32, %b1: f32) { %c = fadd %a1, %b1 : f32  yield %c }
  %c = reduce %v {axis = 0} : tensor<64xf32> (%a2: f32, %b2: f32) { %c = fadd %a2, %b2 : f32  yield %c }
  %rp = splat %rows : tensor<8xptr<f32>>
  %ra = addptr %rp, %i : tensor<8xptr<f32>>
  store %ra, %r
  %cp = splat %cols : tensor<64xptr<f32>>
  %ca = addptr %cp, %j : tensor<64xptr<f32>>
  store %ca, %c
  %vt = permute %v {perm = [1, 0]} : tensor<64x8xf32>
  %j2 = expand_dims %j {axis = 1} : tensor<64x1xi32>
  %i2 = expand_dims %i {axis = 0} : tensor<1x8xi32>
  %e8 = const {value = 8} : tensor<64x1xi32>
  %je = mul %j2, %e8 : tensor<64x1xi32>
  %jeb = broadcast %je : tensor<64x8xi32>
  %i2b = broadcast %i2 : tensor<64x8xi32>
  %to = add %jeb, %i2b : tensor<64x8xi32>
  %tp = splat %t : tensor<64x8xptr<f32>>
  %ta = addptr %tp, %to : tensor<64x8xptr<f32>>
  store %ta, %vt
}
)");
  std::vector<float> x(512), rows(8), cols(64), t(512);
  for (size_t i = 0; i < 512; ++i)
    x[i] = static_cast<float>(i * 7 % 100);
  ASSERT_EQ(k.run({x, rows, cols, t}), 0);
  for (size_t i = 0; i < 8; ++i) {
    float s = 0;
    for (size_t j = 0; j < 64; ++j)
      s += x[i * 64 + j];
    EXPECT_EQ(rows[i], s);
  }
  for (size_t j = 0; j < 64; ++j) {
    float s = 0;
    for (size_t i = 0; i < 8; ++i) {
      s += x[i * 64 + j];
      ASSERT_EQ(t[j * 8 + i], x[i * 64 + j]);
    }
    EXPECT_EQ(cols[j], s);
  }
}

static std::string tile2d(const std::string &name, const std::string &base, int m, int n, const std::string &rowStart,
                          const std::string &colStart, const std::string &stride) {
  std::string s = std::to_string(m) + "x" + std::to_string(n), t = "tensor<" + s + "xi32>", r = "%" + name;
  std::string mm = std::to_string(m), nn = std::to_string(n);
  return r + "ri = range {start = 0} : tensor<" + mm + "xi32>\n" + r + "rs = splat " + rowStart + " : tensor<" + mm +
         "xi32>\n" + r + "rr = add " + r + "ri, " + r + "rs\n" + r + "ci = range {start = 0} : tensor<" + nn +
         "xi32>\n" + r + "cs = splat " + colStart + " : tensor<" + nn + "xi32>\n" + r + "cc = add " + r + "ci, " + r +
         "cs\n" + r + "re = expand_dims " + r + "rr {axis = 1} : tensor<" + mm + "x1xi32>\n" + r + "st = splat " +
         stride + " : tensor<" + mm + "x1xi32>\n" + r + "rm = mul " + r + "re, " + r + "st\n" + r + "rb = broadcast " +
         r + "rm : " + t + "\n" + r + "ce = expand_dims " + r + "cc {axis = 0} : tensor<1x" + nn + "xi32>\n" + r +
         "cb = broadcast " + r + "ce : " + t + "\n" + r + "o = add " + r + "rb, " + r + "cb\n" + r + "ps = splat " +
         base + " : tensor<" + s + "xptr<f32>>\n" + r + "p = addptr " + r + "ps, " + r + "o\n";
}

TEST(Kernel, MatmulWithLoopCarriedAccumulator) {
  std::string text = "kernel @mm(%a: ptr<f32>, %b: ptr<f32>, %c: ptr<f32>, %k: i32, %lda: i32, %ldb: i32) {\n"
                     "%zero = const {value = 0} : i32\n%step = const {value = 32} : i32\n"
                     "%px = program_id {axis = 0} : i32\n%py = program_id {axis = 1} : i32\n"
                     "%m0 = mul %px, %step\n%sixty4 = const {value = 64} : i32\n%n0 = mul %py, %sixty4\n"
                     "%acc0 = const {value = 0.0} : tensor<32x64xf32>\n"
                     "%r = for %zero, %k, %step, %acc0 : tensor<32x64xf32> (%i: i32, %acc: tensor<32x64xf32>) {\n" +
                     tile2d("A", "%a", 32, 32, "%m0", "%i", "%lda") + tile2d("B", "%b", 32, 64, "%i", "%n0", "%ldb") +
                     "%av = load %Ap : tensor<32x32xf32>\n%bv = load %Bp : tensor<32x64xf32>\n"
                     "%d = dot %av, %bv, %acc {precision = \"ieee\"} : tensor<32x64xf32>\nyield %d\n}\n" +
                     tile2d("C", "%c", 32, 64, "%m0", "%n0", "%ldb") + "store %Cp, %r\n}\n";
  Kernel k(text);
  int m = 64, n = 128, kk = 96;
  std::vector<float> a(static_cast<size_t>(m * kk)), b(static_cast<size_t>(kk * n)), c(static_cast<size_t>(m * n));
  for (size_t i = 0; i < a.size(); ++i)
    a[i] = static_cast<float>(i * 13 % 17) - 8;
  for (size_t i = 0; i < b.size(); ++i)
    b[i] = static_cast<float>(i * 5 % 23) - 11;
  ASSERT_EQ(k.run({a, b, c, kk, kk, n}, m / 32, n / 64), 0);
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      float s = 0;
      for (int l = 0; l < kk; ++l)
        s += a[static_cast<size_t>(i * kk + l)] * b[static_cast<size_t>(l * n + j)];
      ASSERT_EQ(c[static_cast<size_t>(i * n + j)], s) << i << "," << j;
    }
}

// Lines of the source in the object; names of scalars too.
TEST(Kernel, DebugInfoNamesFileAndLines) {
  Options debug;
  debug.debugInfo = true;
  Kernel k(addText, tegula::cpu::test::machineName(), debug);
  ASSERT_TRUE(k.entry) << k.error;
  std::vector<float> x(10, 1), y(10, 2), o(10);
  ASSERT_EQ(k.run({x, y, o, 10}), 0);
  EXPECT_EQ(o[9], 3);
  std::string object(k.compiled.code.begin(), k.compiled.code.end());
  for (const char *section : {".debug_line", ".debug_info"})
    EXPECT_NE(object.find(section), std::string::npos);
  EXPECT_NE(object.find("test.ir"), std::string::npos);
}

// A breakpoint on a line that uses a scalar prints the scalar: no instruction of the line comes before the store of the
// variable, whatever the scheduling model of the CPU prefers.
TEST(Kernel, LinesThatUseAVariableComeAfterItsStore) {
  const char *text =
      "kernel @scale(%x: ptr<f32>, %n: i32) {\n"
      "%pid = program_id {axis = 0} : i32\n%c = const {value = 64} : i32\n"
      "%start = mul %pid, %c : i32\n"
      "%p = addptr %x, %start : ptr<f32>\n"
      "%s = splat %p : tensor<64xptr<f32>>\n%r = range {start = 0} : tensor<64xi32>\n%q = addptr %s, %r : tensor<64xptr<f32>>\n"
      "%rest = sub %n, %start : i32\n%rs = splat %rest : tensor<64xi32>\n%m = cmpi %r, %rs {pred = slt}\n"
      "%v = load %q, %m : tensor<64xf32>\n%w = fadd %v, %v : tensor<64xf32>\nstore %q, %w, %m\n}\n";
  for (const char *cpu : {"haswell", "skylake-avx512", "znver1", "znver3", "znver4"}) {
    CpuTarget target = *parseTarget("cpu:avx2");
    target.cpu = cpu;
    Options debug;
    debug.debugInfo = true;
    std::string code = test::stage(text, target, Stage::Asm, debug);
    size_t defined = code.rfind(".loc\t0 4 ");
    ASSERT_NE(defined, std::string::npos) << cpu << "\n" << code;
    for (const char *use : {".loc\t0 5 ", ".loc\t0 9 "}) {
      ASSERT_NE(code.find(use), std::string::npos) << cpu << use;
      EXPECT_GT(code.find(use), defined) << cpu << ": line" << use + 6 << "begins before line 4 is over";
    }
  }
}
