// Kernels compiled for the GPU and executed by the simulator: the same memory as the reference interpreter, no fault.
#include "ParsedIr.h"
#include "RandomKernel.h"
#include "SimKernel.h"
#include "ir/Interp.h"
#include "ir/Scalar.h"
#include "ir/Text.h"
#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>
#include <numeric>

using namespace tegula;
using namespace tegula::ir;
using tegula::test::elements;
using tegula::test::RandomKernel;
using tegula::test::SimKernel;

namespace {

struct Memory {
  std::vector<int32_t> a, o;
  explicit Memory(uint64_t seed) : a(elements), o(elements) {
    for (size_t i = 0; i < elements; ++i) {
      a[i] = static_cast<int32_t>(i * i * 31 + seed) % 300;
      o[i] = static_cast<int32_t>(i);
    }
  }
  std::array<uint64_t, 4> args(uint64_t seed) {
    return {reinterpret_cast<uint64_t>(a.data()), reinterpret_cast<uint64_t>(o.data()), 100 + seed % 120, 3};
  }
};

} // namespace

TEST(GpuKernels, RandomKernelsGiveTheSameMemoryAsTheInterpreter) {
  uint64_t first = 0, count = 60;
  if (const char *s = std::getenv("TEGULA_RANDOM_SEED"))
    first = std::strtoull(s, nullptr, 10), count = 1;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    Module m;
    RandomKernel generate(m, seed);
    SCOPED_TRACE("seed " + std::to_string(seed));
    Memory want(seed), got(seed);
    Interp interp(m);
    interp.addBuffer(want.a.data(), elements * 4);
    interp.addBuffer(want.o.data(), elements * 4);
    ASSERT_TRUE(interp.run(want.args(seed), {1, 1, 1}).ok);
    SimKernel k(m, 1u << seed % 4);
    ASSERT_TRUE(k.entry) << k.error;
    sim::Extent buffers[] = {{reinterpret_cast<uint64_t>(got.a.data()), elements * 4},
                             {reinterpret_cast<uint64_t>(got.o.data()), elements * 4}};
    sim::Report r = k.run(got.args(seed), buffers);
    ASSERT_FALSE(r.fault) << r.fault.text;
    ASSERT_EQ(got.a, want.a);
    ASSERT_EQ(got.o, want.o);
  }
}

namespace {

struct DotCase {
  const char *elem, *acc, *precision, *target;
  int m, n, k;
  unsigned warps;
  bool transposedA, transposedB; // memory is column-major
};

/// Small integers: every product and sum is exact in every type.
std::string dotKernel(const DotCase &c) {
  auto tensor = [](int r, int s, const std::string &e) {
    return "tensor<" + std::to_string(r) + "x" + std::to_string(s) + "x" + e + ">";
  };
  std::string e = c.elem, text = "kernel @k(%a: ptr<" + e + "> {divisibility = 16}, %b: ptr<" + e +
                                 "> {divisibility = 16}, %c: ptr<" + c.acc + "> {divisibility = 16}) {\n";
  int id = 0;
  auto address = [&](const std::string &base, int rows, int columns, bool transposed, const std::string &elem) {
    std::string p = "%x" + std::to_string(id++) + "_";
    auto line = [&](const std::string &s) { text += "  " + s + "\n"; };
    std::string R = std::to_string(rows), C = std::to_string(columns);
    line(p + "r = range {start = 0} : tensor<" + R + "xi32>");
    line(p + "s = range {start = 0} : tensor<" + C + "xi32>");
    line(p + "r1 = expand_dims " + p + "r {axis = 1} : " + tensor(rows, 1, "i32"));
    line(p + "s1 = expand_dims " + p + "s {axis = 0} : " + tensor(1, columns, "i32"));
    line(p + "r2 = broadcast " + p + "r1 : " + tensor(rows, columns, "i32"));
    line(p + "s2 = broadcast " + p + "s1 : " + tensor(rows, columns, "i32"));
    line(p + "w = const {value = " + (transposed ? R : C) + "} : " + tensor(rows, columns, "i32"));
    line(p + "m = mul " + p + (transposed ? "s2" : "r2") + ", " + p + "w : " + tensor(rows, columns, "i32"));
    line(p + "o = add " + p + "m, " + p + (transposed ? "r2" : "s2") + " : " + tensor(rows, columns, "i32"));
    line(p + "q = splat " + base + " : " + tensor(rows, columns, "ptr<" + elem + ">"));
    line(p + "p = addptr " + p + "q, " + p + "o : " + tensor(rows, columns, "ptr<" + elem + ">"));
    return p + "p";
  };
  std::string pa = address("%a", c.m, c.k, c.transposedA, e), pb = address("%b", c.k, c.n, c.transposedB, e),
              pc = address("%c", c.m, c.n, false, c.acc);
  text +=
      "  %va = load " + pa + " : " + tensor(c.m, c.k, e) + "\n  %vb = load " + pb + " : " + tensor(c.k, c.n, e) + "\n";
  text += "  %vc = load " + pc + " : " + tensor(c.m, c.n, c.acc) + "\n";
  text +=
      "  %d = dot %va, %vb, %vc {precision = \"" + std::string(c.precision) + "\"} : " + tensor(c.m, c.n, c.acc) + "\n";
  return text + "  store " + pc + ", %d\n  return\n}\n";
}

} // namespace

/// Layouts by hand are refused where the operation stands.
TEST(GpuKernels, ABlockThatNoWarpHolds) {
  std::unique_ptr<Module> m = test::parsed(R"(
layout L1 = register: (0,32) (1,0) (2,0) (4,0); lane: (0,1) (0,2) (0,4) (0,16) (8,0); warp: (16,0) (0,8) -> dim0 32, dim1 64
kernel @k(%c: ptr<f32> {divisibility = 16}) {
  %rows = const {value = 64} : i32
  %one = const {value = 1} : i64
  %pitch = const {value = 64} : i64
  %zero = const {value = 0} : i32
  %d = const {value = 0.5} : tensor<32x64xf32, L1>
  desc_store %c, %rows, %rows, %pitch, %one, %zero, %zero, %d
  return
}
)");
  ASSERT_TRUE(m);
  SimKernel k(std::move(m), 4);
  EXPECT_FALSE(k.entry);
  EXPECT_NE(k.error.find("no rectangle to store"), std::string::npos) << k.error;
}

/// Three groups of warps, each with a barrier of its own, reduce at the same time through bytes of their own. (The
/// simulator reports races and barriers that not all of their threads come to.)
TEST(GpuKernels, PartitionsOfTheWarps) {
  std::unique_ptr<Module> m = test::parsed(R"(
layout L1 = register: 1 2; lane: 4 8 16 32 64; warp: 128 256 -> dim0 512
layout L2 = register: 1 2 256; lane: 4 8 16 32 64; warp: 128 -> dim0 512
layout L3 = lane: 0 0 0 0 0; warp: 0 0 -> dim0 1
kernel @k(%x: ptr<i32>, %sum: ptr<i32>, %most: ptr<i32>, %out: ptr<i32>) {
  %p = splat %x : tensor<512xptr<i32>, L1>
  %r = range {start = 0} : tensor<512xi32, L1>
  %a = addptr %p, %r : tensor<512xptr<i32>, L1>
  partitions {warps = [4, 2, 4], barriers = [1, 2, 3]} {
    %v = load %a {vec = 4} : tensor<512xi32, L1>
    %s = reduce %v {axis = 0} : i32 (%l: i32, %m: i32) {
      %t = add %l, %m
      yield %t
    }
    store %sum, %s
    yield
  } and {
    %p2 = splat %x : tensor<512xptr<i32>, L2>
    %r2 = range {start = 0} : tensor<512xi32, L2>
    %a2 = addptr %p2, %r2 : tensor<512xptr<i32>, L2>
    %v = load %a2 {vec = 4} : tensor<512xi32, L2>
    %s = reduce %v {axis = 0} : i32 (%l: i32, %m: i32) {
      %t = smax %l, %m
      yield %t
    }
    store %most, %s
    yield
  } and {
    %po = splat %out : tensor<512xptr<i32>, L1>
    %ro = range {start = 0} : tensor<512xi32, L1>
    %ao = addptr %po, %ro : tensor<512xptr<i32>, L1>
    %v = load %ao {vec = 4} : tensor<512xi32, L1>
    %s = reduce %v {axis = 0} : i32 (%l: i32, %m: i32) {
      %t = smin %l, %m
      yield %t
    }
    %b = splat %s : tensor<512xi32, L1>
    %d = add %ro, %b : tensor<512xi32, L1>
    store %ao, %d {vec = 4}
    yield
  }
  return
}
)");
  ASSERT_TRUE(m);
  SimKernel k(std::move(m), 4);
  ASSERT_TRUE(k.entry) << k.error;
  EXPECT_EQ(k.compiled.meta.threads, 320u);
  std::vector<int32_t> x(512), out(512), sum(4), most(4);
  for (int32_t i = 0; i < 512; ++i)
    x[static_cast<size_t>(i)] = (i * 37) % 1009, out[static_cast<size_t>(i)] = 1000 - i;
  uint64_t args[] = {reinterpret_cast<uint64_t>(x.data()), reinterpret_cast<uint64_t>(sum.data()),
                     reinterpret_cast<uint64_t>(most.data()), reinterpret_cast<uint64_t>(out.data())};
  sim::Extent buffers[] = {{args[0], 2048}, {args[1], 16}, {args[2], 16}, {args[3], 2048}};
  sim::Report r = k.run(args, buffers);
  ASSERT_FALSE(r.fault) << r.fault.text;
  EXPECT_EQ(sum[0], std::accumulate(x.begin(), x.end(), 0));
  EXPECT_EQ(most[0], *std::max_element(x.begin(), x.end()));
  for (int32_t i = 0; i < 512; ++i)
    EXPECT_EQ(out[static_cast<size_t>(i)], i + 1000 - 511);
}

TEST(GpuKernels, DotByEveryInstruction) {
  const DotCase cases[] = {
      {"f16", "f32", "ieee", "sim:sm_80", 16, 8, 16, 1, false, false},
      {"bf16", "f32", "ieee", "sim:sm_80", 32, 32, 32, 4, false, false},
      {"f16", "f16", "ieee", "sim:sm_80", 64, 16, 32, 4, true, true},
      {"f32", "f32", "tf32", "sim:sm_80", 32, 64, 16, 8, false, false},
      {"i8", "i32", "ieee", "sim:sm_80", 32, 16, 64, 2, false, true},
      {"f8e4m3fn", "f32", "ieee", "sim:sm_89", 64, 64, 32, 4, false, false},
      {"f32", "f32", "ieee", "sim", 32, 32, 16, 4, false, false},
      {"f64", "f64", "ieee", "sim", 16, 16, 16, 4, false, false},
      {"bf16", "f32", "ieee", "sim", 64, 64, 64, 4, false, false},
      {"bf16", "f32", "ieee", "sim", 128, 128, 32, 4, false, true},
      {"f16", "f32", "ieee", "sim", 64, 16, 16, 4, false, false},
      {"f16", "f32", "ieee", "sim", 64, 8, 16, 4, false, false},
      {"bf16", "f32", "ieee", "sim", 128, 64, 64, 8, true, false},
      {"bf16", "f32", "ieee", "sim", 64, 256, 16, 8, true, true},
      {"f16", "f16", "ieee", "sim", 64, 32, 64, 4, true, true},
      {"f32", "f32", "tf32", "sim", 64, 32, 32, 4, false, false},
      {"f8e5m2", "f32", "ieee", "sim", 64, 32, 64, 4, false, false},
      {"i8", "i32", "ieee", "sim", 64, 32, 32, 4, false, false},
      {"bf16", "f32", "ieee", "sim", 256, 64, 32, 8, false, false},
      {"bf16", "f32", "ieee", "sim", 64, 64, 128, 16, false, false},
  };
  for (const DotCase &c : cases) {
    std::string text = dotKernel(c);
    SCOPED_TRACE(std::string(c.elem) + " " + c.precision + " " + c.target + " " + std::to_string(c.m) + "x" +
                 std::to_string(c.n) + "x" + std::to_string(c.k) + " warps " + std::to_string(c.warps));
    auto m = tegula::test::parsed(text);
    ASSERT_TRUE(m);
    Elem elem = m->kernel()->block()->args[0]->type.elem, acc = m->kernel()->block()->args[2]->type.elem;
    auto fill = [](int count, Elem e, int salt) {
      std::vector<char> bytes(static_cast<size_t>(count) * byteWidth(e));
      for (int i = 0; i < count; ++i) {
        int v = (i * 7 + i / 13 * salt + salt) % 5 - 2;
        uint64_t bits = isInt(e) ? static_cast<uint64_t>(v) : encodeFloat(e, v);
        std::memcpy(bytes.data() + static_cast<size_t>(i) * byteWidth(e), &bits, byteWidth(e));
      }
      return bytes;
    };
    std::vector<char> a = fill(c.m * c.k, elem, 3), b = fill(c.k * c.n, elem, 11), want = fill(c.m * c.n, acc, 5),
                      got = want;
    auto at = [](std::vector<char> &v) { return reinterpret_cast<uint64_t>(v.data()); };
    Interp interp(*m);
    for (auto *v : {&a, &b, &want})
      interp.addBuffer(v->data(), v->size());
    uint64_t wantArgs[] = {at(a), at(b), at(want)}, gotArgs[] = {at(a), at(b), at(got)};
    ASSERT_TRUE(interp.run(wantArgs, {1, 1, 1}).ok);
    SimKernel k(*m, c.warps, c.target);
    ASSERT_TRUE(k.entry) << k.error;
    sim::Extent buffers[] = {{at(a), a.size()}, {at(b), b.size()}, {at(got), got.size()}};
    sim::Report r = k.run(gotArgs, buffers);
    EXPECT_FALSE(r.fault) << r.fault.text;
    EXPECT_EQ(got, want);
  }
}

namespace {

/// A row of softmax, as the front end makes it of tl.exp, tl.max and tl.sum.
std::string softmaxRow(unsigned columns) {
  std::string n = std::to_string(columns), f = "tensor<" + n + "xf32>";
  return "kernel @k(%x: ptr<bf16> {divisibility = 16}, %o: ptr<bf16> {divisibility = 16}, %cols: i32 {divisibility = 16}) {\n"
         "  %i = range {start = 0} : tensor<" + n + "xi32>\n"
         "  %c = splat %cols : tensor<" + n + "xi32>\n"
         "  %m = cmpi %i, %c {pred = slt} : tensor<" + n + "xi1>\n"
         "  %p = splat %x : tensor<" + n + "xptr<bf16>>\n"
         "  %q = addptr %p, %i : tensor<" + n + "xptr<bf16>>\n"
         "  %z = const {value = -1.0e30} : tensor<" + n + "xbf16>\n"
         "  %l = load %q, %m, %z : tensor<" + n + "xbf16>\n"
         "  %v = fpext %l : " + f + "\n"
         "  %a = reduce %v {axis = 0} : f32 (%a0: f32, %a1: f32) {\n    %a2 = maxnum %a0, %a1 : f32\n    yield %a2\n  }\n"
         "  %as = splat %a : " + f + "\n"
         "  %d = fsub %v, %as : " + f + "\n"
         "  %e = exp %d {approx = 1} : " + f + "\n"
         "  %s = reduce %e {axis = 0} : f32 (%s0: f32, %s1: f32) {\n    %s2 = fadd %s0, %s1 : f32\n    yield %s2\n  }\n"
         "  %ss = splat %s : " + f + "\n"
         "  %r = fdiv %e, %ss {approx = 1} : " + f + "\n"
         "  %t = fptrunc %r : tensor<" + n + "xbf16>\n"
         "  %u = splat %o : tensor<" + n + "xptr<bf16>>\n"
         "  %w = addptr %u, %i : tensor<" + n + "xptr<bf16>>\n"
         "  store %w, %t, %m\n  return\n}\n";
}

std::string ptxOfRow(unsigned columns, unsigned warps) {
  auto m = tegula::test::parsed(softmaxRow(columns));
  if (!m)
    return {};
  SimKernel k(*m, warps, "sm_90a");
  return k.compiled.code.empty() ? std::string() : k.compiled.code.data();
}

unsigned count(const std::string &text, const std::string &what) {
  unsigned n = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + what.size()))
    ++n;
  return n;
}

} // namespace

namespace {

/// `x / divisor` for 128 threads, where the divisor is made of %x and %e = exp(-x).
std::string ptxOfQuotient(const std::string &divisor) {
  const std::string f = "tensor<128xf32>";
  auto m = tegula::test::parsed("kernel @k(%in: ptr<f32> {divisibility = 16}, %out: ptr<f32> {divisibility = 16}) {\n"
                                "  %i = range {start = 0} : tensor<128xi32>\n"
                                "  %p = splat %in : tensor<128xptr<f32>>\n"
                                "  %from = addptr %p, %i : tensor<128xptr<f32>>\n"
                                "  %x = load %from : " + f + "\n"
                                "  %one = const {value = 1.0} : " + f + "\n"
                                "  %n = fneg %x : " + f + "\n"
                                "  %e = exp %n {approx = 1} : " + f + "\n" + divisor +
                                "  %r = fdiv %x, %y {approx = 1} : " + f + "\n"
                                                                           "  %u = splat %out : tensor<128xptr<f32>>\n"
                                                                           "  %w = addptr %u, %i : tensor<128xptr<f32>>\n"
                                                                           "  store %w, %r\n  return\n}\n");
  if (!m)
    return {};
  SimKernel k(*m, 4, "sm_90a");
  return k.compiled.code.empty() ? std::string() : k.compiled.code.data();
}

} // namespace

/// Where a divisor is 1/2 or more, its reciprocal needs no scale that depends on it.
TEST(GpuKernels, DivisionsByLargeNumbers) {
  for (const char *large :
       {"%y = fadd %e, %one", "%y = fadd %one, %e", "%a = fabs %x : tensor<128xf32>\n  %y = fadd %a, %one",
        "%s = fmul %x, %x : tensor<128xf32>\n  %y = fadd %s, %one", "%y = maximum %x, %one",
        "%c = const {value = 2.0} : tensor<128xf32>\n  %s = maxnum %e, %c : tensor<128xf32>\n  %y = fadd %s, %one"}) {
    const std::string ptx = ptxOfQuotient(std::string("  ") + large + " : tensor<128xf32>\n");
    EXPECT_EQ(count(ptx, "rcp.approx.ftz.f32"), 1u) << large << "\n" << ptx;
    EXPECT_EQ(count(ptx, "div.full"), 0u) << large;
  }
  for (const char *any : {"%y = fsub %e, %one", "%y = fsub %one, %e", "%y = fadd %x, %one",
                          "%s = fmul %x, %e : tensor<128xf32>\n  %y = fadd %s, %one", "%y = maxnum %x, %one",
                          "%y = minimum %e, %one", "%c = const {value = 0.25} : tensor<128xf32>\n  %y = fadd %e, %c"})
    EXPECT_EQ(count(ptxOfQuotient(std::string("  ") + any + " : tensor<128xf32>\n"), "div.full"), 1u) << any;
}

/// What a memory-bound row kernel must not spend: 16 elements in each of 256 threads.
TEST(GpuKernels, InstructionsOfARow) {
  std::string ptx = ptxOfRow(4096, 8);
  ASSERT_FALSE(ptx.empty());
  const std::pair<const char *, unsigned> wanted[] = {
      {"ex2.approx", 16},         // one for each element
      {"fma.rn.sat", 0},          // no reduction of the argument where the language asks for none
      {"div.", 0},                // one reciprocal
      {"rcp.approx", 1},
      {"rcp.rn", 0},              // a call, which costs registers
      {"max.bf16x2", 7},          // pairs, as loaded
      {"setp.lt.s32", 2},         // one mask for each vector
      {"bar.sync", 2},            // one for each reduction
      {"ld.shared.v4", 4},        // the parts of 8 warps, twice
      {"ld.global.v4", 2},
      {"st.global.v4", 2},
      {".minnctapersm 6", 1},     // 16 registers of data and 24 more: 1536 threads
  };
  for (auto [text, n] : wanted)
    EXPECT_EQ(count(ptx, text), n) << text << "\n" << ptx;
}

/// Blocks that should share an SM follow from the data of a thread. In a tile of rows the maximum of each counts once,
/// not once for each column, and what the reductions read counts as much as in a single row: 64 registers of data and
/// 40 more.
TEST(GpuKernels, BlocksOnAnSMOfATileOfRows) {
  const char *text = R"(
kernel @k(%x: ptr<f32> {divisibility = 16}, %o: ptr<f32> {divisibility = 16}) {
  %i = range {start = 0} : tensor<16384xi32>
  %j = reshape %i : tensor<2x8192xi32>
  %p = splat %x : tensor<2x8192xptr<f32>>
  %q = addptr %p, %j : tensor<2x8192xptr<f32>>
  %v = load %q : tensor<2x8192xf32>
  %w = fabs %v : tensor<2x8192xf32>
  %a = reduce %w {axis = 1} : tensor<2xf32> (%a0: f32, %a1: f32) {
    %a2 = maxnum %a0, %a1 : f32
    yield %a2
  }
  %b = expand_dims %a {axis = 1} : tensor<2x1xf32>
  %c = broadcast %b : tensor<2x8192xf32>
  %d = fsub %v, %c : tensor<2x8192xf32>
  %e = exp %d {approx = 1} : tensor<2x8192xf32>
  %s = reduce %e {axis = 1} : tensor<2xf32> (%s0: f32, %s1: f32) {
    %s2 = fadd %s0, %s1 : f32
    yield %s2
  }
  %t = expand_dims %s {axis = 1} : tensor<2x1xf32>
  %u = broadcast %t : tensor<2x8192xf32>
  %r = fsub %d, %u : tensor<2x8192xf32>
  %y = splat %o : tensor<2x8192xptr<f32>>
  %z = addptr %y, %j : tensor<2x8192xptr<f32>>
  store %z, %r
  return
}
)";
  auto m = tegula::test::parsed(text);
  ASSERT_TRUE(m);
  SimKernel k(*m, 8, "sm_90a");
  ASSERT_FALSE(k.compiled.code.empty());
  EXPECT_NE(std::string(k.compiled.code.data()).find(".minnctapersm 2"), std::string::npos);
}

/// Conditions are combined by a vote, narrow integers and the halves of wide ones by redux.sync: no shuffles.
TEST(GpuKernels, CombinesAcrossLanesByOneInstruction) {
  struct Case {
    const char *type, *op, *instruction;
    unsigned n; // times
  };
  for (const Case &c : {Case{"i1", "or", "vote.sync.ballot", 1}, Case{"i1", "xor", "popc.b32", 1},
                        Case{"i8", "smax", "redux.sync.max.s32", 1}, Case{"i16", "add", "redux.sync.add.s32", 1},
                        Case{"i64", "or", "redux.sync.or.b32", 2}}) {
    std::string t = c.type, text = R"(
kernel @k(%x: ptr<)" + t + R"(> {divisibility = 16}, %o: ptr<)" + t + R"(> {divisibility = 16}) {
  %i = range {start = 0} : tensor<32xi32>
  %p = splat %x : tensor<32xptr<)" + t + R"(>>
  %q = addptr %p, %i : tensor<32xptr<)" + t + R"(>>
  %v = load %q : tensor<32x)" + t + R"(>
  %a = reduce %v {axis = 0} : )" + t + " (%a0: " + t + ", %a1: " + t + R"() {
    %a2 = )" + c.op + " %a0, %a1 : " + t + R"(
    yield %a2
  }
  store %o, %a
  return
}
)";
    auto m = tegula::test::parsed(text);
    ASSERT_TRUE(m) << text;
    SimKernel k(*m, 1, "sm_90a");
    std::string ptx(k.compiled.code.data(), k.compiled.code.size());
    EXPECT_EQ(count(ptx, c.instruction), c.n) << ptx;
    EXPECT_EQ(count(ptx, "shfl.sync"), 0u) << ptx;
  }
}

/// Blocks that should share an SM follow from the data of a thread.
TEST(GpuKernels, BlocksOnAnSM) {
  struct Row {
    unsigned columns, warps;
    const char *wish; // one block: what is alive at once takes the registers of two
  };
  for (const Row &r :
       {Row{8192, 8, ".minnctapersm 4"}, Row{16384, 16, ".minnctapersm 2"}, Row{32768, 16, ".minnctapersm 1"}}) {
    std::string ptx = ptxOfRow(r.columns, r.warps);
    EXPECT_EQ(count(ptx, ".minnctapersm"), 1u) << r.columns;
    EXPECT_NE(ptx.find(r.wish), ptx.npos) << r.columns;
    // Many warps exchange their parts lane by lane. The sum goes by shuffles, the maximum by one instruction.
    EXPECT_EQ(count(ptx, "shfl.sync.bfly"), r.warps > 8 ? 9u : 5u);
    EXPECT_EQ(count(ptx, "redux.sync.max"), r.warps > 8 ? 2u : 1u);
  }
}

namespace {

/// A row of bytes goes through `ops` (of %x, the last one makes %r) to a row of `result`.
std::string bytesKernel(const char *elem, const std::string &ops, const char *result, int n) {
  std::string N = std::to_string(n),
              text = "kernel @k(%a: ptr<" + std::string(elem) + "> {divisibility = 16}, %o: ptr<" + result +
                     "> {divisibility = 16}) {\n  %i = range {start = 0} : tensor<" + N + "xi32>\n";
  auto address = [&](const char *name, const char *base, const std::string &e) {
    std::string q = std::string(name) + "q", t = "tensor<" + N + "xptr<" + e + ">>";
    text += "  " + q + " = splat " + base + " : " + t + "\n  " + name + " = addptr " + q + ", %i : " + t + "\n";
  };
  address("%pa", "%a", elem);
  address("%po", "%o", result);
  text += "  %x = load %pa : tensor<" + N + "x" + elem + ">\n";
  for (size_t at = 0, end; at < ops.size(); at = end + 1) { // "name = kind operands : elem;"
    end = ops.find(';', at);
    std::string line = ops.substr(at, end - at);
    size_t colon = line.rfind(": ") + 2;
    text += "  " + line.substr(0, colon) + "tensor<" + N + "x" + line.substr(colon) + ">\n";
  }
  return text + "  store %po, %r\n  return\n}\n";
}

struct BytesCase {
  const char *elem, *ops, *result;
  unsigned words;      // prmt of 256 elements by 32 threads; what is done by words needs no more
  const char *missing; // PTX that one element at a time would take
};

const BytesCase bytesCases[] = {
    {"i8", "%c = const {value = 3} : i8;%r = shl %x, %c : i8;", "i8", 0, ".u16"},
    {"i8", "%c = const {value = 3} : i8;%r = lshr %x, %c : i8;", "i8", 0, ".u16"},
    {"i8", "%c = const {value = 4} : i8;%r = ashr %x, %c : i8;", "i8", 0, ".s16"},
    {"i8", "%c = const {value = 7} : i8;%r = ashr %x, %c : i8;", "i8", 0, ".s16"},
    {"i8", "%c = const {value = 0} : i8;%r = ashr %x, %c : i8;", "i8", 0, ".s16"},
    {"i8", "%c = const {value = -87} : i8;%y = and %x, %c : i8;%d = const {value = 5} : i8;%z = or %y, %d : i8;%r = xor %z, %x : i8;",
     "i8", 0, ".b16"},
    {"i16", "%c = const {value = 5} : i16;%s = shl %x, %c : i16;%t = ashr %s, %c : i16;%r = xor %t, %x : i16;", "i16", 0, ".s16"},
    {"i16", "%c = const {value = 15} : i16;%r = ashr %x, %c : i16;", "i16", 0, ".s16"},
    {"i16", "%c = const {value = 9} : i16;%r = lshr %x, %c : i16;", "i16", 0, ".u16"},
    {"i8", "%r = sitofp %x : f32;", "f32", 8, "cvt.rn.f32"},
    {"i8", "%r = uitofp %x : f32;", "f32", 8, "cvt.rn.f32"},
    {"i8", "%r = sitofp %x : f16;", "f16", 4, "cvt.rn"},
    {"i8", "%r = uitofp %x : f16;", "f16", 4, "cvt.rn"},
    {"i8", "%f = sitofp %x : f32;%r = fptrunc %f : bf16;", "bf16", 4, "cvt.rn"},
    {"i8", "%f = uitofp %x : f32;%r = fptrunc %f : bf16;", "bf16", 8, nullptr},
    {"i8", "%c = const {value = 4} : i8;%s = shl %x, %c : i8;%t = ashr %s, %c : i8;%f = sitofp %t : f32;%r = fptrunc %f : bf16;", "bf16", 4, "cvt.rn"},
    {"i8", "%c = const {value = 1} : i8;%t = ashr %x, %c : i8;%f = sitofp %t : f32;%r = fptrunc %f : bf16;", "bf16", 4, "cvt.rn"},
    {"i8", "%c = const {value = 1} : i8;%t = ashr %x, %c : i8;%f = uitofp %t : f32;%r = fptrunc %f : f16;", "f16", 4, "cvt.rn"},
    {"i8", "%c = const {value = 2} : i8;%t = lshr %x, %c : i8;%f = uitofp %t : f32;%r = fptrunc %f : bf16;", "bf16", 4, "cvt.rn"},
    {"i8", "%c = const {value = 127} : i8;%t = and %x, %c : i8;%r = sitofp %t : bf16;", "bf16", 4, "cvt.rn"},
    {"i8", "%c = const {value = 3} : i8;%t = ashr %x, %c : i8;%r = sitofp %t : f32;", "f32", 8, "cvt.rn.f32"},
    // Digits that a mask or a shift leaves keep their number through sums with constants: no bit of a sign is apart.
    {"i8", "%c = const {value = 15} : i8;%t = and %x, %c : i8;%d = const {value = -8} : i8;%s = add %t, %d : i8;%f = sitofp %s : f32;%r = fptrunc %f : bf16;", "bf16", 4, "xor"},
    {"i8", "%c = const {value = 4} : i8;%t = lshr %x, %c : i8;%d = const {value = 8} : i8;%s = sub %t, %d : i8;%f = sitofp %s : f32;%r = fptrunc %f : f16;", "f16", 4, "xor"},
    {"i8", "%c = const {value = 4} : i8;%t = ashr %x, %c : i8;%d = const {value = 40} : i8;%s = add %t, %d : i8;%f = sitofp %s : f32;%r = fptrunc %f : bf16;", "bf16", 4, "cvt.rn"},
    {"i8", "%c = const {value = 4} : i8;%t = ashr %x, %c : i8;%d = const {value = -8} : i8;%s = add %t, %d : i8;%f = uitofp %s : f32;%r = fptrunc %f : f16;", "f16", 4, "cvt.rn"},
    {"i8", "%c = const {value = 127} : i8;%t = and %x, %c : i8;%d = const {value = 100} : i8;%s = add %t, %d : i8;%f = sitofp %s : f32;%r = fptrunc %f : f16;", "f16", 4, "cvt.rn"},
    {"i8", "%c = const {value = 127} : i8;%t = and %x, %c : i8;%d = const {value = 100} : i8;%s = sub %t, %d : i8;%r = sitofp %s : f32;", "f32", 8, "cvt.rn.f32"},
    {"i8", "%r = zext %x : i16;", "i16", 4, "cvt.u16"},
    {"i8", "%z = zext %x : i16;%c = const {value = 8} : i16;%r = shl %z, %c : i16;", "i16", 4, "cvt.u16"},
    {"i8", "%z = zext %x : i16;%c = const {value = 3} : i16;%r = shl %z, %c : i16;", "i16", 4, "cvt.u16"},
    {"f8e5m2", "%r = fpext %x : f16;", "f16", 4, "cvt.u"},
    {"f8e4m3fn", "%r = fpext %x : f16;", "f16", 0, "cvt.u16"},
    {"f8e4m3fn", "%r = fpext %x : f32;", "f32", 0, "cvt.u16"},
    {"f8e5m2", "%r = fpext %x : f32;", "f32", 4, "cvt.u16"},
    {"f8e4m3fn", "%f = fpext %x : f32;%r = fptrunc %f : bf16;", "bf16", 0, "cvt.u16"},
    {"f8e5m2", "%f = fpext %x : f32;%r = fptrunc %f : bf16;", "bf16", 4, "cvt.u16"},
    {"f16", "%r = fmul %x, %x : f16;", "f16", 0, ".f32"},
    {"bf16", "%r = fmul %x, %x : bf16;", "bf16", 0, ".f32"},
    {"bf16", "%c = const {value = 3.0} : bf16;%r = fadd %x, %c : bf16;", "bf16", 0, ".f32"},
    {"f16", "%c = const {value = 3.0} : f16;%r = fsub %c, %x : f16;", "f16", 0, ".f32"},
    {"bf16", "%c = const {value = 3.0} : bf16;%d = fmul %x, %c : bf16;%r = fsub %x, %d : bf16;", "bf16", 0, ".f32"},
};

/// Every NaN of these elements becomes the same.
void oneNan(Elem e, std::vector<uint8_t> &bytes) {
  uint32_t infinity = e == Elem::F16 ? 0x7C00 : e == Elem::BF16 ? 0x7F80 : e == Elem::F32 ? 0x7F800000 : 0;
  size_t width = byteWidth(e);
  for (size_t i = 0; infinity && i < bytes.size(); i += width) {
    uint32_t x = 0;
    memcpy(&x, &bytes[i], width);
    uint32_t size = x & (width == 2 ? 0x7FFF : 0x7FFFFFFF);
    if (size > infinity)
      memset(&bytes[i], 0x7F, width);
  }
}

} // namespace

/// All 256 bytes, and many pairs of them, through what is done a word at a time.
TEST(GpuKernels, BytesAreDoneByWords) {
  constexpr int n = 1024;
  for (const BytesCase &c : bytesCases) {
    SCOPED_TRACE(std::string(c.elem) + " " + c.ops);
    auto module = [&](int elements) { return tegula::test::parsed(bytesKernel(c.elem, c.ops, c.result, elements)); };
    auto m = module(n);
    ASSERT_TRUE(m);
    size_t inBytes = byteWidth(m->kernel()->block()->args[0]->type.elem) * n,
           outBytes = byteWidth(m->kernel()->block()->args[1]->type.elem) * n;
    std::vector<uint8_t> a(inBytes), want(outBytes), got(outBytes);
    for (size_t i = 0; i < inBytes; ++i)
      a[i] = static_cast<uint8_t>(i < 256 ? i : i * 37 + i / 256 * 11);
    uint64_t wantArgs[] = {reinterpret_cast<uint64_t>(a.data()), reinterpret_cast<uint64_t>(want.data())};
    uint64_t gotArgs[] = {wantArgs[0], reinterpret_cast<uint64_t>(got.data())};
    Interp interp(*m);
    interp.addBuffer(a.data(), a.size());
    interp.addBuffer(want.data(), want.size());
    ASSERT_TRUE(interp.run(wantArgs, {1, 1, 1}).ok);
    SimKernel k(*m, 1);
    ASSERT_TRUE(k.entry) << k.error;
    sim::Extent buffers[] = {{gotArgs[0], a.size()}, {gotArgs[1], got.size()}};
    sim::Report r = k.run(gotArgs, buffers);
    EXPECT_FALSE(r.fault) << r.fault.text;
    Elem elem = m->kernel()->block()->args[1]->type.elem;
    oneNan(elem, got);
    oneNan(elem, want);
    EXPECT_EQ(got, want);

    nvidia::Options options;
    options.verify = true;
    options.numWarps = 1;
    DiagEngine diag;
    auto gpu = nvidia::compile(*module(256), *nvidia::parseTarget("sm_90a"), options, diag);
    ASSERT_TRUE(gpu);
    std::string ptx(gpu->code.begin(), gpu->code.end());
    if (c.missing) {
      EXPECT_EQ(count(ptx, "prmt"), c.words) << ptx;
      EXPECT_EQ(ptx.find(c.missing), std::string::npos) << ptx;
    }
  }
}
