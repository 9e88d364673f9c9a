// The partition of a kernel among the CTAs of a cluster: IR in, IR out. Each case says what the parts must look like; a
// case without lines must not be shared, and its remark says why.
#include "ParsedIr.h"
#include "RandomKernel.h"
#include "gpu/layouts/AssignLayouts.h"
#include "gpu/parts/PartitionCluster.h"
#include "ir/Text.h"
#include "ir/Verifier.h"
#include "targets/nvidia/TargetInfo.h"
#include <gtest/gtest.h>

using namespace tegula;

namespace {

struct Case {
  const char *name;
  unsigned ctas;
  const char *body;
  std::vector<const char *> has; // lines, in this order; "!" in front: nowhere
  const char *remark = nullptr;
};


const Case cases[] = {
    {"Rows of a dot", 2, R"(  %pa = splat %x : tensor<128x64xptr<f16>>
  %pb = splat %x : tensor<64x256xptr<f16>>
  %po = splat %y : tensor<128x256xptr<f32>>
  %a = load %pa : tensor<128x64xf16>
  %b = load %pb : tensor<64x256xf16>
  %zero = const {value = 0.0} : tensor<128x256xf32>
  %d = dot %a, %b, %zero {precision = "ieee"} : tensor<128x256xf32>
  store %po, %d)",
     {"%a = load %pa : tensor<64x64xf16>", "load %pb {whole = 1} : tensor<64x256xf16>", ": tensor<64x256xf32>", "dot", ": tensor<64x256xf32>", "!cluster_gather"}},
    {"Columns of a dot with few rows", 2, R"(  %pa = splat %x : tensor<64x64xptr<f16>>
  %pb = splat %x : tensor<64x256xptr<f16>>
  %po = splat %y : tensor<64x256xptr<f32>>
  %a = load %pa : tensor<64x64xf16>
  %b = load %pb : tensor<64x256xf16>
  %zero = const {value = 0.0} : tensor<64x256xf32>
  %d = dot %a, %b, %zero {precision = "ieee"} : tensor<64x256xf32>
  store %po, %d)",
     {"%a = load", "{whole = 1} : tensor<64x64xf16>", "%b = load", ": tensor<64x128xf16>", "dot", ": tensor<64x128xf32>"}},
    {"Ranges begin at the part", 4, R"(  %i = range {start = 0} : tensor<256xi32>
  %p0 = splat %y : tensor<256xptr<f32>>
  %p = addptr %p0, %i : tensor<256xptr<f32>>
  %v = load %p : tensor<256xf32>
  store %p, %v)",
     {"cluster_rank : i32", "const {value = 64} : i32", "mul", "range {start = 0} : tensor<64xi32>", "add", ": tensor<64xi32>", "load", ": tensor<64xf32>", "!whole"}},
    {"One range on two axes", 2, R"(  %i = range {start = 0} : tensor<32xi32>
  %r0 = expand_dims %i {axis = 1} : tensor<32x1xi32>
  %r = broadcast %r0 : tensor<32x32xi32>
  %c0 = expand_dims %i {axis = 0} : tensor<1x32xi32>
  %c = broadcast %c0 : tensor<32x32xi32>
  %at = add %r, %c : tensor<32x32xi32>
  %p0 = splat %y : tensor<32x32xptr<f32>>
  %p = addptr %p0, %at : tensor<32x32xptr<f32>>
  %v = load %p : tensor<32x32xf32>
  store %p, %v)",
     {"tensor<16x1xi32>", "tensor<1x32xi32>", "load", "tensor<16x32xf32>"}},
    {"A sum along the split axis", 2, R"(  %p = splat %y : tensor<512xptr<f32>>
  %v = load %p : tensor<512xf32>
  %s = reduce %v {axis = 0} : f32 (%l: f32, %r: f32) {
    %t = fadd %l, %r : f32
    yield %t
  }
  store %y, %s)",
     {"tensor<256xf32>", "reduce", "cluster_gather", ": tensor<2xf32>", "reduce", "{axis = 0} : f32", "store %y, %s {whole = 1}"}},
    {"Rows rather than what is summed", 2, R"(  %p = splat %y : tensor<8x512xptr<f32>>
  %v = load %p : tensor<8x512xf32>
  %s = reduce %v {axis = 1} : tensor<8xf32> (%l: f32, %r: f32) {
    %t = fadd %l, %r : f32
    yield %t
  }
  %s1 = expand_dims %s {axis = 1} : tensor<8x1xf32>
  %s2 = broadcast %s1 : tensor<8x512xf32>
  %d = fdiv %v, %s2 : tensor<8x512xf32>
  store %p, %d)",
     {"tensor<4x512xf32>", "reduce", ": tensor<4xf32>", "tensor<4x1xf32>", "tensor<4x512xf32>", "!cluster_gather"}},
    {"Blocks of descriptors", 2, R"(  %e = const {value = 512} : i32
  %n = const {value = 512} : i64
  %one = const {value = 1} : i64
  %v = desc_load %y, %e, %e, %n, %one, %m, %m : tensor<64x128xf32>
  desc_store %y, %e, %e, %n, %one, %m, %m, %v)",
     {"const {value = 64} : i32", "add %m, ", "desc_load", ": tensor<64x64xf32>", "add %m, ", "desc_store", "{part = 1, tiled = 0}"}},
    {"Histogram", 2, R"(  %p = splat %z : tensor<64xptr<i32>>
  %v = load %p : tensor<64xi32>
  %h = histogram %v : tensor<16xi32>
  %q = splat %z : tensor<16xptr<i32>>
  store %q, %h)",
     {"tensor<32xi32>", "histogram", ": tensor<16xi32>", "cluster_gather", ": tensor<2x16xi32>", "reduce", ": tensor<16xi32>", "{whole = 1}"},
     "the 2 CTAs of a cluster do not share the work of a store, because of this histogram: every part has elements of all bins"},
    {"Carried values", 2, R"(  %p = splat %y : tensor<64xptr<f32>>
  %zero = const {value = 0.0} : tensor<64xf32>
  %l = const {value = 0} : i32
  %s = const {value = 1} : i32
  %acc = for %l, %m, %s, %zero : tensor<64xf32> (%i: i32, %a: tensor<64xf32>) {
    %v = load %p : tensor<64xf32>
    %n = fadd %a, %v : tensor<64xf32>
    yield %n
  }
  store %p, %acc)",
     {"for", "tensor<32xf32> (%i: i32, %a: tensor<32xf32>)", "yield", "store"}},
    {"Hints hold of the part", 2, R"(  %i = range {start = 0} : tensor<64xi32>
  %p0 = splat %y : tensor<64xptr<f32>>
  %m0 = splat %m : tensor<64xi32>
  %at = add %i, %m0 {divisibility = [64], contiguity = [64]} : tensor<64xi32>
  %p = addptr %p0, %at : tensor<64xptr<f32>>
  %v = load %p : tensor<64xf32>
  store %p, %v)",
     {"{divisibility = [32], contiguity = [64]} : tensor<32xi32>"}},
    {"Atomics of scalars are done once", 2, R"(  %p = splat %z : tensor<64xptr<i32>>
  %v = load %p : tensor<64xi32>
  %o = atomic_rmw %p, %v {rmw = "add"} : tensor<64xi32>
  %t = atomic_rmw %z, %m {rmw = "add"} : i32
  store %z, %t)",
     {"atomic_rmw", "{rmw = \"add\"} : tensor<32xi32>", "{rmw = \"add\", whole = 1} : i32", "{whole = 1}"}},
    {"Reshape keeps what begins at the same place", 2, R"(  %p = splat %y : tensor<32x8xptr<f32>>
  %v = load %p : tensor<32x8xf32>
  %w = reshape %v : tensor<256xf32>
  %q = splat %y : tensor<256xptr<f32>>
  store %q, %w)",
     {"load", ": tensor<16x8xf32>", "reshape", ": tensor<128xf32>", "store"}},
    {"Reshape dissolves the only axis that nothing else keeps", 2, R"(  %p = splat %y : tensor<32x8xptr<f32>>
  %v = load %p : tensor<32x8xf32>
  %s = scan %v {axis = 0} : tensor<32x8xf32> (%l: f32, %r: f32) {
    %t = fadd %l, %r : f32
    yield %t
  }
  %w = reshape %s : tensor<256xf32>
  %q = splat %y : tensor<256xptr<f32>>
  store %q, %w)",
     {}, "the 2 CTAs of a cluster do not share the work of a store, because of this scan: it goes along axis 0 of tensor<32x8xf32>"},
    {"Branches", 2, R"(  %p = splat %y : tensor<64xptr<f32>>
  %zero = const {value = 0} : i32
  %c = cmpi %m, %zero {pred = sgt} : i1
  %v = if %c : tensor<64xf32> {
    %a = load %p : tensor<64xf32>
    yield %a
  } else {
    %b = const {value = 1.0} : tensor<64xf32>
    yield %b
  }
  store %p, %v)",
     {"if %c : tensor<32xf32>", "load", ": tensor<32xf32>", "const {value = 1.0} : tensor<32xf32>", "store"}},
    {"Scans", 2, R"(  %p = splat %y : tensor<64xptr<f32>>
  %v = load %p : tensor<64xf32>
  %s = scan %v {axis = 0} : tensor<64xf32> (%l: f32, %r: f32) {
    %t = fadd %l, %r : f32
    yield %t
  }
  store %p, %s)",
     {}, "the 2 CTAs of a cluster do not share the work of a store, because of this scan: it goes along axis 0 of tensor<64xf32>"},
    {"Too short", 4, R"(  %p = splat %y : tensor<2xptr<f32>>
  %v = load %p : tensor<2xf32>
  store %p, %v)",
     {}, "the 4 CTAs of a cluster do not share the work of a store, because of this store: an axis of 2 is too short for 4 parts"},
    {"A tensor and its transpose", 2, R"(  %p = splat %y : tensor<32x32xptr<f32>>
  %v = load %p : tensor<32x32xf32>
  %t = permute %v {perm = [1, 0]} : tensor<32x32xf32>
  %s = fadd %v, %t : tensor<32x32xf32>
  store %p, %s)",
     {}, "the 2 CTAs of a cluster do not share the work of a store, because of this store: a tensor would have to be split along two axes"},
    {"Programs that wait", 2, R"(  %f = load %z {volatile = 1} : i32
  %p = splat %y : tensor<64xptr<f32>>
  %v = load %p : tensor<64xf32>
  store %p, %v)",
     {}, "the 2 CTAs of a cluster do not share the work of a kernel, because of this load: it may wait for a value that another program stores"},
    {"Too many maps", 2, R"(  %e = const {value = 512} : i32
  %n = const {value = 512} : i64
  %one = const {value = 1} : i64
  %v0 = desc_load %y, %e, %e, %n, %one, %m, %m : tensor<8x8xf32>
  %v1 = desc_load %y, %e, %e, %n, %one, %m, %m : tensor<16x8xf32>
  %v2 = desc_load %y, %e, %e, %n, %one, %m, %m : tensor<32x8xf32>
  %v3 = desc_load %y, %e, %e, %n, %one, %m, %m : tensor<64x8xf32>
  %v4 = desc_load %y, %e, %e, %n, %one, %m, %m : tensor<8x16xf32>
  %v5 = desc_load %y, %e, %e, %n, %one, %m, %m : tensor<16x16xf32>
  %v6 = desc_load %y, %e, %e, %n, %one, %m, %m : tensor<32x16xf32>
  %v7 = desc_load %y, %e, %e, %n, %one, %m, %m : tensor<64x16xf32>
  %v8 = desc_load %y, %e, %e, %n, %one, %m, %m : tensor<8x32xf32>
  %p = splat %y : tensor<8x32xptr<f32>>
  store %p, %v8)",
     {}, "the 2 CTAs of a cluster do not share the work of a kernel, because of this desc_load: it accesses more than 8 kinds of blocks through descriptors"},
    {"Printed tensors", 2, R"(  %p = splat %y : tensor<64xptr<f32>>
  %v = load %p : tensor<64xf32>
  print %v {prefix = "v", hex = 0}
  store %p, %v)",
     {}, "the 2 CTAs of a cluster do not share the work of a store, because of this print: it takes the whole tensor"},
};

std::string text(const Case &c) {
  return std::string("kernel @k(%x: ptr<f16>, %y: ptr<f32>, %z: ptr<i32>, %m: i32 {divisibility = 16}) {\n") + c.body +
         "\n  return\n}\n";
}

} // namespace

TEST(GpuCluster, Partition) {
  for (const Case &c : cases) {
    SCOPED_TRACE(c.name);
    DiagEngine diag;
    auto m = tegula::test::parsed(text(c));
    ASSERT_TRUE(m);
    auto part = gpu::partitionCluster(*m, c.ctas, &diag);
    EXPECT_EQ(c.has.empty(), !part);
    std::string remark;
    for (const Diagnostic &d : diag.all())
      remark += d.message();
    EXPECT_EQ(remark, c.remark ? c.remark : "");
    if (!part)
      continue;
    std::string why, now = ir::print(*part);
    EXPECT_TRUE(ir::verify(*part, &why)) << why << "\n" << now;
    size_t at = 0;
    for (std::string_view line : c.has) {
      if (line[0] == '!') {
        EXPECT_EQ(now.find(line.substr(1)), std::string::npos) << line << "\n" << now;
        continue;
      }
      size_t found = now.find(line, at);
      EXPECT_NE(found, std::string::npos) << line << "\n" << now;
      at = found == std::string::npos ? at : found + line.size();
    }
  }
}

// Whatever is split, the result is valid, and so is what the next pass makes of it.
TEST(GpuCluster, RandomKernels) {
  unsigned split = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    ir::Module m;
    test::RandomKernel generate(m, seed);
    auto part = gpu::partitionCluster(m, 2u << seed % 3);
    if (!part)
      continue;
    ++split;
    std::string why;
    ASSERT_TRUE(ir::verify(*part, &why)) << "seed " << seed << "\n" << why << "\n" << ir::print(*part);
    ASSERT_TRUE(ir::verify(*gpu::assignLayouts(*part, nvidia::NvTargetInfo({}), {}), &why)) << "seed " << seed << "\n"
                                                                                            << why;
  }
  EXPECT_GT(split, 50u);
}
